"""What every database must do. The whole file runs on SQLite, and on Postgres with the slow tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from certloop.agentrl.signals.errors import SignalError
from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source
from certloop.agentrl.store import (
    BlobMissingError,
    DuplicateEventError,
    EventError,
    Filters,
    Kind,
    NotFoundError,
    Store,
    StoreError,
    TenantError,
    TenantStore,
    add_signals,
    erase,
    find_documents,
    record_result,
    set_consent,
    verify,
)
from certloop.agentrl.store.engine import guarded
from certloop.agentrl.store.exporters import fused_reward
from certloop.agentrl.trajectory import Consent, MaskError, NotFiniteError, Outcome, Trajectory, TrajectoryError
from certloop.agentrl.trajectory.bridge import Provenance

Make = Callable[..., Trajectory]
MakeSignal = Callable[..., Signal]


def put(tenant: TenantStore, *trajectories: Trajectory, **options: Any) -> None:
    with tenant.batch("engine") as batch:
        for trajectory in trajectories:
            batch.add_trajectory(trajectory, **options)


def test_what_comes_back_is_what_went_in(acme: TenantStore, make_trajectory: Make, make_signal: MakeSignal) -> None:
    image = acme.put_blob(b"a page")
    trajectory = make_trajectory(image_sha256=(image,), overlay_event_ids=("o-1",), group_id="g", memory_snapshot_id="m")
    signal = make_signal(evidence={"old": "张", "new": None}, span=(2, 5), hint="看右下角", scope=Scope.FIELD, field="owner")
    put(acme, trajectory)
    add_signals(acme, [signal], "auditor-7")
    stored = acme.trajectory("t-1")
    assert stored.trajectory == trajectory
    assert stored.signals == (signal,)
    assert acme.get_blob(image) == b"a page"
    assert acme.document(stored.document_id).images == (image,)
    assert stored.event_ids == ("t-1", "t-1/0", "t-1/1", signal.signal_id, stored.document_id)


@pytest.mark.parametrize("words", ["\x00 null", "\ud800 lone surrogate", "𠮷 \u202e \r\n", "'; DROP TABLE store_events; --"])
def test_any_text_survives(acme: TenantStore, make_trajectory: Make, words: str) -> None:
    put(acme, make_trajectory(final_json=words, outcome_reason=words))
    assert acme.trajectory("t-1").trajectory.final_json == words


def test_a_nul_in_a_name_is_refused_and_finds_nothing(acme: TenantStore, make_trajectory: Make) -> None:
    """Postgres holds no NUL, so no store does: it could not move there."""
    put(acme, make_trajectory("t-1"))
    for bad in (make_trajectory("a\0b"), make_trajectory("t-2", doc_type="a\0b")):
        with pytest.raises(EventError, match="NUL"):
            put(acme, bad)
    with pytest.raises(EventError, match="NUL"):
        acme.note("a\0b", "reveal")
    for question in (acme.trajectory, acme.document, acme.get_blob):
        with pytest.raises(NotFoundError):
            question("t-1\0")
    assert len(list(acme.trajectories())) == 1


def test_another_tenants_ids_do_not_exist(store: Store, make_trajectory: Make, make_signal: MakeSignal) -> None:
    acme, other = store.for_tenant("acme"), store.for_tenant("other")
    image = acme.put_blob(b"a page")
    put(acme, make_trajectory(image_sha256=(image,)))
    document_id = acme.trajectory("t-1").document_id
    for question in (
        lambda: other.trajectory("t-1"),
        lambda: other.document(document_id),
        lambda: other.get_blob(image),
        lambda: add_signals(other, [make_signal()], "x"),
        lambda: set_consent(other, document_id, Consent.SHARED, "", "x"),
    ):
        with pytest.raises(NotFoundError):
            question()
    assert not list(other.trajectories())
    assert not list(other.events())
    with pytest.raises(EventError, match="another tenant"):
        put(other, make_trajectory("t-2"))


def test_equal_ids_of_two_tenants_are_two_trajectories(store: Store, make_trajectory: Make) -> None:
    for name in ("acme", "other"):
        put(store.for_tenant(name), make_trajectory(tenant_id=name, doc_type=name))
    assert store.for_tenant("other").trajectory("t-1").trajectory.doc_type == "other"
    assert store.tenants() == ("acme", "other")


@pytest.mark.parametrize("name", ["", "../acme", "ACME", "a b", "-a", "a" * 64, "租户", "erasure-journal"])
def test_a_tenants_name_is_a_safe_folder_name(store: Store, name: str) -> None:
    with pytest.raises(TenantError):
        store.for_tenant(name)


def test_a_batch_is_whole_or_not_at_all(acme: TenantStore, make_trajectory: Make) -> None:
    put(acme, make_trajectory("t-1"))
    with pytest.raises(DuplicateEventError):
        put(acme, make_trajectory("t-2"), make_trajectory("t-1"))
    with pytest.raises(RuntimeError, match="stop"), acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("t-3"))
        raise RuntimeError("stop")
    assert [s.trajectory.traj_id for s in acme.trajectories()] == ["t-1"]


def test_malformed_records_are_refused_and_cost_the_others_nothing(
    acme: TenantStore, make_trajectory: Make, make_signal: MakeSignal
) -> None:
    good = make_trajectory("good")
    wrong_mask = dataclasses.replace(good, traj_id="mask", loss_mask=(1,) * 31)
    infinite = dataclasses.replace(good, traj_id="inf", steps=(dataclasses.replace(good.steps[0], value=float("inf")),))
    with acme.batch("engine") as batch:
        batch.add_trajectory(good)
        for bad, error in ((wrong_mask, MaskError), (infinite, NotFiniteError)):
            with pytest.raises(error):
                batch.add_trajectory(bad)
        with pytest.raises(TrajectoryError):
            batch.add_trajectory(dataclasses.replace(good, traj_id="short", loss_mask=(0,)))
        for value in (float("nan"), float("inf"), 1.5):
            with pytest.raises(SignalError):
                batch.add_signal(make_signal("good", value))
    assert [s.trajectory for s in acme.trajectories()] == [good]


def test_an_image_is_stored_before_the_row_that_names_it(acme: TenantStore, make_trajectory: Make) -> None:
    with pytest.raises(BlobMissingError, match="0" * 64):
        put(acme, make_trajectory(image_sha256=("0" * 64,)))
    assert not list(acme.events())


def test_the_same_signal_twice_is_one_and_late_ones_join(
    acme: TenantStore, make_trajectory: Make, make_signal: MakeSignal
) -> None:
    judge = make_signal(value=0.8, source=Source.JUDGE, reason=Reason.JUDGEMENT, actor="judge")
    put(acme, make_trajectory())
    add_signals(acme, [judge, judge], "judge")
    add_signals(acme, [judge], "judge")
    assert fused_reward(acme.trajectory("t-1").trajectory, acme.trajectory("t-1").signals) == 0.8
    late = make_signal(value=-1.0, reason=Reason.REJECTION)
    add_signals(acme, [late], "auditor-7")
    stored = acme.trajectory("t-1")
    assert stored.signals == (judge, late)
    assert fused_reward(stored.trajectory, stored.signals) == -1.0


def test_a_signal_in_the_same_batch_as_its_trajectory(acme: TenantStore, make_trajectory: Make, make_signal: MakeSignal) -> None:
    with acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory())
        batch.add_signal(make_signal())
    assert acme.trajectory("t-1").signals == (make_signal(),)
    with pytest.raises(NotFoundError):
        add_signals(acme, [make_signal("unknown")], "x")


def test_the_last_word_on_consent_counts_and_the_earlier_ones_stay(acme: TenantStore, make_trajectory: Make) -> None:
    put(acme, make_trajectory(consent=Consent.SHARED))
    document_id = acme.trajectory("t-1").document_id
    set_consent(acme, document_id, Consent.NONE, "withdrawn", "desk")
    assert acme.document(document_id).state.consent is Consent.NONE
    assert acme.trajectory("t-1").state.purpose == "withdrawn"
    assert acme.trajectory("t-1").trajectory.consent is Consent.SHARED
    assert [e.payload["consent"] for e in acme.events() if e.payload and e.kind in (Kind.DOCUMENT, Kind.CONSENT)] == [
        "shared", "none",
    ]  # fmt: skip


def test_filters(acme: TenantStore, make_trajectory: Make, make_signal: MakeSignal) -> None:
    put(
        acme,
        make_trajectory("a", doc_type="x", created_at="2026-01-01T00:00:00+00:00"),
        make_trajectory("b", doc_type="y", created_at="2026-02-01T07:59:00+08:00", consent=Consent.NONE),
        make_trajectory("c", doc_type="y", created_at="2026-03-01T00:00:00+00:00", outcome=Outcome.FAILED, purpose="audit"),
    )
    add_signals(acme, [make_signal("a", 0.9), make_signal("c", -0.5, scope=Scope.FIELD, field="owner")], "z")
    add_signals(acme, [make_signal("c", 0.1)], "z")

    def ids(**filters: Any) -> list[str]:
        return [s.trajectory.traj_id for s in acme.trajectories(Filters(**filters), fused_reward)]

    assert ids() == ["a", "b", "c"]
    assert ids(doc_types=("y",)) == ["b", "c"]
    assert ids(since="2026-02-01T00:00:00+00:00") == ["c"]  # b: 07:59 in China is the evening before in UTC
    assert ids(until="2026-02-01T00:00:00+00:00") == ["a", "b"]
    assert ids(consent=Consent.TENANT) == ["a", "c"]
    assert ids(purpose="audit") == ["c"]
    assert ids(outcomes=(Outcome.FAILED,)) == ["c"]
    assert ids(fields=("owner",)) == ["c"]
    assert ids(min_reward=0.5) == ["a"]
    assert ids(max_reward=0.5) == ["c"]  # b has no reward
    assert ids(traj_ids=("b", "nobody")) == ["b"]


def test_streaming_crosses_pages_in_order(acme: TenantStore, make_trajectory: Make) -> None:
    put(acme, *(make_trajectory(f"t-{i:03d}") for i in range(450)))
    assert [s.trajectory.traj_id for s in acme.trajectories()] == [f"t-{i:03d}" for i in range(450)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE store_events SET payload = '{}' WHERE tenant = 'acme'",
        "UPDATE store_events SET payload = NULL WHERE tenant = 'acme'",
        "DELETE FROM store_events WHERE tenant = 'acme'",
        "UPDATE store_audit SET actor = 'nobody' WHERE tenant = 'acme'",
        "DELETE FROM store_audit WHERE tenant = 'acme'",
    ],
)
def test_events_and_audit_rows_are_only_ever_added(acme: TenantStore, make_trajectory: Make, statement: str) -> None:
    put(acme, make_trajectory())
    with pytest.raises(StoreError, match="append-only"), guarded():  # noqa: SIM117 - the error belongs to the inner block
        with acme.engine.connect().execution_options(store_writes=True) as connection, connection.begin():
            if acme.engine.dialect.name == "postgresql":
                connection.execute(text("SELECT set_config('certloop.tenant', 'acme', true)"))
            connection.execute(text(statement))
    assert acme.trajectory("t-1").trajectory == make_trajectory()


def test_every_write_is_in_the_audit_trail(acme: TenantStore, make_trajectory: Make, make_signal: MakeSignal) -> None:
    put(acme, make_trajectory())
    add_signals(acme, [make_signal()], "auditor-7")
    first, second = acme.audit_rows()
    assert (first.actor, first.action, first.details["kinds"]) == (
        "engine",
        "append",
        {"document": 1, "trajectory": 1, "step": 2},
    )
    assert (second.actor, second.details["first"], second.details["last"]) == ("auditor-7", 5, 5)
    assert second.prev_hash == first.hash
    with pytest.raises(EventError), acme.batch("") as batch:
        batch.add_trajectory(make_trajectory("t-2"))


def test_a_fresh_store_verifies(store: Store, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    put(acme, make_trajectory(image_sha256=(acme.put_blob(b"page"),)))
    report = verify(store)
    assert report.clean, report.findings
    assert (report.events, report.blobs, report.orphans) == (4, 1, 0)
    acme.put_blob(b"put, then the process died")
    assert verify(store, report.heads).orphans == 1


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE store_audit SET actor = 'nobody' WHERE position = 1", "audit_edited"),
        ("UPDATE store_audit SET details = '{}' WHERE position = 2", "audit_edited"),
        ("DELETE FROM store_audit WHERE position = 1", "audit_gap"),
        ("DELETE FROM store_audit WHERE position = 2", "event_unaudited"),
        ('UPDATE store_events SET payload = \'{"consent":"shared"}\' WHERE position = 1', "event_edited"),
        ("UPDATE store_events SET doc_type = 'other' WHERE position = 2", "event_edited"),
        ("UPDATE store_events SET payload = NULL, salt = NULL, erasure_id = 'x' WHERE position = 2", "event_emptied"),
        ("DELETE FROM store_events WHERE position = 3", "event_missing"),
        ("DELETE FROM store_links", "link_missing"),
    ],
)
def test_verify_finds_what_was_changed(
    store: Store, tamper: Callable[[str], None], make_trajectory: Make, statement: str, problem: str
) -> None:
    acme = store.for_tenant("acme")
    put(acme, make_trajectory("t-1", image_sha256=(acme.put_blob(b"page"),)))
    put(acme, make_trajectory("t-2"))
    tamper(statement)
    found = {finding.problem for finding in verify(store).findings}
    assert problem in found


@pytest.mark.parametrize("named", ["a later page", "what a tool saw"])
def test_verify_finds_every_blob_that_lost_its_link(
    store: Store, tamper: Callable[[str], None], make_trajectory: Make, named: str
) -> None:
    """A sweep would take it: pages of a later episode, and what a step keeps as a blob."""
    acme = store.for_tenant("acme")
    first, second = acme.put_blob(b"first"), acme.put_blob(b"second")
    put(acme, make_trajectory("t-1", image_sha256=(first,)))
    again = make_trajectory("t-2", image_sha256=(second,))
    if named == "what a tool saw":
        step = make_trajectory().steps[0]
        assert step.tool_result is not None
        seen = dataclasses.replace(step, tool_result=dataclasses.replace(step.tool_result, payload_ref=second))
        again = make_trajectory("t-2", steps=(seen, make_trajectory().steps[1]))
    put(acme, again, document_id=acme.trajectory("t-1").document_id)
    assert verify(store).clean
    tamper(f"DELETE FROM store_links WHERE key = '{second}'")
    assert [(f.problem, f.what) for f in verify(store).findings] == [("link_missing", f"blob {second}")]


def test_a_pinned_head_shows_a_chain_that_was_cut(store: Store, tamper: Callable[[str], None], make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    put(acme, make_trajectory())
    acme.note("operator", "reveal", trajectory="t-1")
    heads = verify(store).heads
    tamper("DELETE FROM store_audit WHERE position = 2")
    assert verify(store).clean
    assert [f.problem for f in verify(store, heads).findings] == ["audit_cut"]


def test_a_tenant_that_vanished_from_the_list_is_found(
    store: Store, tamper: Callable[[str], None], make_trajectory: Make
) -> None:
    for name in ("acme", "other"):
        put(store.for_tenant(name), make_trajectory(tenant_id=name))
    heads = verify(store).heads
    tamper("DELETE FROM store_tenants WHERE tenant = 'acme'")
    assert {(f.problem, f.tenant) for f in verify(store, heads).findings} == {("tenant_missing", "acme")}
    unpinned = {f.problem for f in verify(store).findings}
    assert unpinned == (
        set() if store.engine.dialect.name == "postgresql" else {"tenant_missing"}
    )  # rows show to their tenant only
    assert verify(store, heads, ["other"]).clean


def test_missing_and_changed_blobs_are_named(store: Store, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    gone, changed = acme.put_blob(b"gone"), acme.put_blob(b"changed")
    put(acme, make_trajectory(image_sha256=(gone, changed)))
    store.blobs.delete("acme", gone)
    (store.blobs._path("acme", changed)).write_bytes(b"chanced")  # type: ignore[attr-defined]
    found = {(f.problem, f.what) for f in verify(store).findings}
    assert found == {("blob_missing", f"blob {gone}"), ("blob_corrupt", f"blob {changed}")}
    with pytest.raises(BlobMissingError, match=gone):
        acme.get_blob(gone)


def test_what_is_erased_while_verify_looks_is_no_finding(
    store: Store, make_trajectory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = store.for_tenant("acme")
    put(acme, make_trajectory(image_sha256=(acme.put_blob(b"page"),)))
    get = type(store.blobs).get

    def erase_meanwhile(blobs: Any, *args: Any) -> bytes:
        monkeypatch.setattr(type(store.blobs), "get", get)
        erase(acme, find_documents(acme, traj_id="t-1"), actor="desk", reason="request")
        return get(blobs, *args)

    monkeypatch.setattr(type(store.blobs), "get", erase_meanwhile)
    assert verify(store).clean


def test_one_call_records_a_result(store: Store) -> None:
    steps = [{"thought": "read the page", "tool": "ocr", "args": {}, "ok": True, "result": {"lines": 3}}]
    traj_id = record_result(
        store,
        provenance=Provenance("acme", Consent.TENANT, "training", policy_version="embedded"),
        doc_type="parts_list",
        final={"owner": "张样本"},
        steps=steps,
        images=[b"page one", b"page two"],
        actor="certloop extract",
        subjects=["张样本"],
    )
    acme = store.for_tenant("acme")
    stored = acme.trajectory(traj_id)
    assert stored.trajectory.path == ("ocr",)
    assert [acme.get_blob(sha) for sha in stored.trajectory.image_sha256] == [b"page one", b"page two"]
    assert stored.state.covers(Consent.TENANT)
    assert not stored.state.covers(Consent.SHARED)
    assert verify(store).clean


def test_recording_again_after_a_crash_adds_nothing(store: Store) -> None:
    """Jobs run at least once: the second run has the same id and the same pages."""

    def record(page: bytes) -> str:
        provenance = Provenance("acme", Consent.TENANT, "training")
        return record_result(
            store, provenance=provenance, doc_type="x", final={}, steps=(), images=[page], actor="job", traj_id="job-1"
        )  # fmt: skip

    assert record(b"page") == record(b"page") == "job-1"
    assert len(list(store.for_tenant("acme").trajectories())) == 1
    with pytest.raises(DuplicateEventError):
        record(b"another page")
