"""The loop's month over several seeds, as a table: what is gained over a reader that never learns, and how fast it recovers.

    .venv/bin/python benchmarks/loop.py --out out/lives                    # 5 seeds, 6 documents a day; goes on where it stopped
    .venv/bin/python benchmarks/loop.py --out out/lives --table benchmarks/results/loop.md

Forms drift on days 8, 15 and 22 (two of five forms each). Every document is scored as it was read when it arrived, before
anybody answered it. Auditors answer at most a quarter of the documents, first those where a required field is missing, and each
field of an answer is wrong at 3 %. Targets: strict exact at least 8 points over the frozen reader after the first drift, back
within .05 of the rate before within 40 documents of each drift, and no gain where answers are dealt to other documents.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Two-sided 95 % of Student's t by number of seeds (one fewer degrees of freedom)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="reports, and what OCR saw: the same command goes on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--per-day", type=int, default=6)
    parser.add_argument("--table", type=Path, help="also write the table here")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    for seed in seeds:
        _live(options.out, seed, options.days, options.per_day)
    table = table_of([json.loads((options.out / f"life-{seed}.json").read_text("utf-8")) for seed in seeds])
    print(table)
    if options.table:
        options.table.write_text(table + "\n", encoding="utf-8")


def _live(out: Path, seed: int, days: int, per_day: int) -> None:
    from certloop.cli import main as certloop

    words = ["loop", "simulate", "--seed", str(seed), "--days", str(days), "--per-day", str(per_day), "--out", str(out)]
    try:
        certloop(words)
    except SystemExit as ended:
        if ended.code:
            raise


def table_of(lives: list[dict[str, Any]]) -> str:
    """Markdown of finished lives, a line a seed and one over all seeds."""
    heads = ("seed", "documents", "answered", "rules", "strict before drift", "frozen after", "learning after")
    heads += ("gain, points (95 % over documents)", "control, points", "documents until recovery, by drift")
    lines = [_row(heads), _row(["---"] * len(heads))]
    for life in lives:
        rates, recovery = life["rates"], life["recovery_documents"]
        after = rates["after_drift"]
        cells = [life["seed"], life["documents"], life["answered"], life["rules_learned"]]
        cells += [f"{rate:.3f}" for rate in (rates["before_drift"]["learning"], after["frozen"], after["learning"])]
        cells += [_interval(life["gain"]), _interval(life["control_gain"])]
        lines.append(_row([*cells, ", ".join("not" if n is None else str(n) for n in recovery)]))
    if len(lives) in T_95:
        over = {name: _over([100 * life[name]["mean"] for life in lives]) for name in ("gain", "control_gain")}
        lines.append(_row(["all", *[""] * 6, f"{over['gain']} over seeds", f"{over['control_gain']} over seeds", ""]))
    caught = sum(any(d["what"] == "gate: reject" for d in life["decisions"]) for life in lives)
    lines += ["", f"A bad candidate was refused by the gate in {caught} of {len(lives)} lives."]
    return "\n".join(lines)


def _row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _interval(share: dict[str, float]) -> str:
    """In points."""
    return "{mean:+.1f} [{low:+.1f}, {high:+.1f}]".format(**{name: 100 * value for name, value in share.items()})


def _over(values: list[float]) -> str:
    half = T_95[len(values)] * statistics.stdev(values) / len(values) ** 0.5
    mean = statistics.fmean(values)
    return f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]"


if __name__ == "__main__":
    main()
