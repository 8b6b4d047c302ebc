"""Trajectories a second into the store, and memory while a snapshot is written.

    python benchmarks/store.py [--trajectories N] [--json FILE]

Appends N trajectories (default 100,000; four steps each) to SQLite in transactions of 50, every commit synced to the disk; then
writes all of them, and a tenth of them, into Parquet in fresh processes: peak memory must not depend on how many there are.
``--postgres URL`` appends 5,000 to a Postgres store as well. A second is one of the wall clock, in which the disk is waited for,
and on a busy machine other processes, too: Linux says how long this one was ready and did not get a core, and the second rate
leaves just that out. CPU and disk are in both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certloop.agentrl.trajectory import Trajectory

ROOT = Path(__file__).resolve().parent.parent
BATCH, MIN_RATE, MAX_GROWTH_MB = 50, 1000.0, 64.0
EXPORT = """
import sys
from pathlib import Path
from certloop.agentrl.store import Filters, Store, create_snapshot
with Store.open(sys.argv[1], create=False) as store:
    made = create_snapshot(store.for_tenant("bench"), Path(sys.argv[2]), Filters(until=sys.argv[3]), actor="benchmark")
print(made.manifest["rows"])
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
    parser.add_argument("--trajectories", type=int, default=100_000, metavar="N")
    parser.add_argument("--postgres", metavar="URL", default=None)
    parser.add_argument("--json", dest="json_file", type=Path, default=None, help="also write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        url = f"sqlite:///{scratch}/store.db"
        lines = append_lines(url, "", options.trajectories, "SQLite")
        if options.postgres:
            lines += append_lines(options.postgres, f"{scratch}/pg-blobs", 5_000, "Postgres")
        lines += export_lines(url, Path(scratch), options.trajectories)
    for line in lines:
        verdict = "" if line.met is None else ("  met" if line.met else "  MISSED")
        print(f"{line.name:<58} {line.value:>12}  {line.target:<12}{verdict}")
    if options.json_file is not None:
        options.json_file.write_text(json.dumps([asdict(line) for line in lines], indent=2) + "\n", encoding="utf-8")


def append_lines(url: str, blob_url: str, count: int, name: str) -> list[Line]:
    """The whole way in: validation, JSON, hashes, audit row, commit. Making the records is not counted."""
    from certloop.agentrl.store import Store

    print(f"running: append {count} to {name}", file=sys.stderr)
    wall = cpu = queued = 0.0
    with Store.open(url, blob_url) as store:
        tenant = store.for_tenant("bench")
        for start in range(0, count, BATCH):
            records = [record(i) for i in range(start, min(start + BATCH, count))]
            began, began_cpu, began_queue = time.perf_counter(), time.process_time(), queued_s()
            with tenant.batch("benchmark") as batch:
                for trajectory in records:
                    batch.add_trajectory(trajectory)
            wall, cpu = wall + time.perf_counter() - began, cpu + time.process_time() - began_cpu
            queued += queued_s() - began_queue
    rate, own = count / wall, count / (wall - queued)
    return [
        Line(f"{name}: trajectories a second, {BATCH} a transaction", f"{rate:.0f}", f">= {MIN_RATE:.0f}", rate >= MIN_RATE),
        Line(f"{name}: the same without waiting for a core", f"{own:.0f}", f">= {MIN_RATE:.0f}", own >= MIN_RATE),
        Line(f"{name}: CPU ms a trajectory (a core alone: a second / this)", f"{1000 * cpu / count:.2f}"),
    ]


def queued_s() -> float:
    """Seconds in which this process was ready to run and other processes had the cores; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def export_lines(url: str, folder: Path, count: int) -> list[Line]:
    few_mb, few, _ = export(url, folder, at(count // 10))
    all_mb, rows, seconds = export(url, folder, at(count))
    growth = all_mb - few_mb
    return [
        Line(f"peak memory, {few} trajectories to Parquet, MB", f"{few_mb:.0f}"),
        Line(f"peak memory, {rows} trajectories to Parquet, MB", f"{all_mb:.0f}"),
        Line("growth, MB", f"{growth:.0f}", f"< {MAX_GROWTH_MB:.0f}", growth < MAX_GROWTH_MB),
        Line("trajectories a second to Parquet", f"{rows / seconds:.0f}"),
    ]


def export(url: str, folder: Path, until: str) -> tuple[float, int, float]:
    """Peak memory in MB, rows and seconds of a fresh process, start included."""
    print("running: export", file=sys.stderr)
    began = time.perf_counter()
    command = [sys.executable, "-c", EXPORT, url, str(folder / "snapshots"), until]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "a pipe was asked for"
    rows = int(process.stdout.read() or 0)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit("the export failed")
    return usage.ru_maxrss / 1024, rows, time.perf_counter() - began


def record(number: int) -> Trajectory:
    """What an engine without tokens leaves behind: four tool calls and an answer of eight fields."""
    from certloop.agentrl.trajectory import Action, Consent, Outcome, Step, ToolResult, Trajectory

    steps = tuple(
        Step(t, "lines with places", "look again", Action("zoom", {"box": [t, 2, 3, 4]}), ToolResult(True, {"lines": 12}))
        for t in range(4)
    )
    answer = json.dumps({f"field_{i}": f"示例值 {number} {i}" for i in range(8)}, ensure_ascii=False)
    who = (f"t-{number}", "bench", "parts_list", at(number))
    return Trajectory(*who, Outcome.CLEAN, Consent.TENANT, "training", steps=steps, final_json=answer)


def at(number: int) -> str:
    """One trajectory a second from the first of March on."""
    from datetime import UTC, datetime, timedelta

    return (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=number)).isoformat()


if __name__ == "__main__":
    main()
