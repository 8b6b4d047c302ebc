"""The drill: back up a store in use, lose it, restore it, verify it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.store import (
    BackupError,
    BackupKind,
    BlobMissingError,
    ErasedError,
    Store,
    TenantStore,
    backup,
    erase,
    find_documents,
    open_blobs,
    replay_journal,
    restore,
    verify,
)
from certloop.agentrl.store.erase import JOURNAL
from certloop.agentrl.trajectory import Trajectory

Make = Callable[..., Trajectory]
Places = Callable[[], Any]


def put(tenant: TenantStore, trajectory: Trajectory, *subjects: str) -> None:
    with tenant.batch("engine") as batch:
        batch.add_trajectory(trajectory, subjects=subjects)


@pytest.fixture
def filled(store: Store, make_trajectory: Make) -> Store:
    for name in ("acme", "other"):
        tenant = store.for_tenant(name)
        put(tenant, make_trajectory("t-1", tenant_id=name, image_sha256=(tenant.put_blob(b"page"),)), "张样本")
    put(store.for_tenant("acme"), make_trajectory("gone", image_sha256=(store.for_tenant("acme").put_blob(b"gone"),)))
    erase(store.for_tenant("acme"), find_documents(store.for_tenant("acme"), traj_id="gone"), actor="desk", reason="request")
    return store


def kinds(backend: str) -> list[BackupKind]:
    return [BackupKind.SQLITE, BackupKind.PORTABLE] if backend != "postgres" else [BackupKind.PORTABLE]


def test_the_drill(filled: Store, backend: str, new_place: Places, tmp_path: Path, make_trajectory: Make) -> None:
    for kind in kinds(backend):
        before = [s.event_ids for s in filled.for_tenant("acme").trajectories()]
        manifest = backup(filled, tmp_path / kind, actor="operator", kind=kind)
        put(filled.for_tenant("acme"), make_trajectory(f"after-{kind}"))
        place = new_place()
        restored = restore(tmp_path / kind, place.url, place.blob_url, actor="operator", cipher=place.cipher)
        assert restored.tenants == ("acme", "other")
        assert (restored.blobs, restored.erased_again) == (2, 0)
        with place.open() as store:
            acme = store.for_tenant("acme")
            assert [s.event_ids for s in acme.trajectories()] == before
            assert acme.get_blob(acme.trajectory("t-1").trajectory.image_sha256[0]) == b"page"
            assert len(find_documents(acme, subject="张样本")) == 1  # the salt came along
            with pytest.raises(ErasedError):
                acme.trajectory("gone")
            put(acme, make_trajectory("goes on"))
            assert verify(store, manifest["heads"]).clean


def test_a_store_in_use_is_backed_up_as_one_state(
    filled: Store, backend: str, new_place: Places, tmp_path: Path, make_trajectory: Make
) -> None:
    stop, begun = threading.Event(), threading.Event()

    def write() -> None:
        other, number = filled.for_tenant("other"), 0
        while not stop.is_set() and number < 500:
            image = other.put_blob(f"page {number}".encode())
            put(other, make_trajectory(f"w-{number}", tenant_id="other", image_sha256=(image,)))
            number += 1
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        for kind in kinds(backend):
            backup(filled, tmp_path / kind, actor="operator", kind=kind)
    finally:
        stop.set()
        writer.join()
    for kind in kinds(backend):
        place = new_place()
        restored = restore(tmp_path / kind, place.url, place.blob_url, actor="operator", cipher=place.cipher)  # verifies
        assert restored.events > 3 * 4 + 1


def test_what_was_erased_after_the_backup_is_erased_again(filled: Store, backend: str, new_place: Places, tmp_path: Path) -> None:
    for kind in kinds(backend):
        backup(filled, tmp_path / kind, actor="operator", kind=kind)
    acme = filled.for_tenant("acme")
    erase(acme, find_documents(acme, subject="张样本"), actor="desk", reason="request")
    for kind in kinds(backend):
        place = new_place()
        restored = restore(
            tmp_path / kind, place.url, place.blob_url, actor="operator", journal_url=filled.blobs.url, cipher=place.cipher
        )
        assert restored.erased_again == 1
        with place.open() as store, pytest.raises(ErasedError):
            store.for_tenant("acme").trajectory("t-1")
        with place.open() as store:
            assert not list(store.blobs.list("acme"))
            assert verify(store).clean


def test_incomplete_and_changed_backups_are_refused(filled: Store, backend: str, new_place: Places, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    manifest = backup(filled, folder, actor="operator")
    place = new_place()
    name = sorted(manifest["files"])[-1]
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole + b" ")
    with pytest.raises(BackupError, match="changed"):
        restore(folder, place.url, place.blob_url, actor="operator", cipher=place.cipher)
    (folder / name).write_bytes(whole)
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").unlink()
    with pytest.raises(BackupError, match="manifest"):
        restore(folder, place.url, place.blob_url, actor="operator", cipher=place.cipher)
    (folder / "manifest.json").write_text(json.dumps(json.loads(text) | {"schema": "other/9"}))
    with pytest.raises(BackupError, match="kind"):
        restore(folder, place.url, place.blob_url, actor="operator", cipher=place.cipher)


def test_neither_goes_over_what_is_there(filled: Store, place: Any, backend: str, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    backup(filled, folder, actor="operator")
    with pytest.raises(BackupError, match="empty"):
        backup(filled, folder, actor="operator")
    with pytest.raises(BackupError, match="already"):
        restore(folder, place.url, place.blob_url, actor="operator", cipher=place.cipher)
    if backend == "postgres":
        with pytest.raises(BackupError, match="portable"):
            backup(filled, tmp_path / "b2", actor="operator", kind=BackupKind.SQLITE)


def test_a_missing_blob_stops_a_backup(filled: Store, tmp_path: Path) -> None:
    acme = filled.for_tenant("acme")
    sha256 = acme.trajectory("t-1").trajectory.image_sha256[0]
    filled.blobs.delete("acme", sha256)
    with pytest.raises(BlobMissingError, match=sha256):
        backup(filled, tmp_path / "backup", actor="operator")
    assert not (tmp_path / "backup" / "manifest.json").exists()


def test_a_backup_with_a_damaged_or_missing_blob_makes_no_store(
    filled: Store, backend: str, new_place: Places, tmp_path: Path
) -> None:
    sha256 = filled.for_tenant("acme").trajectory("t-1").trajectory.image_sha256[0]
    for kind in kinds(backend):
        backup(filled, tmp_path / kind, actor="operator", kind=kind)
        (blob,) = (tmp_path / kind / "blobs" / "acme").rglob(sha256)
        whole, place = blob.read_bytes(), new_place()
        for damage, words in ((lambda b=blob: b.write_bytes(b"x"), f"{sha256}.* damaged"), (blob.unlink, "1 blobs .* missing")):
            damage()
            with pytest.raises(BackupError, match=words):
                restore(tmp_path / kind, place.url, place.blob_url, actor="operator", cipher=place.cipher)
            blob.write_bytes(whole)
        assert not list(place.folder.glob("*.db*"))
        restore(tmp_path / kind, place.url, place.blob_url, actor="operator", cipher=place.cipher)  # the place is still free


KILLED = """
import os, sys
from pathlib import Path
import importlib
from certloop.agentrl.store import AesGcm, LocalBlobs
module = importlib.import_module("certloop.agentrl.store.backup")

