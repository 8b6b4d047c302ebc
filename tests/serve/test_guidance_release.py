"""From a correction to a release that serves: learned, judged on other certificates, tried out, promoted, taken back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from certloop.agentrl.loop import Runs, RunState
from certloop.agentrl.release import CanaryPolicy, GateConfig
from certloop.extract import Extractor
from certloop.serve.loop.guidance_release import KIND, GuidanceRelease, GuidanceReleaseConfig
from certloop.serve.people.roles import Role
from tests.serve.audit_world import World, open_world
from tests.serve.test_loop_live import page

CONFIG = GuidanceReleaseConfig(
    gate=GateConfig(draws=500, min_discordant=4, retained_margin=0.02),
    canary=CanaryPolicy(min_age_s=60.0, low_traffic_effect=0.9),
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def extractor() -> Iterator[Extractor]:
    with Extractor() as opened:
        yield opened


def approve(world: World, extractor: Extractor, number: int, label: str = "主体全称", edit: str | None = None) -> str:
    """Read a real page under the rules of the moment, correct its name, approve it."""
    document_id = world.hand_in()
    guidance = world.service.loop.steering("acme", document_id).guidance
    result = extractor.read(page(number, label), doc_type="business_licence", guidance=guidance)
    world.read(document_id, *result.documents)
    certificate = f"{document_id}.0"
    with world.as_("ann") as ann:
        tag = ann.get(f"/v1/reviews/{certificate}").headers["etag"]
        if edit is not None:
            changed = ann.patch(f"/v1/reviews/{certificate}", json={"fields": {"name": edit}}, headers={"If-Match": tag})
            assert changed.status_code == 200, changed.text
            tag = changed.headers["etag"]
        done = ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag})
        assert done.status_code == 200, done.text
    return certificate


def name(number: int) -> str:
    return f"青松样本贸易{number}有限公司"


def test_a_rule_becomes_a_release_and_can_be_taken_back(world: World, extractor: Extractor) -> None:
    loop = world.service.loop
    runs = Runs.open(world.service.engine, [GuidanceRelease(world.service, CONFIG).plan()], owner="t", clock=world.clock)
    first = approve(world, extractor, 1, edit=name(1))
    loop.learn_from("acme", first, "ann")
    assert [item.body for item in loop.memory.in_use("acme")] == [{"field": "name", "label": "主体全称"}]
    run = runs.start(KIND, "acme", "test")
    assert runs.advance() is not None  # select
    waiting = runs.advance()
    assert waiting is not None and waiting.state is RunState.WAITING  # nothing to judge it on yet

    for number in range(2, 9):  # read by the rule: approved as they are
        approve(world, extractor, number)
    for number in range(9, 12):
        approve(world, extractor, number, label="名称")
    world.clock.now += timedelta(hours=2)
    for _ in range(3):  # judge, register, stage
        assert runs.advance() is not None
    results = runs.run(run.run_id).results
    assert results["judge"]["verdict"] == "promote"
    pointer = loop.registry.pointer("acme")
    assert (pointer.active, pointer.candidate) == ("embedded", results["register"]["release"])
    assert loop.registry.pointer("other").candidate == ""
    for number in range(12, 18):
        approve(world, extractor, number)
    world.clock.now += timedelta(hours=2)
    done = runs.advance()
    assert done is not None and done.state is RunState.DONE, done
    assert loop.memory.in_use("acme") == ()
    assert loop.registry.verify() == ()

    steering = loop.steering("acme", "next")
    assert [body for _, _, body in steering.rules] == [{"field": "name", "label": "主体全称"}]
    assert steering.release_id == results["register"]["release"]
    with world.as_("eve") as eve:
        assert eve.post("/v1/releases/rollback", json={"reason": "a look back"}).json()["active"] == "embedded"
        moves = [move["move"] for move in eve.get("/v1/releases").json()["history"]]
    assert moves[:3] == ["rolled_back", "promoted", "staged"]
    assert loop.steering("acme", "next").rules == ()


def test_a_rule_that_breaks_other_forms_never_serves(world: World, extractor: Extractor) -> None:
    """Somebody slips a wrong rule into the overlay: the gate finds the certificates on which it harms."""
    for number in range(1, 9):
        approve(world, extractor, number, label="名称")
    world.service.loop.memory.add(
        "acme", "label", "business_licence", {"field": "address", "label": "名称"}, evidence=["doc_x.0"], actor="mallory",
        replay=lambda body: None,
    )  # fmt: skip
    runs = Runs.open(world.service.engine, [GuidanceRelease(world.service, CONFIG).plan()], owner="t", clock=world.clock)
    run = runs.start(KIND, "acme", "test")
    while runs.advance() is not None:
        pass
    ended = runs.run(run.run_id)
    assert ended.state is RunState.STOPPED
    assert "the gate said no" in str(ended.error)
    assert world.service.loop.registry.pointer("acme").candidate == ""
    assert world.actor("eve", Role.ENGINEER).tenant == "acme"
