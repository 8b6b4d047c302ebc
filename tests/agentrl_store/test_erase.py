"""Erasing a subject, on every database: what is gone, what stays, and what happens when the process dies half-way."""

from __future__ import annotations

import importlib
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.signals.schema import Reason, Scope, Signal
from certloop.agentrl.store import (
    ErasedError,
    EventError,
    Kind,
    NotFoundError,
    SnapshotError,
    Store,
    StoreUnavailableError,
    TenantStore,
    add_signals,
    apply_retention,
    create_snapshot,
    erase,
    find_documents,
    finish_erasures,
    load_snapshot,
    remove_orphans,
    verify,
)
from certloop.agentrl.trajectory import Trajectory

Make = Callable[..., Trajectory]
NAME = "欧阳样本"


def put(tenant: TenantStore, trajectory: Trajectory, *subjects: str) -> str:
    with tenant.batch("engine") as batch:
        batch.add_trajectory(trajectory, subjects=subjects)
    return tenant.trajectory(trajectory.traj_id).document_id


def test_an_erased_subject_is_gone_and_a_tombstone_stays(
    store: Store, make_trajectory: Make, make_signal: Callable[..., Signal]
) -> None:
    acme = store.for_tenant("acme")
    image = acme.put_blob(b"the page of " + NAME.encode())
    document = put(acme, make_trajectory("t-1", image_sha256=(image,), final_json=f'{{"owner": "{NAME}"}}'), NAME, "1101 0519")
    add_signals(acme, [make_signal(hint=f"应读作{NAME}")], "auditor-7")
    kept = put(acme, make_trajectory("t-2"), "somebody else")
    assert find_documents(acme, subject="１１０１0519") == (document,)
    done = erase(acme, find_documents(acme, subject=NAME), actor="privacy desk", reason="request 17")

    assert (done.documents, done.events, done.blobs) == ((document,), 5, 1)
    for question in (lambda: acme.trajectory("t-1"), lambda: acme.document(document)):
        with pytest.raises(ErasedError, match=done.erasure_id):
            question()
    with pytest.raises(NotFoundError):
        acme.get_blob(image)
    assert not store.blobs.exists("acme", image)
    assert [s.document_id for s in acme.trajectories()] == [kept]
    tombstone = next(iter(acme.events(Kind.ERASURE))).payload
    assert tombstone is not None
    assert (tombstone["documents"], tombstone["reason"]) == ([document], "request 17")
    assert [row.action for row in acme.audit_rows()][-2:] == ["erase", "erase.finished"]
    assert find_documents(acme, subject=NAME) == ()
    assert verify(store).clean


def test_a_trajectory_added_to_a_stored_document_brings_its_own_subjects(store: Store, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    with acme.batch("engine") as batch:
        document = batch.add_document(subjects=("一号样本",))
        batch.add_trajectory(make_trajectory("t-1"), document, subjects=("二号样本", "二号样本"))
    with acme.batch("engine") as batch:  # another day, another certificate of the same file; one of its names is known already
        batch.add_trajectory(make_trajectory("t-2"), document, subjects=("三号样本", "一号样本"))
    for name in ("一号样本", "二号样本", "三号样本"):
        assert find_documents(acme, subject=name) == (document,)
    erase(acme, find_documents(acme, subject="三号样本"), actor="desk", reason="request")
    for traj_id in ("t-1", "t-2"):
        with pytest.raises(ErasedError):
            acme.trajectory(traj_id)
    assert find_documents(acme, subject="一号样本") == ()
    assert verify(store).clean


def test_a_corrected_name_finds_its_document(store: Store, make_trajectory: Make, make_signal: Callable[..., Signal]) -> None:
    """Somebody whose name was misread asks by the name that they have."""
    acme = store.for_tenant("acme")
    document = put(acme, make_trajectory("t-1"), "欧日样本")
    edit: dict[str, Any] = {"scope": Scope.FIELD, "field": "owner", "value": -1.0, "reason": Reason.EDIT}
    signal = make_signal("t-1", evidence={"old": "欧日样本", "new": NAME}, **edit)
    for _ in range(2):
        add_signals(acme, [signal], "auditor-7")
    add_signals(acme, [make_signal("t-1", evidence={"old": "男", "new": None}, **edit | {"field": "part"})], "auditor-7")
    with acme.batch("engine") as batch:  # decided in the transaction that stores the reading, too
        batch.add_trajectory(make_trajectory("t-2"))
        batch.add_signal(make_signal("t-2", evidence={"old": None, "new": "三号样本"}, **edit))
    assert find_documents(acme, subject="三号样本") == (acme.trajectory("t-2").document_id,)
    assert find_documents(acme, subject="欧日样本") == find_documents(acme, subject=NAME) == (document,)
    erase(acme, find_documents(acme, subject=NAME), actor="desk", reason="request")
    with pytest.raises(ErasedError):
        acme.trajectory("t-1")
    assert verify(store).clean


def test_nothing_more_can_be_stored_about_an_erased_document(
    acme: TenantStore, make_trajectory: Make, make_signal: Callable[..., Signal]
) -> None:
    document = put(acme, make_trajectory("t-1"))
    erase(acme, [document], actor="desk", reason="request")
    with pytest.raises(ErasedError):
        add_signals(acme, [make_signal("t-1")], "auditor-7")
    with pytest.raises(ErasedError), acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("t-2"), document)


