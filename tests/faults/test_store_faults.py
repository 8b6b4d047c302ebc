"""What a crash, a damaged disk and a killed writer leave behind: nothing that was acknowledged is lost, nothing is half there."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from certloop.agentrl.store import (
    BackupError,
    SnapshotError,
    Store,
    StoreUnavailableError,
    backup,
    load_snapshot,
    restore,
    verify,
)
from certloop.agentrl.trajectory import Consent, Outcome, Step, Trajectory

KILLER = Path(__file__).with_name("store_killer.py")


def trajectory(traj_id: str, pad: int = 0) -> Trajectory:
    steps = (Step(0, "x" * pad, "thought"),)
    at = "2026-03-01T00:00:00+00:00"
    return Trajectory(traj_id, "acme", "x", at, Outcome.CLEAN, Consent.TENANT, "training", steps=steps)


@pytest.mark.slow
def test_a_hundred_killed_writers_lose_nothing_and_leave_nothing_half(tmp_path: Path) -> None:
    url, blobs, snapshots = f"sqlite:///{tmp_path}/store.db", str(tmp_path / "blobs"), tmp_path / "snapshots"
    command = [sys.executable, str(KILLER), url, blobs, str(snapshots), "100", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Error" not in done.stderr, done.stderr[-3000:]
    said = [line.split() for line in done.stdout.splitlines()]
    acknowledged = {words[1] for words in said if words[0] == "trajectory"}
    promised = {words[1]: int(words[2]) for words in said if words[0] == "snapshot"}
    assert len(acknowledged) > 100
    assert promised

    with Store.open(url, blobs) as store:
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


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Path]:
    """The file of a store with enough rows for many pages, closed."""
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        acme = store.for_tenant("acme")
        for start in range(0, 200, 50):
            with acme.batch("engine") as batch:
                for i in range(start, start + 50):
                    batch.add_trajectory(trajectory(f"t-{i}", pad=3000))
    yield tmp_path / "store.db"


def findings(path: Path) -> set[str]:
    with Store.open(f"sqlite:///{path}") as store:
        return {finding.problem for finding in verify(store).findings}


def test_one_flipped_byte_inside_a_payload_is_found(filled: Path) -> None:
    data = bytearray(filled.read_bytes())
    data[data.index(b"x" * 2000) + 1000] = ord("y")
    filled.write_bytes(bytes(data))
    assert findings(filled) == {"event_edited"}


def test_a_page_overwritten_is_found(filled: Path) -> None:
    data = bytearray(filled.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = bytes(4096)
    filled.write_bytes(bytes(data))
    assert findings(filled) & {"page_damaged", "unreadable", "event_missing", "event_edited"}


def test_a_file_cut_short_is_found(filled: Path) -> None:
    filled.write_bytes(filled.read_bytes()[: 4096 * 20])
    try:
        assert findings(filled)
    except StoreUnavailableError as error:
        assert "damaged" in error.message


def test_a_backup_cut_short_by_a_crash_is_no_backup(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from certloop.agentrl.store.backup import LocalBlobs

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with Store.open(f"sqlite:///{filled}") as store:
        with monkeypatch.context() as patch:
            patch.setattr(LocalBlobs, "list", die)
            with pytest.raises(KeyboardInterrupt):
                backup(store, tmp_path / "cut", actor="operator")
        with pytest.raises(BackupError, match="manifest"):
            restore(tmp_path / "cut", f"sqlite:///{tmp_path}/new/store.db", actor="operator")
        assert not (tmp_path / "new").exists()
        backup(store, tmp_path / "whole", actor="operator")
    assert restore(tmp_path / "whole", f"sqlite:///{tmp_path}/new/store.db", actor="operator").events == 600
