"""Training sets: what enters, what a row holds, and when one is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.signals.schema import Reason, Scope, Signal
from certloop.agentrl.store import (
    ConsentError,
    EventError,
    Filters,
    NotFoundError,
    SnapshotErasedError,
    SnapshotError,
    Store,
    TenantStore,
    add_signals,
    create_snapshot,
    erase,
    find_documents,
    load_snapshot,
    set_consent,
    verify,
)
from certloop.agentrl.store import snapshots as module
from certloop.agentrl.store.exporters import fused_reward
from certloop.agentrl.trajectory import Consent, Outcome, Trajectory

Make = Callable[..., Trajectory]


def put(tenant: TenantStore, *trajectories: Trajectory) -> None:
    with tenant.batch("engine") as batch:
        for trajectory in trajectories:
            batch.add_trajectory(trajectory)


@pytest.fixture
def three(acme: TenantStore, make_trajectory: Make, make_signal: Callable[..., Signal]) -> TenantStore:
    """Two consented trajectories, the second with a signal, and one that is not."""
    put(acme, make_trajectory("a"), make_trajectory("b", doc_type="y"), make_trajectory("c", consent=Consent.NONE))
    add_signals(acme, [make_signal("b", 0.75)], "auditor-7")
    return acme


def test_a_snapshot_holds_the_consented_trajectories_as_they_are(
    three: TenantStore, make_trajectory: Make, tmp_path: Path
) -> None:
    made = create_snapshot(three, tmp_path, actor="me", reward_of=fused_reward, reward_name="fused")
    rows = list(load_snapshot(three, made.folder).rows())
    assert [row.trajectory for row in rows] == [make_trajectory("a"), make_trajectory("b", doc_type="y")]
    assert [row.reward for row in rows] == [None, 0.75]
    assert rows[1].signals == three.trajectory("b").signals
    assert [row.event_ids for row in rows] == [three.trajectory(name).event_ids for name in ("a", "b")]
    manifest = json.loads((made.folder / "manifest.json").read_text())
    assert (manifest["rows"], manifest["tenant"], manifest["reward"]) == (2, "acme", "fused")
    assert manifest["filters"]["consent"] == "tenant"
    assert [row.action for row in three.audit_rows()][-2:] == ["snapshot.begun", "snapshot"]


def test_what_an_auditor_approved_is_the_ground_truth(
    acme: TenantStore, make_trajectory: Make, make_signal: Callable[..., Signal], tmp_path: Path
) -> None:
    field = {"scope": Scope.FIELD, "value": -1.0, "reason": Reason.EDIT}
    with acme.batch("test") as batch:
        for name in ("approved", "edited", "silent", "refused"):
            batch.add_trajectory(make_trajectory(name))
        batch.add_trajectory(make_trajectory("nothing read", final_json=None, outcome=Outcome.MALFORMED, token_offsets=()))
        for name in ("approved", "edited", "nothing read"):
            batch.add_signal(make_signal(name))
        batch.add_signal(make_signal("refused", -1.0, reason=Reason.REJECTION))
        batch.add_signal(make_signal("edited", field="part", evidence={"old": "A-17", "new": "A-71"}, **field))
        batch.add_signal(make_signal("nothing read", field="owner", evidence={"old": None, "new": "李样本"}, **field))
    made = create_snapshot(acme, tmp_path, actor="me")
    expected = {
        "approved": {"owner": "张样本", "part": "A-17"}, "edited": {"owner": "张样本", "part": "A-71"},
        "silent": None, "refused": None, "nothing read": {"owner": "李样本"},
    }  # fmt: skip
    said = {row.trajectory.traj_id: row.ground_truth for row in load_snapshot(acme, made.folder).rows()}
    assert {name: text and json.loads(text) for name, text in said.items()} == expected
    assert dict(made.duckdb().execute("SELECT traj_id, ground_truth FROM snapshot").fetchall()) == said


def test_duckdb_shows_it(three: TenantStore, tmp_path: Path) -> None:
    made = create_snapshot(three, tmp_path, actor="me", reward_of=fused_reward)
    query = "SELECT traj_id, len(token_ids), list_sum(loss_mask), reward FROM snapshot ORDER BY traj_id"
    assert made.duckdb().execute(query).fetchall() == [("a", 31, 13, None), ("b", 31, 13, 0.75)]


def test_the_readme_names_every_column_and_its_query_runs(three: TenantStore, tmp_path: Path, root: Path) -> None:
    made = create_snapshot(three, tmp_path, actor="me", reward_of=fused_reward)
    readme = (root / "README.md").read_text(encoding="utf-8")
    listed = readme.split("\nColumns: ")[1].split("\n\n")[0]
    connection = made.duckdb()
    columns = {row[0] for row in connection.execute("DESCRIBE snapshot").fetchall()}
    assert columns - {"event_id"} == set(re.findall(r"`(\w+)`", listed))
    query = readme.split("```sql\n")[1].split("```")[0].replace("snapshots/SNAPSHOT_ID", str(made.folder))
    assert connection.execute(query).fetchall() == [("parts_list", 1, 0, None), ("y", 1, 1, 0.75)]


def test_filters_narrow_it_and_an_empty_one_is_fine(three: TenantStore, tmp_path: Path) -> None:
    made = create_snapshot(three, tmp_path, Filters(doc_types=("y",), min_reward=0.5), actor="me", reward_of=fused_reward)
    assert [row.trajectory.traj_id for row in made.rows()] == ["b"]
    empty = create_snapshot(three, tmp_path, Filters(consent=Consent.SHARED), actor="me")
    assert list(load_snapshot(three, empty.folder).rows()) == []
    assert empty.duckdb().execute("SELECT count(*) FROM snapshot").fetchone() == (0,)


def test_named_trajectories_must_exist_be_consented_and_not_erased(three: TenantStore, tmp_path: Path) -> None:
    with pytest.raises(ConsentError):
        create_snapshot(three, tmp_path, Filters(traj_ids=("a", "c")), actor="me")
    with pytest.raises(NotFoundError):
        create_snapshot(three, tmp_path, Filters(traj_ids=("z",)), actor="me")
    erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
    with pytest.raises(SnapshotErasedError):
        create_snapshot(three, tmp_path, Filters(traj_ids=("a",)), actor="me")
    assert not list(tmp_path.rglob("*.parquet"))


def test_withdrawn_consent_keeps_a_document_out_of_later_snapshots(three: TenantStore, tmp_path: Path) -> None:
    set_consent(three, three.trajectory("a").document_id, Consent.NONE, "withdrawn", "desk")
    assert [r.trajectory.traj_id for r in create_snapshot(three, tmp_path, actor="me").rows()] == ["b"]


def test_withdrawn_consent_closes_the_snapshots_made_before(three: TenantStore, tmp_path: Path) -> None:
    made = create_snapshot(three, tmp_path, actor="me")
    set_consent(three, three.trajectory("a").document_id, Consent.NONE, "withdrawn", "desk")
    with pytest.raises(ConsentError):
        load_snapshot(three, made.folder)


def test_an_erasure_withdraws_the_snapshots_that_hold_the_subject(three: TenantStore, store: Store, tmp_path: Path) -> None:
    holds = create_snapshot(three, tmp_path, actor="me")
    without = create_snapshot(three, tmp_path, Filters(doc_types=("y",)), actor="me")
    done = erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
    assert done.snapshots == (holds.snapshot_id,)
    assert not list(holds.folder.glob("*.parquet"))
    with pytest.raises(SnapshotErasedError):
        load_snapshot(three, holds.folder)
    assert len(list(load_snapshot(three, without.folder).rows())) == 1
    assert [r.trajectory.traj_id for r in create_snapshot(three, tmp_path, actor="me").rows()] == ["b"]
    assert verify(store).clean


def test_a_copy_elsewhere_is_refused_after_the_erasure(three: TenantStore, tmp_path: Path) -> None:
    made = create_snapshot(three, tmp_path / "here", actor="me")
    made.folder.rename(tmp_path / "elsewhere")
    done = erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
    assert done.unreachable == (str(made.folder),)
    with pytest.raises(SnapshotErasedError, match="1 rows"):
        load_snapshot(three, tmp_path / "elsewhere")


def test_an_erasure_while_a_snapshot_is_written_wins(three: TenantStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = module.write_parts

    def erase_meanwhile(*args: Any) -> Any:
        parts = write(*args)
        erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
        return parts

    monkeypatch.setattr(module, "write_parts", erase_meanwhile)
    with pytest.raises(SnapshotErasedError, match="make it again"):
        create_snapshot(three, tmp_path, actor="me")
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_erasure_that_takes_the_file_being_written_is_said(
    three: TenantStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, seen = module._values, []

    def erase_meanwhile(*args: Any) -> Any:
        if seen:  # the second row: the first part is open
            erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
        seen.append(args)
        return values(*args)

    monkeypatch.setattr(module, "_values", erase_meanwhile)
    with pytest.raises(SnapshotErasedError, match="make it again"):
        create_snapshot(three, tmp_path, actor="me")
    assert not list(tmp_path.rglob("*.parquet*"))


def test_a_snapshot_that_failed_is_not_looked_for_again(three: TenantStore, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError):
        create_snapshot(three, tmp_path, actor="me", reward_of=lambda *_: float("nan"))
    done = erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
    assert (done.snapshots, done.unreachable) == ((), ())


def test_a_folder_that_its_writer_removes_meanwhile_stops_no_erasure(
    three: TenantStore, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_snapshot(three, tmp_path, actor="me")
    usual = module.replace_synced

    def removed_meanwhile(path: Path, data: bytes) -> None:
        shutil.rmtree(made.folder)
        usual(path, data)

    monkeypatch.setattr(module, "replace_synced", removed_meanwhile)
    done = erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
    assert (done.snapshots, done.unreachable) == ((), ())
    assert verify(store).clean


def test_parts_that_a_killed_writer_left_after_an_erasure_go_with_the_next(three: TenantStore, tmp_path: Path) -> None:
    made = create_snapshot(three, tmp_path, actor="me")
    part = made.parts[0].read_bytes()
    erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
    made.parts[0].write_bytes(part)  # its writer still had the old view, and died before it saw the tombstone
    done = erase(three, find_documents(three, traj_id="b"), actor="desk", reason="request")
    assert done.snapshots == (made.snapshot_id,)
    assert not list(tmp_path.rglob("*.parquet"))
    assert erase(three, find_documents(three, traj_id="c"), actor="desk", reason="request").snapshots == ()


def test_a_damaged_part_stops_no_erasure(three: TenantStore, store: Store, tmp_path: Path) -> None:
    """Nobody can say whom a damaged part is about, so it goes, too."""
    made = create_snapshot(three, tmp_path, actor="me")
    whole = made.parts[0].read_bytes()
    made.parts[0].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SnapshotError, match="damaged"):
        list(made.rows())
    done = erase(three, find_documents(three, traj_id="a"), actor="desk", reason="request")
    assert done.snapshots == (made.snapshot_id,)
    assert not list(tmp_path.rglob("*.parquet"))
    assert verify(store).clean


@pytest.mark.parametrize(
    "change",
    [{"reward": "other"}, {"rows": 3}, {"parts": None}, {"parts": [{}]}, {"filters": {}}, {"filters": {"consent": "all"}}, None],
)
def test_a_changed_manifest_is_refused(three: TenantStore, tmp_path: Path, change: dict[str, Any] | None) -> None:
    """Also where a part and its hash were changed together: the log knows the manifest's own hash."""
    made = create_snapshot(three, tmp_path, actor="me", reward_name="fused")
    manifest = json.loads((made.folder / "manifest.json").read_text())
    if change is None:
        rows = create_snapshot(three, tmp_path / "forged", Filters(doc_types=("y",)), actor="me")
        made.parts[0].write_bytes(rows.parts[0].read_bytes())
        change = {"parts": rows.manifest["parts"], "rows": rows.manifest["rows"]}
    (made.folder / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(SnapshotError, match="manifest of this snapshot was changed"):
        load_snapshot(three, made.folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_fold_that_gives_no_number_writes_nothing(three: TenantStore, tmp_path: Path, value: float) -> None:
    with pytest.raises(SnapshotError, match="finite"):
        create_snapshot(three, tmp_path, actor="me", reward_of=lambda *_: value)
    assert not list(tmp_path.rglob("*.parquet"))
    with pytest.raises(EventError, match="number"):
        list(three.trajectories(Filters(min_reward=float("nan")), fused_reward))


def test_changed_unfinished_and_foreign_snapshots_are_refused(
    three: TenantStore, store: Store, tmp_path: Path, make_trajectory: Make
) -> None:
    made = create_snapshot(three, tmp_path, actor="me")
    with pytest.raises(SnapshotError, match="another tenant"):
        load_snapshot(store.for_tenant("other"), made.folder)
    part = made.parts[0]
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + b"\0")
    with pytest.raises(SnapshotError, match="part-00000"):
        load_snapshot(three, made.folder)
    part.write_bytes(whole)
    (made.folder / "manifest.json").unlink()
    with pytest.raises(SnapshotError, match="manifest"):
        load_snapshot(three, made.folder)


def test_a_snapshot_of_another_store_is_refused(three: TenantStore, new_place: Any, tmp_path: Path) -> None:
    made = create_snapshot(three, tmp_path, actor="me")
    with new_place().open() as second, pytest.raises(SnapshotError, match="another store"):
        load_snapshot(second.for_tenant("acme"), made.folder)


def test_a_folder_that_cannot_be_written_is_a_typed_error(three: TenantStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SnapshotError):
        create_snapshot(three, tmp_path / "file", actor="me")
    assert (tmp_path / "file").read_text() == "in the way"
