"""Run as a script: forks pairs of writers of one store, kills each with -9 at a random moment, prints what they acknowledged.

    python store_killer.py URL BLOBS SNAPSHOTS KILLS SEED [SPREAD_S]

The libraries are loaded once; the store is opened after each fork. A writer acknowledges over a pipe, after its ``with`` block.
One pair of four dies while it opens the store, two within ``SPREAD_S`` seconds of the first acknowledged rows, one within that
time of the first acknowledged snapshot.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - loaded before the forks

from certloop.agentrl.store import Filters, Store, create_snapshot
from certloop.agentrl.trajectory import Consent, Outcome, Step, Trajectory

BATCH = 3


def main() -> None:
    url, blobs, snapshots = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    kills, rng = int(sys.argv[4]), random.Random(int(sys.argv[5]))
    spread_s = float(sys.argv[6]) if len(sys.argv) > 6 else 0.08
    for run in range(0, kills, 2):
        children, pipes = [], []
        for writer in (run, run + 1):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(read)
                write_for_ever(url, blobs, snapshots, writer, write)
            os.close(write)
            children.append(child)
            pipes.append(read)
        told = dict.fromkeys(pipes, b"")
        wanted = (b"", b"trajectory", b"trajectory", b"snapshot")[run // 2 % 4]
        alive = set(pipes) if wanted else set()
        while alive and not any(wanted in said for said in told.values()):
            for read in select.select(list(alive), [], [], 20)[0]:
                said = os.read(read, 1 << 16)
                told[read] += said
                alive -= set() if said else {read}
        for child in children:
            time.sleep(rng.uniform(0.0, spread_s / 2))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for read in pipes:
            with os.fdopen(read, "rb") as pipe:
                sys.stdout.write((told[read] + pipe.read()).decode())


def write_for_ever(url: str, blobs: str, snapshots: Path, run: int, pipe: int) -> None:
    with Store.open(url, blobs) as store:
        tenant = store.for_tenant("acme")
        number = 0
        while True:
            image = tenant.put_blob(f"page {run} {number}".encode() * 500)
            ids = [f"{run}-{number}-{i}" for i in range(BATCH)]
            with tenant.batch("writer") as batch:
                for traj_id in ids:
                    batch.add_trajectory(trajectory(traj_id, image))
            os.write(pipe, "".join(f"trajectory {traj_id}\n" for traj_id in ids).encode())
            if number % 3 == run % 3:
                made = create_snapshot(tenant, snapshots, Filters(traj_ids=tuple(ids)), actor="writer")
                os.write(pipe, f"snapshot {made.snapshot_id} {made.manifest['rows']}\n".encode())
            number += 1


def trajectory(traj_id: str, image: str) -> Trajectory:
    steps = tuple(Step(t, "observation", "thought") for t in range(3))
    at = "2026-03-01T00:00:00+00:00"
    return Trajectory(traj_id, "acme", "x", at, Outcome.CLEAN, Consent.TENANT, "training", None, (image,), steps=steps)


if __name__ == "__main__":
    main()
