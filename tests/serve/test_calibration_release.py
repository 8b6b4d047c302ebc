"""Recalibrated confidences go through a release: judged on other certificates, in force with it, gone with a rollback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from certloop.agentrl.loop import Runs, RunState
from certloop.agentrl.release import CanaryPolicy, GateConfig
from certloop.serve.confidence.versions import builtin
from certloop.serve.loop.calibration_release import KIND, CalibrationRelease, CalibrationReleaseConfig
from tests.serve.audit_world import World, less_sure, licence, open_world
from tests.serve.test_confidence_api import approve

CONFIG = CalibrationReleaseConfig(
    gate=GateConfig(draws=500, min_discordant=6, worthwhile=0.001), canary=CanaryPolicy(min_age_s=60.0, low_traffic_effect=0.9)
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        yield opened


def review(world: World, n: int, *, overconfident: bool) -> None:
    """Addresses read at .9 of which nine in ten are wrong (or, not overconfident, none is): which certificates are fitted on and
    which judge is drawn by their ids, and so many decide the same way in every draw."""
    for number in range(n):
        certificate = world.certificate(less_sure(licence(0.99), "address", 0.9))
        approve(world, certificate, **({"address": "北京市朝阳区样例路7号"} if overconfident and number % 10 else {}))


def test_a_better_calibration_is_promoted_and_taken_back(world: World) -> None:
    world.settings(review={"all_fields": True, "sampling": 1.0})
    loop = world.service.loop
    runs = Runs.open(world.service.engine, [CalibrationRelease(world.service, CONFIG).plan()], owner="t", clock=world.clock)
    review(world, 120, overconfident=True)
    run = runs.start(KIND, "acme", "test")
    for _ in range(4):  # fit, judge, register, stage
        runs.advance()
    done = runs.run(run.run_id)
    assert done.results["judge"]["verdict"] == "promote", done
    name = str(done.results["register"]["release"])
    mine = loop.calibration("acme", name)
    assert mine is not None
    kind = world.service.registry.get("business_licence").fields["address"].kind.value
    assert mine.probability(kind, 0.9) < builtin().probability(kind, 0.9)
    assert loop.calibration("acme", "embedded") is None

    world.clock.now += timedelta(hours=2)
    review(world, 24, overconfident=True)  # shadow replay decides at low traffic
    for _ in range(6):
        runs.advance()
        world.clock.now += timedelta(hours=2)
        if runs.run(run.run_id).state is RunState.DONE:
            break
    assert loop.registry.pointer("acme").active == name
    loop.router.forget()
    assert loop.steering("acme", "doc").calibration == mine

    loop.registry.roll_back(actor="eve", reason="test", scope="acme")
    loop.router.forget()
    assert loop.steering("acme", "doc").calibration is None


def test_a_calibration_that_lets_wrong_values_pass_is_refused(world: World) -> None:
    """Fitted while auditors found nothing wrong with addresses, judged when they do."""
    world.settings(review={"all_fields": True, "sampling": 1.0})
    runs = Runs.open(world.service.engine, [CalibrationRelease(world.service, CONFIG).plan()], owner="t", clock=world.clock)
    review(world, 80, overconfident=False)
    run = runs.start(KIND, "acme", "test")
    runs.advance()  # fit
    for number in range(60):
        certificate = world.certificate(less_sure(licence(0.99), "address", 0.9))
        approve(world, certificate, address=f"北京市朝阳区样例路{number + 10}号")
    runs.advance()
    ended = runs.run(run.run_id)
    assert ended.state in (RunState.STOPPED, RunState.WAITING)
    assert "register" not in ended.results
    assert world.service.loop.registry.pointer("acme").candidate == ""


def test_too_few_reviews_fail_with_the_number_that_is_needed(world: World) -> None:
    runs = Runs.open(world.service.engine, [CalibrationRelease(world.service, CONFIG).plan()], owner="t", clock=world.clock)
    run = runs.start(KIND, "acme", "test")
    runs.advance()
    assert "too few to fit on" in str(runs.run(run.run_id).error)
