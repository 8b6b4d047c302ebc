"""Releases, moves, rollback and what a hand in the files leaves behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from certloop.agentrl.release import (
    Arm,
    ArtefactError,
    Move,
    Registry,
    RegistryDamagedError,
    Release,
    ReleaseConflictError,
    ReleaseError,
    Router,
    UnknownReleaseError,
)
from certloop.agentrl.store import Store

MANIFEST = "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


@pytest.fixture
def registry(store: Store, tmp_path: Path) -> Registry:
    return Registry.open(store.engine, tmp_path / "artefacts")


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter.safetensors").write_bytes(b"weights")
    (folder / "adapter_config.json").write_text("{}")
    return folder


def two(registry: Registry, adapter: Path) -> Registry:
    """``v1`` serves, ``v2`` is registered."""
    digest = registry.artefacts.add(adapter)
    registry.register(Release("v1", "nano"))
    registry.register(Release("v2", "nano", artefacts={"adapter": digest}, parent="v1", data_manifest_sha256=MANIFEST))
    registry.adopt("v1", actor="eng", reason="first")
    return registry


def test_a_canary_from_stage_to_everybody(registry: Registry, adapter: Path) -> None:
    two(registry, adapter)
    registry.stage("v2", 0.05, actor="loop", reason="gate passed")
    registry.widen(0.25, actor="loop", reason="no alarm")
    pointer = registry.promote(actor="loop", reason="every stage passed")
    assert (pointer.active, pointer.previous, pointer.candidate, pointer.share) == ("v2", "v1", "", 0.0)
    assert [row.move for row in registry.history()] == [Move.ADOPTED, Move.STAGED, Move.WIDENED, Move.PROMOTED]
    assert registry.verify() == ()


def test_rollback_of_a_candidate_and_of_a_promoted_release(registry: Registry, adapter: Path) -> None:
    two(registry, adapter)
    registry.stage("v2", 0.25, actor="loop", reason="gate passed")
    back = registry.roll_back(actor="guard", reason="business down")
    assert (back.active, back.candidate, back.share) == ("v1", "", 0.0)
    assert registry.quarantined() == {MANIFEST}
    registry.stage("v2", 0.25, actor="eng", reason="looked at it")
    registry.promote(actor="eng", reason="fine")
    assert registry.roll_back(actor="eng", reason="one click").active == "v1"
    last = [row for row in registry.history() if row.move is Move.ROLLED_BACK][-1]
    assert (last.actor, last.release_id, last.details["reason"]) == ("eng", "v2", "one click")
    with pytest.raises(ReleaseError, match="no release to go back to"):
        registry.roll_back(actor="eng", reason="again")
    assert registry.verify() == ()


def test_moves_that_make_no_sense(registry: Registry, adapter: Path) -> None:
    with pytest.raises(UnknownReleaseError):
        registry.pointer()
    two(registry, adapter)
    for act in (
        lambda: registry.promote(actor="a", reason=""),
        lambda: registry.widen(0.5, actor="a", reason=""),
        lambda: registry.stage("v1", 0.5, actor="a", reason=""),
        lambda: registry.stage("v2", 0.0, actor="a", reason=""),
        lambda: registry.adopt("v2", actor="a", reason=""),
        lambda: registry.stage("v2", 0.5, actor="", reason=""),
    ):
        with pytest.raises(ReleaseError):
            act()
    with pytest.raises(UnknownReleaseError):
        registry.stage("v3", 0.5, actor="a", reason="")
    registry.stage("v2", 0.5, actor="a", reason="")
    registry.register(Release("v3", "nano"))
    with pytest.raises(ReleaseError, match="on trial"):
        registry.stage("v3", 0.5, actor="a", reason="")
    with pytest.raises(ReleaseError):
        registry.widen(0.25, actor="a", reason="")
    assert len(registry.history()) == 2


def test_releases_are_immutable(registry: Registry) -> None:
    release = Release("v1", "nano", notes="x")
    assert registry.register(release) == registry.register(release) == "v1"
    with pytest.raises(ReleaseConflictError):
        registry.register(replace(release, notes="y"))
    with pytest.raises(UnknownReleaseError):
        registry.register(Release("v2", "nano", parent="v0"))
    for bad in ({"release_id": "../x"}, {"engine": ""}, {"artefacts": {"adapter": "zz"}}, {"data_manifest_sha256": "1"}):
        with pytest.raises(ReleaseError):
            Release(**({"release_id": "v9", "engine": "nano"} | bad))  # type: ignore[arg-type]


def test_a_tenants_own_release_is_nobody_elses(registry: Registry, adapter: Path) -> None:
    two(registry, adapter)
    registry.register(Release("acme-1", "nano"), scope="acme")
    registry.stage("acme-1", 1.0, actor="eng", reason="own forms", scope="acme")
    assert registry.pointer("acme").candidate == "acme-1"
    assert registry.pointer("other") == registry.pointer()
    with pytest.raises(UnknownReleaseError):
        registry.stage("acme-1", 0.5, actor="eng", reason="", scope="other")
    with pytest.raises(UnknownReleaseError):
        registry.release("acme-1")
    assert registry.release("v1", scope="acme").engine == "nano"


def test_a_changed_artefact_is_never_loaded(registry: Registry, adapter: Path) -> None:
    two(registry, adapter)
    digest = registry.release("v2").artefacts["adapter"]
    assert registry.artefacts.add(adapter) == digest
    (registry.artefacts.path(digest) / "adapter.safetensors").write_bytes(b"other weights")
    with pytest.raises(ArtefactError, match=r"adapter\.safetensors"):
        registry.artefacts.path(digest)
    with pytest.raises(ArtefactError):
        registry.stage("v2", 0.05, actor="loop", reason="")
    assert any("v2" in finding for finding in registry.verify())


def test_rollback_works_although_the_artefact_is_broken(registry: Registry, adapter: Path) -> None:
    two(registry, adapter)
    registry.stage("v2", 0.05, actor="loop", reason="")
    (registry.artefacts.path(registry.release("v2").artefacts["adapter"]) / "adapter_config.json").unlink()
    assert registry.roll_back(actor="eng", reason="broken").candidate == ""


@pytest.mark.parametrize("name", ["weights.bin", "weights.pt", "weights.pkl", "run.py", "noname"])
def test_formats_that_could_run_code(registry: Registry, adapter: Path, name: str) -> None:
    (adapter / name).write_bytes(b"x")
    with pytest.raises(ArtefactError, match="is not loaded"):
        registry.artefacts.add(adapter)


def test_links_and_empty_folders_are_no_artefacts(registry: Registry, tmp_path: Path, adapter: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtefactError):
        registry.artefacts.add(tmp_path / "empty")
    (adapter / "link.json").symlink_to("/etc/hostname")
    with pytest.raises(ArtefactError):
        registry.artefacts.add(adapter)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE release_pointers SET body = replace(body, '\"v1\"', '\"v2\"')", "not where the log leads"),
        ("UPDATE release_log SET actor = 'nobody' WHERE position = 2", "row 2 was changed"),
        ("DELETE FROM release_log WHERE position = 1", "row 1 was changed"),
        ("UPDATE release_records SET body = replace(body, 'nano', 'evil') WHERE release_id = 'v2'", "record was changed"),
    ],
)
def test_a_hand_in_the_database_is_found(registry: Registry, store: Store, adapter: Path, statement: str, found: str) -> None:
    two(registry, adapter)
    registry.stage("v2", 0.05, actor="loop", reason="")
    with store.engine.connect().execution_options(store_writes=True) as connection, connection.begin():
        for table in ("release_records", "release_log"):
            for verb in ("update", "delete"):
                connection.execute(text(f"DROP TRIGGER {table}_no_{verb}"))
        connection.execute(text(statement))
    assert any(found in finding for finding in registry.verify())
    if "records" in statement:
        with pytest.raises(RegistryDamagedError):
            registry.release("v2")


def test_the_log_is_append_only(registry: Registry, store: Store, adapter: Path) -> None:
    two(registry, adapter)
    for statement in ("UPDATE release_log SET actor = 'x'", "DELETE FROM release_records"):
        with pytest.raises(Exception, match="append-only"), store.engine.begin() as connection:
            connection.execute(text(statement))


def test_two_who_move_at_once_leave_one_chain(registry: Registry, adapter: Path) -> None:
    two(registry, adapter)
    registry.stage("v2", 0.01, actor="loop", reason="")

    def widen(step: int) -> bool:
        try:
            registry.widen(step / 100, actor=f"w{step}", reason="")
        except ReleaseError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(widen, range(2, 40)))
    assert any(done)
    assert registry.verify() == ()
    assert len(registry.history()) == 2 + sum(done)


def test_a_swap_during_answers_loses_none(registry: Registry, adapter: Path) -> None:
    """Answers under way finish on the release they started with; new ones start on the one before."""
    two(registry, adapter)
    registry.stage("v2", 1.0, actor="loop", reason="")
    router = Router(registry.pointer, max_age_s=0.0)
    began, swapped = threading.Barrier(9), threading.Event()
    answers: list[tuple[str, str]] = []

    def answer(number: int) -> None:
        with router.answering("acme", f"d{number}") as route:
            began.wait()
            swapped.wait()
            answers.append((route.release_id, router.route("acme", f"d{number}").release_id))

    threads = [threading.Thread(target=answer, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    began.wait()
    assert router.under_way("v2") == 8
    registry.roll_back(actor="eng", reason="now")
    assert not router.drained("v2", 0.01)
    swapped.set()
    for thread in threads:
        thread.join()
    assert answers == [("v2", "v1")] * 8
    assert router.drained("v2", 1.0)


def test_routing_is_sticky_and_young(registry: Registry, adapter: Path) -> None:
    two(registry, adapter)
    clock_start = time.monotonic()
    router = Router(registry.pointer, max_age_s=3600.0)
    registry.stage("v2", 0.3, actor="loop", reason="")
    routes = {f"d{i}": router.route("acme", f"d{i}") for i in range(300)}
    assert routes == {name: router.route("acme", name) for name in routes}
    assert {r.arm for r in routes.values()} == {Arm.BASELINE, Arm.CANDIDATE}
    registry.roll_back(actor="eng", reason="")
    assert router.route("acme", "d0").pointer_position == 2  # still the old pointer: nobody told it
    router.forget()
    assert all(router.route("acme", name).release_id == "v1" for name in routes)
    assert time.monotonic() - clock_start < 3600


def test_what_a_router_says_without_any_release(registry: Registry) -> None:
    with pytest.raises(UnknownReleaseError):
        Router(registry.pointer).route("acme", "d")


def test_a_pointer_changed_by_hand_is_passed_over(registry: Registry, store: Store, adapter: Path) -> None:
    """The log says who serves; documents go on being answered by that release, and `verify` tells of the damage."""
    two(registry, adapter)
    for body in ("replace(body, '\"v1\"', '\"evil\"')", "'{'"):
        with store.engine.connect().execution_options(store_writes=True) as connection, connection.begin():
            connection.execute(text(f"UPDATE release_pointers SET body = {body}"))
        assert registry.pointer().active == "v1"
