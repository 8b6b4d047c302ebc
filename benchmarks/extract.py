"""CPU time, memory, throughput, start-up and score of `certloop extract`, side by side with stock OCR in one run.

    python benchmarks/extract.py [DIR] [--pages N] [--json FILE]

DIR defaults to CERTLOOP_DEVPACK, else ``examples/``. Every figure comes from a fresh process: user + system CPU seconds and peak
memory are those that the kernel counted for it and its children, start and model loading included. Where DIR holds
``labels.jsonl``, our reader is scored on its own engine and on stock rapidocr's boxes. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}  # what stock rapidocr opens by itself
MAX_CPU_RATIO, MAX_RSS_MB, MIN_SPEEDUP, MAX_START_S = 0.65, 1024.0, 1.7, 0.5
STOCK_OCR = """
import sys
from rapidocr import RapidOCR

engine = RapidOCR(params={"Global.log_level": "error"})
for path in sys.argv[1:]:
    engine(path)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process and its children took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``target`` says what it should be, ``met`` whether it is (None: nothing to compare)."""

    name: str
    value: str
    target: str = ""
    met: bool | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("CERTLOOP_DEVPACK") or ROOT / "examples")
    parser.add_argument("folder", metavar="DIR", nargs="?", type=Path, default=default)
    parser.add_argument("--pages", type=int, default=None, help="read only the first N files")
    parser.add_argument("--json", dest="json_file", type=Path, default=None, help="also write the figures here")
    options = parser.parse_args()
    files = sorted(p for p in options.folder.iterdir() if p.suffix.lower() in SUFFIXES)[: options.pages]
    if not files:
        parser.error(f"{options.folder} holds no image")
    lines = [*reading_lines(options.folder, files), *start_lines()]
    print(f"\n{len(files)} pages of {options.folder}")
    for line in lines:
        verdict = "" if line.met is None else ("  met" if line.met else "  MISSED")
        print(f"{line.name:<58} {line.value:>12}  {line.target:<12}{verdict}")
    if options.json_file is not None:
        report = {"pages": len(files), "figures": [asdict(line) for line in lines]}
        options.json_file.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def reading_lines(folder: Path, files: list[Path]) -> list[Line]:
    """The figures of reading; each process is announced on stderr because it takes a while."""
    names, count = [str(p) for p in files], len(files)
    with tempfile.TemporaryDirectory() as scratch:
        ours_jsonl, stock_jsonl, two_jsonl = (Path(scratch, f"{name}.jsonl") for name in ("ours", "stock", "two"))
        stock = measure("stock rapidocr, OCR alone", [sys.executable, "-c", STOCK_OCR, *names])
        ours = measure("certloop extract", extract_command(names, ours_jsonl))
        two = measure("certloop extract --workers 2", extract_command(names, two_jsonl, "--workers", "2"))
        ratio, speedup = ours.cpu_s / stock.cpu_s, ours.wall_s / two.wall_s
        lines = [
            Line("stock rapidocr, OCR alone: CPU s a page", f"{stock.cpu_s / count:.2f}"),
            Line("certloop extract, everything: CPU s a page", f"{ours.cpu_s / count:.2f}"),
            Line("ratio", f"{ratio:.2f}", f"<= {MAX_CPU_RATIO}", ratio <= MAX_CPU_RATIO),
            Line("stock rapidocr: peak memory, MB", f"{stock.peak_mb:.0f}"),
            Line("certloop extract, one worker: peak memory, MB", f"{ours.peak_mb:.0f}", "< 1024", ours.peak_mb < MAX_RSS_MB),
            Line("certloop extract, one worker: pages a second", f"{count / ours.wall_s:.2f}"),
            Line("certloop extract, two workers: pages a second", f"{count / two.wall_s:.2f}"),
            Line("speed-up of two workers", f"{speedup:.2f}", f">= {MIN_SPEEDUP}", speedup >= MIN_SPEEDUP),
        ]
        if (folder / "labels.jsonl").exists():
            measure("our reader on stock rapidocr's boxes", extract_command(names, stock_jsonl), CERTLOOP_ENGINE="ocr-stock")
            lines += score_lines(folder / "labels.jsonl", ours_jsonl, stock_jsonl)
    return lines


def score_lines(labels: Path, ours: Path, stock: Path) -> list[Line]:
    from certloop.extract.evaluation import evaluate, read_labels, read_results, schema_from_registry
    from certloop.templates import load_types

    schema = schema_from_registry(load_types())
    read = {Path(r.file).name for r in read_results(ours)}
    truth = [row for row in read_labels(labels) if Path(row.file).name in read]
    if not truth:
        return []
    mine, other = (evaluate(read_results(path), truth, schema).overall for path in (ours, stock))
    difference = (mine.strict.rate or 0.0) - (other.strict.rate or 0.0)
    return [
        Line("our reader on stock rapidocr's boxes: strict exact", f"{other.strict} {other.strict.rate or 0:.3f}"),
        Line(
            "certloop extract: strict exact",
            f"{mine.strict} {mine.strict.rate or 0:.3f}",
            ">= 0.78",
            (mine.strict.rate or 0) >= 0.78,
        ),
        Line("difference", f"{difference:+.3f}", ">= 0", difference >= 0),
        Line("certloop extract: invented values", f"{mine.invented}"),
    ]


def start_lines() -> list[Line]:
    commands = {"certloop --help": ["--help"], "certloop validate": ["validate", "uscc", "91350100M000100Y43"]}
    lines = []
    for name, arguments in commands.items():
        seconds = statistics.median(timed(lambda a=arguments: run([sys.executable, "-m", "certloop", *a])) for _ in range(5))
        lines.append(Line(f"{name}: seconds, median of 5", f"{seconds:.2f}", f"< {MAX_START_S}", seconds < MAX_START_S))
    return lines


def extract_command(names: list[str], output: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "certloop", "extract", *names, "--format", "jsonl", "--output", str(output), *options]


def measure(what: str, command: list[str], **environment: str) -> Cost:
    """Run a command in a fresh process and ask the kernel what it took, children included."""
    print(f"running: {what}", file=sys.stderr)
    start = time.perf_counter()
    process = subprocess.Popen(command, env=plain_environment() | environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: some file failed, which is a result
        sys.exit(f"{what} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024)


def timed(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run(command: list[str]) -> None:
    subprocess.run(command, env=plain_environment(), cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def plain_environment() -> dict[str, str]:
    """Defaults only: no CERTLOOP_ setting and no thread limit of the caller's shell."""
    return {k: v for k, v in os.environ.items() if not k.startswith("CERTLOOP_") and not k.endswith("_NUM_THREADS")}


if __name__ == "__main__":
    main()