def test_documents_that_share_an_image_go_together(store: Store, make_trajectory: Make) -> None:
    acme, other = store.for_tenant("acme"), store.for_tenant("other")
    image, second = acme.put_blob(b"one page"), acme.put_blob(b"its back")
    first = put(acme, make_trajectory("t-1", image_sha256=(image,)), NAME)
    both = put(acme, make_trajectory("t-2", image_sha256=(image, second)))
    third = put(acme, make_trajectory("t-3", image_sha256=(second,)))
    other.put_blob(b"one page")
    with other.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("t-1", tenant_id="other", image_sha256=(image,)))
    done = erase(acme, find_documents(acme, subject=NAME), actor="desk", reason="request")
    assert set(done.documents) == {first, both, third}
    assert other.get_blob(image) == b"one page"
    assert verify(store).clean


def test_mentions_reach_what_was_stored_under_no_subject(acme: TenantStore, make_trajectory: Make) -> None:
    document = put(acme, make_trajectory("t-1", final_json=f'{{"contact": "{NAME} 100%_"}}'))
    put(acme, make_trajectory("t-2"))
    assert find_documents(acme, subject=NAME) == ()
    assert find_documents(acme, subject=NAME, mentions=True) == (document,)
    assert find_documents(acme, subject="100%_", mentions=True) == (document,)
    assert find_documents(acme, subject="1%_", mentions=True) == ()
    with pytest.raises(EventError):
        find_documents(acme, subject="欧", mentions=True)
    with pytest.raises(EventError):
        find_documents(acme, subject=" ")


def test_ids_of_other_tenants_and_unknown_ids_are_not_found(store: Store, make_trajectory: Make) -> None:
    acme, other = store.for_tenant("acme"), store.for_tenant("other")
    document = put(acme, make_trajectory("t-1"))
    for question in (
        lambda: erase(other, [document], actor="x", reason="x"),
        lambda: find_documents(other, traj_id="t-1"),
        lambda: find_documents(other, document_id=document),
    ):
        with pytest.raises(NotFoundError):
            question()
    assert find_documents(acme, traj_id="t-1") == find_documents(acme, document_id=document) == (document,)


