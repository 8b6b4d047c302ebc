"""Run as a script: forks writers of one store, kills each with -9 at a random moment, prints what they had acknowledged.

    python store_killer.py URL BLOBS SNAPSHOTS KILLS SEED

The libraries are loaded once; the store is opened after each fork. A writer acknowledges over a pipe, after its ``with`` block.
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

from certloop.agentrl.store import Store, create_snapshot
from certloop.agentrl.trajectory import Consent, Outcome, Step, Trajectory

BATCH = 3


def main() -> None:
    url, blobs, snapshots = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    kills, rng = int(sys.argv[4]), random.Random(int(sys.argv[5]))
    for run in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            write_for_ever(url, blobs, snapshots, run, write)
        os.close(write)
        if run % 4:  # three of four die while writing, the others while opening
            select.select([read], [], [], 10)
            time.sleep(rng.uniform(0.0, 0.08))
        else:
            time.sleep(rng.uniform(0.0, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as pipe:
            sys.stdout.write(pipe.read().decode())


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
                made = create_snapshot(tenant, snapshots, actor="writer")
                os.write(pipe, f"snapshot {made.snapshot_id} {made.manifest['rows']}\n".encode())
            number += 1


def trajectory(traj_id: str, image: str) -> Trajectory:
    steps = tuple(Step(t, "observation", "thought") for t in range(3))
    at = "2026-03-01T00:00:00+00:00"
    return Trajectory(traj_id, "acme", "x", at, Outcome.CLEAN, Consent.TENANT, "training", None, (image,), steps=steps)


if __name__ == "__main__":
    main()
