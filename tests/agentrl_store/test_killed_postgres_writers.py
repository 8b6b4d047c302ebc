"""Postgres: writers that are killed with -9 lose nothing that was acknowledged, and neither does a server whose backend dies."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from certloop.agentrl.store import SnapshotError, Store, StoreUnavailableError, load_snapshot, verify
from certloop.agentrl.store.engine import writing
from certloop.agentrl.trajectory import Trajectory

KILLER = Path(__file__).resolve().parents[1] / "faults" / "store_killer.py"
KILLS = 100
pytestmark = pytest.mark.slow


@pytest.fixture
def backend() -> str:
    return "postgres"


def test_a_hundred_killed_writers_lose_nothing_and_leave_nothing_half(place: Any, tmp_path: Path) -> None:
    snapshots = tmp_path / "snapshots"
    command = [sys.executable, str(KILLER), place.url, place.blob_url, str(snapshots), str(KILLS), "7", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Error" not in done.stderr, done.stderr[-3000:]
    said = [line.split() for line in done.stdout.splitlines()]
    acknowledged = {words[1] for words in said if words[0] == "trajectory"}
    promised = {words[1]: int(words[2]) for words in said if words[0] == "snapshot"}
    assert len(acknowledged) > 100
    assert promised
    with place.open() as store:
        acme = store.for_tenant("acme")
        stored = {s.trajectory.traj_id: s.trajectory for s in acme.trajectories()}
        assert acknowledged <= set(stored)
        assert all(len(t.steps) == 3 for t in stored.values())
        by_batch = [traj_id.rpartition("-")[0] for traj_id in stored]
        assert {by_batch.count(name) for name in set(by_batch)} == {3}
        report = verify(store)
        assert report.clean, report.findings
        for sha256 in store.blobs.list("acme"):
            assert hashlib.sha256(store.blobs.get("acme", sha256)).hexdigest() == sha256
        for folder in snapshots.iterdir():
            if (folder / "manifest.json").exists():
                rows = sum(1 for _ in load_snapshot(acme, folder).rows())
                assert rows == promised.pop(folder.name, rows)
            else:
                with pytest.raises(SnapshotError):
                    load_snapshot(acme, folder)
    assert not promised


def test_a_killed_backend_is_a_typed_error_and_the_store_goes_on(place: Any, make_trajectory: Callable[..., Trajectory]) -> None:
    with place.open() as store:
        acme = store.for_tenant("acme")
        with acme.batch("writer") as batch:
            batch.add_trajectory(make_trajectory("before"))
        with pytest.raises(StoreUnavailableError), writing(store.engine, "acme") as connection:
            backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            os.kill(backend, signal.SIGKILL)  # the server takes every connection down and recovers
            time.sleep(0.2)
            connection.execute(text("SELECT 1"))
        _eventually(store, make_trajectory("after"))
        assert {s.trajectory.traj_id for s in acme.trajectories()} == {"before", "after"}
        assert verify(store).clean


def _eventually(store: Store, trajectory: Trajectory) -> None:
    """Write once the server has recovered."""
    for _ in range(100):
        try:
            with store.for_tenant("acme").batch("writer") as batch:
                batch.add_trajectory(trajectory)
            return
        except StoreUnavailableError:
            time.sleep(0.1)
    raise AssertionError("the server did not come back")
