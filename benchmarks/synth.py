"""Speed of the data engine and truth of its labels, in one run.

    python benchmarks/synth.py [--images N] [--seed N] [--trdg PYTHON] [--json FILE]

Seconds are CPU seconds of this process on one thread (the dataset run counts its workers too). The label check reads clean pages
with the embedded OCR engine inside the label's boxes: it checks the labels, not the OCR; sealed and handwritten values are
reported apart. How close synthetic pages are to real ones is the job of ``synth_real.py``.

TRDG draws single lines of text and no pages, so lines alone are compared, with the same face, size and words: ``--trdg`` names an
interpreter of an environment of its own that has it (pip install --no-deps trdg; it needs pillow<10 and numpy<2).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
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
from certloop.synth.label import make_sample
from certloop.synth.label_check import check_labels
from certloop.synth.layout import load_layouts
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe, draw_document

MIN_PER_SECOND, MAX_3800_MINUTES, MIN_LABELS_READ = 3.0, 12.0, 0.985
LINE_FACE, LINE_PX = "ar-pl-sungtil-gb-subset.ttf", 32
TRDG = """
import json, sys, time
from trdg.generators import GeneratorFromStrings
order = json.load(sys.stdin)
made = GeneratorFromStrings(order["lines"], count=len(order["lines"]), fonts=[order["face"]], language="cn", size=order["size"],
                            skewing_angle=0, blur=0, background_type=1, distorsion_type=0, margins=(2, 2, 2, 2))
start = time.process_time()
pictures = [picture for picture, _ in made]
print(len(pictures) / (time.process_time() - start))
"""


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
    parser.add_argument("--seed", type=int, default=77, help="seed of the pages whose labels are read")
    parser.add_argument("--trdg", metavar="PYTHON", help="interpreter that has TRDG, to compare the drawing of lines")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    lines = [*speed(args.images), *single_lines(args.trdg), *throughput(args.images), *labels(args.seed)]
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


def single_lines(interpreter: str | None) -> Iterator[Line]:
    """Lines of text alone, as both can draw them: one face, one size, black on white."""
    from PIL import Image

    from certloop.synth.fields.vocabulary import DATA
    from certloop.synth.layout import Style
    from certloop.synth.render.fonts import default_faces
    from certloop.synth.render.text import Pen, draw_line, measure

    words = [draw_document(Recipe("business_licence", seed, 400)).page.values.get("address") or "住所" for seed in range(40)] * 10
    style = Style(size=LINE_PX, font="song")

    def draw() -> None:
        for text in words:
            pen = Pen(Image.new("RGB", (1, 1)), 1.0, default_faces())
            pen = Pen(Image.new("RGB", (int(measure(pen, text, style)) + 4, LINE_PX + 8), "white"), 1.0, default_faces())
            draw_line(pen, text, 2, pen.canvas.height / 2, style)

    draw()
    yield Line("single lines of text", f"{len(words) / cpu_s(draw):.0f} lines/s and core")
    if interpreter is None:
        yield Line("the same lines by TRDG", "not run (--trdg)")
        return
    order = json.dumps({"lines": words, "face": str(DATA / "fonts" / LINE_FACE), "size": LINE_PX})
    done = subprocess.run([interpreter, "-c", TRDG], input=order, capture_output=True, text=True, check=False)
    value = f"{float(done.stdout.split()[-1]):.0f} lines/s and core" if done.returncode == 0 else done.stderr.strip()[-60:]
    yield Line("the same lines by TRDG", value)


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


def labels(seed: int) -> Iterator[Line]:
    """Characters of the labels that come back from inside their boxes, over every layout."""
    from certloop.extract.engine.ocr import OcrEngine

    clean = load_profile("clean")
    recipes = [Recipe(t, seed + i, 1400, layouts=(layout.id,)) for t in BUILDERS for i, layout in enumerate(load_layouts(t))]
    check = check_labels((make_sample(r, clean) for r in recipes), OcrEngine())
    value = f"{check.rate:.4f} of {check.characters} characters"
    yield Line("labels read inside their boxes, clean", value, f">= {MIN_LABELS_READ}", check.rate >= MIN_LABELS_READ)
    yield Line("the same for sealed and handwritten values", f"{check.sealed_rate:.4f} of {check.sealed_characters} characters")


def cpu_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
