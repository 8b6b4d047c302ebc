"""Speed of the data engine, truth of its labels, and how close its photographs are to real ones, in one run.

    python benchmarks/synth.py [--images N] [--read N] [--devpack DIR] [--json FILE]

Seconds are CPU seconds of this process on one thread (the dataset run counts its workers too). The label check reads clean pages
with the embedded OCR engine inside the label's boxes: it checks the labels, not the OCR; sealed and handwritten values are
reported
apart. With ``--devpack`` (a folder with labels.jsonl; default CERTLOOP_DEVPACK) the embedded reader's strict score on synthetic
scan,
photo and hard stands beside its score on the real images, with the causes of its errors. TRDG draws single lines of text, no
pages, and is not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

import cv2

from certloop.synth.config import MakeConfig
from certloop.synth.dataset import make
from certloop.synth.fields import BUILDERS
from certloop.synth.label import Sample, make_sample
from certloop.synth.label_check import check_labels
from certloop.synth.layout import load_layouts
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe, draw_document

MIN_PER_SECOND, MAX_3800_MINUTES, MIN_LABELS_READ, MAX_GAP = 3.0, 12.0, 0.985, 0.05
REAL_MIX = ("business_licence",) * 15 + (
    "food_operation_permit",
    "food_operation_permit",
    "device_operation_permit",
    "bank_account_permit",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``target`` says what it should be, ``met`` whether it is (None: nothing to compare)."""

    name: str
    value: str
    target: str = ""
    met: bool | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=60, help="images per speed measurement")
    parser.add_argument("--read", type=int, default=38, help="images per profile that the reader is scored on (0: none)")
    parser.add_argument("--devpack", type=Path, default=os.environ.get("CERTLOOP_DEVPACK"))
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    lines = [*speed(args.images), *throughput(args.images), *labels()]
    if args.read and args.devpack:
        lines += closeness(args.devpack, args.read)
    for line in lines:
        mark = {True: "ok  ", False: "MISS", None: "    "}[line.met]
        print(f"{mark} {line.name:<52} {line.value:<40} {line.target}")
    if args.json:
        args.json.write_text(json.dumps([asdict(line) for line in lines], ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def speed(count: int) -> Iterator[Line]:
    """Images a CPU second at 1400x1000 and so: the renderer alone, then whole images by profile."""
    recipes = [Recipe("business_licence", seed, 1400, layouts=("horizontal_2019",)) for seed in range(count)]
    draw_document(recipes[0])
    rate = count / cpu_s(lambda: [draw_document(r) for r in recipes])
    yield Line("renderer alone, 1400x987", f"{rate:.1f} images/s and core")
    for name in ("clean", "scan", "photo", "hard"):
        profile = load_profile(name)
        make_sample(recipes[0], profile)
        rate = count / cpu_s(lambda p=profile: [make_sample(r, p).encoded() for r in recipes])  # type: ignore[misc]
        target = f">= {MIN_PER_SECOND:g}" if name == "photo" else ""
        yield Line(
            f"drawn, treated, encoded: {name}",
            f"{rate:.1f} images/s and core",
            target,
            rate >= MIN_PER_SECOND if target else None,
        )


def throughput(count: int) -> Iterator[Line]:
    """A dataset over all types with two workers; the time for 3,800 images follows from the rate."""
    with tempfile.TemporaryDirectory() as folder:
        config = MakeConfig(Path(folder) / "d", types=tuple(BUILDERS), count=4 * count, seed=1, workers=2)
        start, before = time.perf_counter(), children_cpu_s()
        make(config)
        wall, cpu = time.perf_counter() - start, children_cpu_s() - before
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    minutes = 3800 / (4 * count / wall) / 60
    yield Line("dataset of all types, 2 workers", f"{4 * count / wall:.1f} images/s, {4 * count / cpu:.1f} a CPU second")
    yield Line("3,800 images on two cores", f"{minutes:.1f} minutes", f"< {MAX_3800_MINUTES:g}", minutes < MAX_3800_MINUTES)
    yield Line("largest worker", f"{peak:.0f} MB")


def labels() -> Iterator[Line]:
    """Characters of the labels that come back from inside their boxes, over every layout."""
    from certloop.extract.engine.ocr import OcrEngine

    clean = load_profile("clean")
    recipes = [Recipe(t, 77 + i, 1400, layouts=(layout.id,)) for t in BUILDERS for i, layout in enumerate(load_layouts(t))]
    check = check_labels((make_sample(r, clean) for r in recipes), OcrEngine())
    value = f"{check.rate:.4f} of {check.characters} characters"
    yield Line("labels read inside their boxes, clean", value, f">= {MIN_LABELS_READ}", check.rate >= MIN_LABELS_READ)
    yield Line("the same for sealed and handwritten values", f"{check.sealed_rate:.4f} of {check.sealed_characters} characters")


def closeness(devpack: Path, count: int) -> Iterator[Line]:
    """The embedded reader's strict score, synthetic beside real."""
    real, causes = score(devpack)
    yield Line("reader, real images", f"{real:.3f} {causes}")
    for name in ("scan", "photo", "hard"):
        with tempfile.TemporaryDirectory() as folder:
            write_labelled(Path(folder), name, count)
            value, causes = score(Path(folder))
        near = abs(value - real) <= MAX_GAP if name == "photo" else None
        yield Line(
            f"reader, synthetic {name}", f"{value:.3f} {causes}", f"within {MAX_GAP:g} of real" if near is not None else "", near
        )


def write_labelled(folder: Path, profile: str, count: int) -> None:
    """Images and labels.jsonl in the mix of types of the development pack."""
    loaded, rows = load_profile(profile), []
    for i in range(count):
        sample: Sample = make_sample(Recipe(REAL_MIX[i % len(REAL_MIX)], 50_000 + i, 1400 if i % 2 else 1100), loaded)
        sample.label["file"] = f"{i:03d}.{sample.suffix}"
        (folder / sample.label["file"]).write_bytes(sample.encoded())
        rows.append(json.dumps(sample.label, ensure_ascii=False) + "\n")
    (folder / "labels.jsonl").write_text("".join(rows), encoding="utf-8")


def score(folder: Path) -> tuple[float, str]:
    """Strict share of the embedded reader, and the causes of its errors, most frequent first."""
    from certloop.extract import evaluation
    from certloop.extract.batch import read_many
    from certloop.extract.config import ExtractConfig
    from certloop.templates import load_types

    truth = evaluation.read_labels(folder / "labels.jsonl")
    answers = list(read_many([folder / row.file for row in truth if (folder / row.file).is_file()], ExtractConfig(), workers=1))
    report = evaluation.evaluate(answers, truth, evaluation.schema_from_registry(load_types())).to_json()
    causes = sorted(report["causes"].items(), key=lambda item: -item[1])
    return report["overall"]["strict"]["rate"], ", ".join(f"{name} {number}" for name, number in causes)


def cpu_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
