"""How well the committed nano model reads: fresh pages of seen and of unseen forms, and what guidance does to an answer.

    python benchmarks/nano.py [--weights teacher|early|FOLDER] [--pages 200] [--hinted 100] [--seed 700001] [--json FILE]

Field F1 twice: strict (a value counts only when it is exact) and soft (by squared similarity, as rewards count it), each with a
95 % interval by bootstrap over pages. Pages come from seeds that training and its checks never used. Guidance arms read the same
pages without a hint, with the right value, with another licence's, and with one character wrong; "badly printed" pages have the
hinted value blurred and faint. One torch thread; CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
TARGET_F1, TARGET_JSON = 0.92, 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="teacher", help="teacher, early, or a folder")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--hinted", type=int, default=100, help="pages of each guidance arm; 0 leaves them out")
    parser.add_argument("--seed", type=int, default=700_001)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    report = measure(args.weights, args.pages, args.hinted, args.seed)
    if args.json:
        args.json.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def measure(weights: str, count: int, hinted: int, seed: int) -> dict[str, Any]:
    import torch

    from certloop.train.nano import load_nano, nano_pages
    from certloop.train.nano.evaluate import read_pages, score_pages, steer

    torch.set_num_threads(1)
    model, processor = load_nano(weights)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{weights}: {size / 1e6:.2f} million parameters, seed {seed}")
    report: dict[str, Any] = {"weights": weights, "parameters": size, "seed": seed}
    for number, which in enumerate(("seen", "unseen")):
        pages = nano_pages(seed + number, count, layouts=which)
        began = time.process_time()
        found = score_pages(pages, read_pages(model, processor, pages))
        spent = (time.process_time() - began) / count
        met = "" if which == "unseen" else f"  target {TARGET_F1}: {_met(found.strict.mean >= TARGET_F1)}"
        json_met = "" if which == "unseen" else f"  target {TARGET_JSON}: {_met(found.valid >= TARGET_JSON)}"
        print(f"\n{which} forms, {count} pages, {spent * 1000:.0f} CPU ms a page")
        print(f"  field F1 strict {found.strict}{met}\n  field F1 soft   {found.soft}\n  JSON valid {found.valid:.3f}{json_met}")
        print("  exact values: " + ", ".join(f"{label} {rate:.3f}" for label, rate in found.exact.items()))
        report[which] = asdict(found) | {"cpu_ms": spent * 1000}
    for number, (name, worn) in enumerate((("plain", 0.0), ("badly printed", 1.0))):
        if not hinted:
            break
        arms = steer(model, processor, nano_pages(seed + 10 + number, hinted, worn=worn), seed)
        print(f"\nguidance about one field, {name} pages ({hinted}): the hinted field")
        for arm in arms.values():
            told = f"  answered the hint's value {arm.followed_hint:.2f}" if arm.kind != "none" else ""
            print(f"  {arm.kind:<6} exact {arm.exact}  soft {arm.soft}  gain {arm.gain}  other fields {arm.others}{told}")
        report[f"guidance, {name}"] = {kind: asdict(arm) for kind, arm in arms.items()}
    return report


def _met(reached: bool) -> str:
    return "met" if reached else "MISSED"


if __name__ == "__main__":
    main()