def die(*_a, **_k):
    os.kill(os.getpid(), 9)

folder, url, blobs, sealed, where = sys.argv[1:]
patched = {"blobs": (LocalBlobs, "put"), "erasing": (module, "replay_journal"), "end": (module, "_sync")}
if where == "rows":
    usual, told = module._rows, []
    def dying(path):
        for row in usual(path):
            yield row
        told.append(path)
        if len(told) == 3:
            die()
    module._rows = dying
else:
    setattr(*patched[where], die)
cipher = AesGcm(bytes(range(32))) if sealed else None
module.restore(Path(folder), url, blobs, actor="operator", cipher=cipher)
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["blobs", "rows", "erasing", "end"])
def test_a_killed_restore_leaves_no_half_store(
    filled: Store, backend: str, new_place: Places, tmp_path: Path, where: str
) -> None:
    backup(filled, tmp_path / "b", actor="operator", kind=BackupKind.PORTABLE)
    acme, place = filled.for_tenant("acme"), new_place()
    erase(acme, find_documents(acme, traj_id="t-1"), actor="desk", reason="request")
    journal = open_blobs(place.blob_url or str(place.folder / "blobs"), place.cipher)
    for sha256 in filled.blobs.list(JOURNAL):  # the blobs of the store that was lost are still there
        journal.put(JOURNAL, filled.blobs.get(JOURNAL, sha256))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "b"), place.url, place.blob_url, "1" if place.cipher else "", where]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    killed = done.returncode == -9
    assert killed or (where, backend, done.stderr) == ("end", "postgres", "")
    if backend == "postgres" and where in ("erasing", "end"):  # all rows came in one transaction, and what is left is seen
        with place.open() as store:
            assert {f.problem for f in verify(store).findings} == ({"erasure_undone"} if where == "erasing" else set())
            replay_journal(store.for_tenant("acme"), store.blobs, "operator")
    else:
        assert not (place.folder / "store.db").exists()
        assert restore(tmp_path / "b", place.url, place.blob_url, actor="operator", cipher=place.cipher).erased_again == 1
    with place.open() as store:
        with pytest.raises(ErasedError):
            store.for_tenant("acme").trajectory("t-1")
        assert store.for_tenant("other").trajectory("t-1")
        assert verify(store).clean
    assert not list(place.folder.glob(".*restoring*"))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_log_of_a_lost_database_is_not_read_into_the_restored_one(filled: Store, new_place: Places, tmp_path: Path) -> None:
    backup(filled, tmp_path / "backup", actor="operator")
    place = new_place()
    log = place.folder / "store.db-wal"
    log.write_bytes(b"frames of another database")
    with pytest.raises(BackupError, match=r"store\.db-wal of a lost database"):
        restore(tmp_path / "backup", place.url, actor="operator")
    assert log.read_bytes() == b"frames of another database"
    log.rename(place.folder / "kept")
    assert restore(tmp_path / "backup", place.url, actor="operator").events == 3 * 4 + 1


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_laptops_store_moves_to_postgres(
    filled: Store, tmp_path: Path, request: pytest.FixtureRequest, make_trajectory: Make
) -> None:
    from sqlalchemy import make_url

    server = request.getfixturevalue("postgres")
    server.psql("CREATE DATABASE moved OWNER app;")
    url = make_url(server.get_uri()).set(username="app", database="moved").render_as_string(hide_password=False)
    backup(filled, tmp_path / "backup", actor="operator", kind=BackupKind.PORTABLE)
    assert restore(tmp_path / "backup", url, str(tmp_path / "blobs2"), actor="operator").events == 3 * 4 + 1
    with Store.open(url, str(tmp_path / "blobs2")) as store:
        assert len(list(store.for_tenant("acme").trajectories())) == 1
        assert verify(store).clean
    with pytest.raises(BackupError, match="portable"):
        backup(filled, tmp_path / "b3", actor="operator")
        restore(tmp_path / "b3", url, str(tmp_path / "blobs3"), actor="operator")
