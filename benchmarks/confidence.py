"""Is a calibrated confidence worth what it says? Fitted on synthetic pages, measured on synthetic pages of other seeds.

    python benchmarks/confidence.py [--pages N] [--out DIR] [--write FILE] [--json FILE]

Pages of every document type and treatment are drawn (``certloop synth make``), read (``certloop extract``) and compared with
their labels. The fit sees seeds 101 and 303, the figures come from seed 202: calibration error before and after, what passes at
several accepted error rates and how much of that is wrong, over fields and over whole documents. ``--out`` keeps pages and
readings, so that a second run is quick; ``--write`` saves the fit (``serve/confidence/default.json`` is such a file). Synthetic
pages are cleaner than life: a tenant's own reviews are what counts (``certloop confidence fit``).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from certloop.extract.evaluation import evaluate, read_labels, schema_from_registry
from certloop.extract.evaluation.results import read_results
from certloop.serve.confidence.calibration import Calibration
from certloop.serve.confidence.fit import RATES, Sample, ece, fit, passing
from certloop.templates import load_types

PROFILES = {"clean": 0.15, "scan": 0.3, "copy": 0.15, "photo": 0.25, "screen": 0.05, "hard": 0.1}
SETS = {"fit": (101, 0.4), "fit2": (303, 0.33), "held": (202, 0.27)}
"""Seed and share of the pages of each set."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=900)
    parser.add_argument("--out", type=Path, default=None, help="keep pages and readings here")
    parser.add_argument("--write", type=Path, default=None, help="save the fitted calibration")
    parser.add_argument("--json", type=Path, default=None, help="save the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        parts = {
            name: read_set(folder, name, seed, max(10, round(options.pages * share))) for name, (seed, share) in SETS.items()
        }
    held = parts["held"]
    made = fit([*parts["fit"], *parts["fit2"]], version="builtin-1", source="synthetic pages of every type and treatment")
    figures = measure(made, held)
    show(figures)
    if options.write:
        options.write.write_text(json.dumps(made.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def read_set(folder: Path, name: str, seed: int, count: int) -> list[Sample]:
    """Draw and read one set, unless it is there, and score every answered field."""
    pages, readings = folder / name, folder / f"{name}.jsonl"
    if not readings.exists():
        mix = [word for profile, weight in PROFILES.items() for word in ("--profile", f"{profile}={weight}")]
        run("synth", "make", "--type", "all", "--out", str(pages), "--count", str(count), "--seed", str(seed), *mix)
        partial = readings.with_suffix(".partial")
        with partial.open("wb") as out:
            run("extract", str(pages / "images"), "-r", "--format", "jsonl", stdout=out)
        partial.rename(readings)
    rows = {Path(row.file).name: row for part in ("train", "validation", "test") for row in read_labels(pages / f"{part}.jsonl")}
    return list(scored(name, rows, readings))


def scored(name: str, rows: dict[str, object], readings: Path) -> Iterator[Sample]:
    registry = load_types()
    schema = schema_from_registry(registry)
    kinds = {(t.id, spec.label): spec.kind.value for t in registry for spec in t.fields.values()}
    for result in read_results(readings):
        row = rows.get(Path(result.file).name)
        if row is None:
            continue
        report = evaluate([result], [row], schema, skip=())
        for s in report.samples:
            kind = kinds.get((s.doc_type, s.field))
            if kind is not None:
                yield Sample(kind, s.confidence, s.correct, f"{name}/{Path(result.file).name}")


def run(*words: str, stdout: object = None) -> None:
    done = subprocess.run([sys.executable, "-m", "certloop", *words], stdout=stdout, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"certloop {words[0]} ended with {done.returncode}")


def measure(made: Calibration, held: Sequence[Sample]) -> dict[str, object]:
    """Everything on the held-out set."""
    by_kind = {kind: [s for s in held if s.kind == kind] for kind in sorted({s.kind for s in held})}
    return {
        "fitted_on": made.n,
        "held_out_fields": len(held),
        "held_out_documents": len({s.group for s in held}),
        "right": sum(s.right for s in held) / len(held),
        "ece_before": ece([(s.confidence, s.right) for s in held]),
        "ece_after": ece([(made.probability(s.kind, s.confidence), s.right) for s in held]),
        "ece_by_kind": {
            kind: {
                "n": len(part),
                "before": ece([(s.confidence, s.right) for s in part]),
                "after": ece([(made.probability(s.kind, s.confidence), s.right) for s in part]),
            }
            for kind, part in by_kind.items()
        },
        "rates": {str(rate): dict(passing(made, held, rate)) | {"documents": documents(made, held, rate)} for rate in RATES},
    }


def documents(made: Calibration, held: Sequence[Sample], rate: float) -> dict[str, int]:
    """Documents all of whose answered fields pass, and how many of those have a wrong field."""
    groups: dict[str, list[Sample]] = {}
    for sample in held:
        groups.setdefault(sample.group, []).append(sample)
    through = [part for part in groups.values() if all(made.accepts(s.kind, s.confidence, rate) for s in part)]
    return {"all": len(groups), "passed": len(through), "wrong": sum(not all(s.right for s in part) for part in through)}


def show(figures: dict[str, object]) -> None:
    held = f"held out {figures['held_out_fields']} fields of {figures['held_out_documents']} pages"
    print(f"fitted on {figures['fitted_on']} fields; {held}")
    print(f"right {figures['right']:.4f}   ECE before {figures['ece_before']:.4f}   after {figures['ece_after']:.4f}")
    rates = figures["rates"]
    assert isinstance(rates, dict)
    for rate, row in rates.items():
        docs = row["documents"]
        print(
            f"accepted {rate:>6}: threshold {row['threshold']}  passed {row['passed']}/{row['fields']}  error {row['error']} "
            f"{row['error_wilson_95']}  documents {docs['passed']}/{docs['all']} ({docs['wrong']} with a wrong field)"
        )


if __name__ == "__main__":
    main()
