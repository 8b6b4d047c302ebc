"""Is a calibrated confidence worth what it says? Fitted on synthetic pages, measured on synthetic pages of other seeds.

    python benchmarks/confidence.py [--pages N] [--out DIR] [--real DIR] [--write FILE] [--json FILE]

Pages of every document type and treatment are drawn (``certloop synth make``), read (``certloop extract``) and compared with
their labels. The fit sees seed 101, the figures come from seed 202: calibration error before and after, what passes at
several accepted error rates and how much of that is wrong, over fields and over whole documents. ``--out`` keeps pages and
readings, so that a second run is quick; ``--write`` saves the fit (``serve/confidence/default.json`` is such a file). Synthetic
pages are cleaner than life: ``--real`` (default CERTLOOP_DEVPACK) also measures on labelled photographs, and a tenant's own
reviews are what counts in the end (``certloop confidence fit``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certloop.extract.evaluation import evaluate, read_labels, schema_from_registry
from certloop.extract.evaluation.labels import LabelRow
from certloop.extract.result import Document
from certloop.extract.stored import result_from_json
from certloop.serve.confidence.calibration import Calibration
from certloop.serve.confidence.fit import RATES, Sample, ece, fit, passing
from certloop.serve.review.triage import ReviewPolicy, triage
from certloop.templates import load_types

PROFILES = {"clean": 0.15, "scan": 0.3, "copy": 0.15, "photo": 0.25, "screen": 0.05, "hard": 0.1}
SETS = {"fit": (101, 0.58), "held": (202, 0.42)}
"""Seed and share of the pages of each set: one is fitted on, the other measured on."""


@dataclass(frozen=True, slots=True)
class Page:
    """One file: its answered fields, the documents as read, and the labels of fields that are wrong."""

    samples: tuple[Sample, ...]
    documents: tuple[Document, ...]
    wrong: frozenset[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=620)
    parser.add_argument("--out", type=Path, default=None, help="keep pages and readings here")
    parser.add_argument("--real", type=Path, default=os.environ.get("CERTLOOP_DEVPACK"), help="labelled photographs")
    parser.add_argument("--write", type=Path, default=None, help="save the fitted calibration")
    parser.add_argument("--json", type=Path, default=None, help="save the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        counts = {name: max(10, round(options.pages * share)) for name, (_, share) in SETS.items()}
        parts = {name: read_set(folder, name, seed, counts[name]) for name, (seed, _) in SETS.items()}
        real = read_real(options.real, folder / "real.jsonl") if options.real else []
    seen = [sample for page in parts["fit"] for sample in page.samples]
    made = fit(seen, version="builtin-1", source="synthetic pages of every type and treatment")
    figures = measure(made, parts["held"])
    show(figures)
    if real:
        figures["real"] = measure(made, real)
        print("photographs:")
        show(figures["real"])
    if options.write:
        options.write.write_text(json.dumps(made.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def read_set(folder: Path, name: str, seed: int, count: int) -> list[Page]:
    """Draw and read one set, unless it is there, and score every answered field."""
    pages, readings = folder / name, folder / f"{name}.jsonl"
    if not readings.exists():
        mix = [word for profile, weight in PROFILES.items() for word in ("--profile", f"{profile}={weight}")]
        run("synth", "make", "--type", "all", "--out", str(pages), "--count", str(count), "--seed", str(seed), *mix)
        extract(pages / "images", readings)
    rows = {Path(row.file).name: row for part in ("train", "validation", "test") for row in read_labels(pages / f"{part}.jsonl")}
    return list(scored(name, rows, readings))


def read_real(folder: Path, readings: Path) -> list[Page]:
    """Read and score a folder with ``labels.jsonl``."""
    if not readings.exists():
        extract(folder, readings)
    return list(scored("real", {Path(row.file).name: row for row in read_labels(folder / "labels.jsonl")}, readings))


def extract(folder: Path, readings: Path) -> None:
    partial = readings.with_suffix(".partial")
    with partial.open("wb") as out:
        run("extract", str(folder), "-r", "--format", "jsonl", stdout=out)
    partial.rename(readings)


def scored(name: str, rows: Mapping[str, LabelRow], readings: Path) -> Iterator[Page]:
    registry = load_types()
    schema = schema_from_registry(registry)
    kinds = {(t.id, spec.label): spec.kind.value for t in registry for spec in t.fields.values()}
    for line in readings.read_text(encoding="utf-8").splitlines():
        result = result_from_json(json.loads(line))
        row = rows.get(Path(result.file).name)
        if row is None:
            continue
        report = evaluate([result], [row], schema, skip=())
        group = f"{name}/{Path(result.file).name}"
        answered = [s for s in report.samples if (s.doc_type, s.field) in kinds]
        samples = tuple(Sample(kinds[s.doc_type, s.field], s.confidence, s.correct, group) for s in answered)
        yield Page(samples, result.documents, frozenset(error.field for error in report.errors))


def run(*words: str, stdout: object = None) -> None:
    done = subprocess.run([sys.executable, "-m", "certloop", *words], stdout=stdout, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"certloop {words[0]} ended with {done.returncode}")


def measure(made: Calibration, pages: Sequence[Page]) -> dict[str, Any]:
    """Everything on the held-out set."""
    held = [sample for page in pages for sample in page.samples]
    by_kind = {kind: [s for s in held if s.kind == kind] for kind in sorted({s.kind for s in held})}
    return {
        "fitted_on": made.n,
        "held_out_fields": len(held),
        "held_out_pages": len(pages),
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
        "rates": {str(rate): dict(passing(made, held, rate)) | {"pages": straight_through(made, pages, rate)} for rate in RATES},
    }


def straight_through(made: Calibration, pages: Sequence[Page], rate: float) -> dict[str, int]:
    """Pages that the service would let pass unseen, and what is wrong on them: a required field, or any field."""
    registry, policy = load_types(), ReviewPolicy(accepted_error=rate, sample_share=0.0)
    passed = required = anything = 0
    for number, page in enumerate(pages):
        types = [registry.types.get(document.doc_type) for document in page.documents]
        if not page.documents or any(
            triage(document, policy, doc_type=kind, calibration=made, certificate_id=str(number))
            for document, kind in zip(page.documents, types, strict=True)
        ):
            continue
        wanted = {kind.fields[name].label for kind in types if kind is not None for name in kind.required}
        passed, required, anything = passed + 1, required + bool(page.wrong & wanted), anything + bool(page.wrong)
    return {"all": len(pages), "passed": passed, "wrong_required": required, "wrong_any": anything}


def show(figures: Mapping[str, Any]) -> None:
    held = f"held out {figures['held_out_fields']} fields of {figures['held_out_pages']} pages"
    print(f"fitted on {figures['fitted_on']} fields; {held}")
    print(f"right {figures['right']:.4f}   ECE before {figures['ece_before']:.4f}   after {figures['ece_after']:.4f}")
    for rate, row in figures["rates"].items():
        pages = row["pages"]
        fields = f"threshold {row['threshold']}  fields passed {row['passed']}/{row['fields']}, wrong {row['error']}"
        print(f"accepted {rate:>6}: {fields} {row['error_wilson_95']}")
        wrong = f"{pages['wrong_required']} with a wrong required field, {pages['wrong_any']} with any wrong field"
        print(f"{'':17}straight through {pages['passed']}/{pages['all']} pages, of these {wrong}")


if __name__ == "__main__":
    main()
