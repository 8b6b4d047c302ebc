"""What bad input gets, from the way in to the way out: a typed error that names what is wrong, and a store that stays whole."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.rewards import RewardError, composite_reward, f1_power, group_advantages
from certloop.agentrl.signals.errors import SignalError
from certloop.agentrl.signals.schema import Signal
from certloop.agentrl.store import (
    BlobCorruptError,
    BlobMissingError,
    EventError,
    ExportError,
    NotFoundError,
    SnapshotErasedError,
    Store,
    StoreError,
    TenantStore,
    add_signals,
    create_snapshot,
    erase,
    find_documents,
    load_snapshot,
    verify,
)
from certloop.agentrl.store.exporters import fused_reward, tinker_rl_datum
from certloop.agentrl.trajectory import Trajectory, TrajectoryError

Make = Callable[..., Trajectory]
MakeSignal = Callable[..., Signal]
NOT_FINITE = [math.nan, math.inf, -math.inf]


def put(tenant: TenantStore, *trajectories: Trajectory) -> None:
    with tenant.batch("engine") as batch:
        for trajectory in trajectories:
            batch.add_trajectory(trajectory)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_reward_that_is_no_number_reaches_neither_store_nor_trainer(
    acme: TenantStore, make_trajectory: Make, make_signal: MakeSignal, value: float
) -> None:
    put(acme, make_trajectory())
    with pytest.raises(SignalError) as caught:
        add_signals(acme, [make_signal(value=value)], "judge")
    assert caught.value.code == "signal_invalid"
    with pytest.raises(ExportError):
        tinker_rl_datum(make_trajectory(), value)
    for refused in (
        lambda: group_advantages([0.5, value]),
        lambda: f1_power(value),
        lambda: composite_reward(value, 1, 1, 1),
    ):
        with pytest.raises(RewardError):
            refused()
    with pytest.raises(TrajectoryError):
        put(acme, make_trajectory("t-2", logprobs=tuple(value for _ in range(31))))
    assert [s.signals for s in acme.trajectories()] == [()]


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("token_lengths", {"loss_mask": (1,) * 30}),
        ("token_lengths", {"logprobs": (-0.5,) * 32}),
        ("mask_not_assistant", {"loss_mask": (1,) * 31}),
    ],
)
def test_a_mask_of_wrong_length_is_refused_and_costs_the_others_nothing(
    acme: TenantStore, make_trajectory: Make, code: str, change: dict[str, Any]
) -> None:
    with acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("good"))
        with pytest.raises(TrajectoryError) as caught:
            batch.add_trajectory(make_trajectory("bad", **change))
    assert caught.value.code == code
    assert [s.trajectory.traj_id for s in acme.trajectories()] == ["good"]


def test_a_foreign_tenant_gets_nothing_and_gives_nothing(store: Store, make_trajectory: Make, make_signal: MakeSignal) -> None:
    acme, other = store.for_tenant("acme"), store.for_tenant("other")
    image = acme.put_blob(b"a page")
    put(acme, make_trajectory(image_sha256=(image,)))
    document = acme.trajectory("t-1").document_id
    for asked in (
        lambda: other.trajectory("t-1"),
        lambda: other.document(document),
        lambda: other.get_blob(image),
        lambda: add_signals(other, [make_signal()], "somebody"),
        lambda: erase(other, [document], actor="somebody", reason="spite"),
        lambda: find_documents(other, traj_id="t-1"),
    ):
        with pytest.raises(NotFoundError):
            asked()
    with pytest.raises(EventError, match="another tenant"):
        put(other, make_trajectory("t-2"))
    with pytest.raises(NotFoundError), other.batch("somebody") as batch:
        batch.add_trajectory(make_trajectory("t-3", tenant_id="other"), document)
    assert acme.trajectory("t-1").signals == ()
    assert list(other.trajectories()) == []
    assert verify(store).clean


def test_a_missing_or_changed_blob_is_named_everywhere(store: Store, place: Any, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    gone, changed = acme.put_blob(b"first page"), acme.put_blob(b"second page")
    put(acme, make_trajectory("t-1", image_sha256=(gone,)), make_trajectory("t-2", image_sha256=(changed,)))
    store.blobs.delete("acme", gone)
    folder = Path(place.blob_url or place.folder / "blobs")
    (stored,) = [path for path in folder.rglob(f"*{changed[4:]}*") if path.is_file()]
    stored.write_bytes(stored.read_bytes()[:-1] + b"X")
    with pytest.raises(BlobMissingError, match=gone):
        acme.get_blob(gone)
    with pytest.raises((BlobCorruptError, StoreError), match=changed):
        acme.get_blob(changed)
    found = {finding.problem: finding.what for finding in verify(store).findings}
    assert found == {"blob_missing": f"blob {gone}", "blob_corrupt": f"blob {changed}"}
    with pytest.raises(BlobMissingError, match="0" * 64), acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("t-3", image_sha256=("0" * 64,)))


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE store_audit SET actor = 'nobody' WHERE position = 1", "audit_edited"),
        ("DELETE FROM store_audit WHERE position = 1", "audit_gap"),
        ("UPDATE store_events SET doc_type = 'x' WHERE position = 1", "event_edited"),
        ("DELETE FROM store_events WHERE position = 2", "event_missing"),
    ],
)
def test_an_edited_row_is_found(
    store: Store, tamper: Callable[[str], None], make_trajectory: Make, statement: str, problem: str
) -> None:
    for name in ("t-1", "t-2"):
        put(store.for_tenant("acme"), make_trajectory(name))
    assert verify(store).clean
    tamper(statement)
    assert problem in {finding.problem for finding in verify(store).findings}


def test_a_corrupted_page_is_found(tmp_path: Path, make_trajectory: Make) -> None:
    path = tmp_path / "store.db"
    with Store.open(f"sqlite:///{path}") as store:
        acme = store.for_tenant("acme")
        for start in range(0, 100, 50):
            put(acme, *(make_trajectory(f"t-{i}") for i in range(start, start + 50)))
        store.engine.dispose()
    data = bytearray(path.read_bytes())
    for page in range(4096 * 30, len(data) - 4096, 4096 * 40):
        data[page + 64 : page + 512] = bytes(448)
    path.write_bytes(bytes(data))
    with Store.open(f"sqlite:///{path}", create=False) as store:
        assert not verify(store).clean


def test_a_snapshot_over_an_erased_subject_is_refused(acme: TenantStore, make_trajectory: Make, tmp_path: Path) -> None:
    put(acme, make_trajectory("t-1"), make_trajectory("t-2"))
    made = create_snapshot(acme, tmp_path, actor="me", reward_of=fused_reward)
    copied = tmp_path / "copied elsewhere"
    copied.mkdir()
    for file in made.folder.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    erase(acme, find_documents(acme, traj_id="t-1"), actor="desk", reason="request")
    for folder in (made.folder, copied):
        with pytest.raises(SnapshotErasedError):
            load_snapshot(acme, folder)
    assert not list(made.folder.glob("*.parquet"))
    later = create_snapshot(acme, tmp_path, actor="me")
    assert [row.trajectory.traj_id for row in later.rows()] == ["t-2"]


def test_no_error_quotes_a_value(acme: TenantStore, make_trajectory: Make) -> None:
    secret = json.dumps({"owner": "欧阳样本"}, ensure_ascii=False)
    with pytest.raises(TrajectoryError) as caught:
        put(acme, make_trajectory(final_json=secret, loss_mask=(1,) * 3))
    assert "欧阳" not in str(caught.value)