def test_erasing_twice_reaches_nothing_more(store: Store, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    document = put(acme, make_trajectory("t-1"))
    erase(acme, [document], actor="desk", reason="request")
    again = erase(acme, [document], actor="desk", reason="request")
    assert (again.documents, again.events) == ((), 0)
    assert verify(store).clean


def test_an_erasure_cut_short_is_seen_and_finished(store: Store, make_trajectory: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = store.for_tenant("acme")
    image = acme.put_blob(b"page")
    document = put(acme, make_trajectory("t-1", image_sha256=(image,)))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(store.blobs), "delete", die)
        with pytest.raises(KeyboardInterrupt):
            erase(acme, [document], actor="desk", reason="request")
    assert store.blobs.exists("acme", image)
    assert [f.problem for f in verify(store).findings] == ["erasure_unfinished"]
    assert len(finish_erasures(acme, "desk")) == 1
    assert not store.blobs.exists("acme", image)
    assert verify(store).clean
    assert finish_erasures(acme, "desk") == ()


def test_what_the_disk_refuses_is_typed_and_the_erasure_is_finished_later(
    store: Store, place: Any, make_trajectory: Make, tmp_path: Path
) -> None:
    """A folder in a file's place: what no account may remove as a file, root included."""
    acme = store.for_tenant("acme")
    image = acme.put_blob(b"page")
    document = put(acme, make_trajectory("t-1", image_sha256=(image,)))
    made = create_snapshot(acme, tmp_path / "snapshots", actor="me")
    (blob,) = Path(place.blob_url or place.folder / "blobs").rglob(image)
    for path in (blob, made.parts[0]):
        path.unlink()
        path.mkdir()
    with pytest.raises(SnapshotError, match="part-00000"):
        load_snapshot(acme, made.folder)
    with pytest.raises(StoreUnavailableError, match=r"snapshot in .* cannot be emptied"):
        erase(acme, [document], actor="desk", reason="request")
    made.parts[0].rmdir()
    with pytest.raises(StoreUnavailableError, match=image):
        finish_erasures(acme, "desk")
    assert [f.problem for f in verify(store).findings] == ["erasure_unfinished"]
    blob.rmdir()
    assert len(finish_erasures(acme, "desk")) == 1
    assert verify(store).clean


def test_an_erasure_that_is_under_way_is_no_finding(store: Store, make_trajectory: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service erases while somebody verifies: it ends while the check waits to look again."""
    acme = store.for_tenant("acme")
    document = put(acme, make_trajectory("t-1", image_sha256=(acme.put_blob(b"page"),)))
    with monkeypatch.context() as patch:
        patch.setattr(type(store.blobs), "delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            erase(acme, [document], actor="desk", reason="request")
    monkeypatch.setattr("time.sleep", lambda _s: finish_erasures(acme, "desk"))
    assert verify(store).clean


def test_a_new_upload_of_an_erased_image_keeps_its_blob(
    store: Store, make_trajectory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = store.for_tenant("acme")
    image = acme.put_blob(b"page")
    document = put(acme, make_trajectory("t-1", image_sha256=(image,)))
    with monkeypatch.context() as patch:
        patch.setattr(type(store.blobs), "delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            erase(acme, [document], actor="desk", reason="request")
    put(acme, make_trajectory("t-2", image_sha256=(acme.put_blob(b"page"),)))
    finish_erasures(acme, "desk")
    assert acme.get_blob(image) == b"page"
    assert verify(store).clean


def test_orphans_can_be_removed_and_named_blobs_stay(store: Store, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    kept, orphan = acme.put_blob(b"kept"), acme.put_blob(b"orphan")
    put(acme, make_trajectory("t-1", image_sha256=(kept,)))
    assert remove_orphans(acme, actor="clock") == 0  # too young: somebody may be about to name it
    assert remove_orphans(acme, actor="clock", older_than_s=0) == 1
    assert not store.blobs.exists("acme", orphan)
    assert acme.get_blob(kept) == b"kept"
    assert verify(store).orphans == 0


def test_retention_erases_what_is_older(acme: TenantStore, make_trajectory: Make) -> None:
    put(acme, make_trajectory("t-1"))
    assert apply_retention(acme, keep_days=30, actor="clock") is None
    later = datetime.now(UTC) + timedelta(days=31)
    done = apply_retention(acme, keep_days=30, actor="clock", today=later)
    assert done is not None
    assert len(done.documents) == 1
    assert not list(acme.trajectories())
    with pytest.raises(EventError):
        apply_retention(acme, keep_days=-1, actor="clock")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_no_byte_of_an_erased_payload_is_left_in_the_files(
    store: Store, place: object, make_trajectory: Make, tmp_path: Path
) -> None:
    acme = store.for_tenant("acme")
    for i in range(60):
        put(acme, make_trajectory(f"t-{i}", final_json=f'{{"owner": "{NAME}", "pad": "{"x" * 900}"}}'), NAME)
    create_snapshot(acme, tmp_path / "snapshots", actor="me")
    erase(acme, find_documents(acme, subject=NAME), actor="desk", reason="request")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2
    assert not [path for path in files if NAME.encode() in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_no_byte_of_an_erased_payload_is_left_in_postgres_tables(
    store: Store, postgres: Any, make_trajectory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pages and in what is stored beside them (TOAST). A reader at work only delays it."""

    def left() -> int:
        postgres.psql("CHECKPOINT;")
        tables = (path for path in (postgres.pgdata / "base").rglob("*") if path.is_file())
        return sum(path.read_bytes().count(name.encode()) for path in tables)

    acme, name = store.for_tenant("acme"), f"erase{uuid.uuid4().hex[:6]}"
    for i in range(40):
        pad = "" if i else random.Random(1).randbytes(20_000).hex()
        put(acme, make_trajectory(f"t-{i}", final_json=f'{{"owner": "{name}", "pad": "{pad}"}}'), *([name] if i else ["late"]))
    assert left() >= 40
    reader = acme.trajectories()
    next(reader)
    erase(acme, find_documents(acme, subject=name), actor="desk", reason="request")
    reader.close()
    assert left() > 1
    erase(acme, find_documents(acme, subject="late"), actor="desk", reason="request")
    assert left() == 0
    module = importlib.import_module("certloop.agentrl.store.erase")
    monkeypatch.setattr(module, "REWRITE_MAX_BYTES", 0)  # a table too large to be written anew
    put(acme, make_trajectory("t-x"), "later")
    erase(acme, find_documents(acme, subject="later"), actor="desk", reason="request")
    assert verify(store).clean
