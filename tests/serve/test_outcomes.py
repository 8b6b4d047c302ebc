"""Business outcomes guard releases and never become a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from certloop.agentrl.signals import Source, fuse
from certloop.agentrl.store.exporters import fused_reward
from certloop.serve.db.access import reading
from certloop.serve.db.schema import outcomes
from tests.serve.audit_world import World, less_sure, licence, open_world


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        yield opened


def test_an_outcome_is_stored_and_is_no_reward(world: World) -> None:
    certificate = world.certificate()
    with world.as_("operator") as operator:
        told = operator.post("/v1/outcomes", json={"trajectory_id": certificate, "kind": "complaint", "good": False})
    assert told.status_code == 201 and told.json()["outcome_id"].startswith("out_")
    (said,) = world.signals(certificate)
    assert (said.source, said.value, said.evidence) == (Source.BUSINESS, -1.0, {"outcome": "complaint"})
    stored = world.service.tenant("acme").trajectory(certificate)
    assert fuse(stored.signals).trajectory.value is None and fused_reward(stored.trajectory, stored.signals) is None
    assert fuse(stored.signals).business == (said,)


def test_an_outcome_does_not_change_what_an_auditor_said(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"2"'})
        ann.post("/v1/outcomes", json={"trajectory_id": certificate, "kind": "complaint", "good": False})
    assert fuse(world.signals(certificate)).trajectory.value == 1.0


def test_the_same_outcome_again_adds_nothing(world: World) -> None:
    certificate = world.certificate()
    body = {"trajectory_id": certificate, "kind": "supplier_accepted", "good": True, "outcome_id": "order-17"}
    with world.as_("operator") as operator:
        assert operator.post("/v1/outcomes", json=body).status_code == 201
        again = operator.post("/v1/outcomes", json=body)
        other = operator.post("/v1/outcomes", json=body | {"good": False})
    assert (again.status_code, again.json()["good"]) == (200, True)
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert len(world.signals(certificate)) == 1
    with reading(world.service, "acme") as connection:
        assert connection.execute(select(func.count()).select_from(outcomes)).scalar_one() == 1


def test_outcomes_are_counted_by_kind(world: World) -> None:
    certificate = world.certificate()
    with world.as_("operator") as operator, world.as_("eve") as eve:
        for kind, good in (("supplier_accepted", True), ("supplier_accepted", False), ("complaint", False)):
            operator.post("/v1/outcomes", json={"trajectory_id": certificate, "kind": kind, "good": good})
        assert eve.get("/v1/outcomes").json()["items"] == [
            {"kind": "complaint", "good": 0, "all": 1},
            {"kind": "supplier_accepted", "good": 1, "all": 2},
        ]
        assert operator.get("/v1/outcomes").status_code == 403


def test_what_makes_no_outcome(world: World) -> None:
    certificate = world.certificate()
    good = {"trajectory_id": certificate, "kind": "complaint", "good": True}
    with world.as_("operator") as operator, world.as_("stranger") as stranger, world.as_("eve") as eve:
        for change in ({"kind": "First Pass"}, {"kind": "first_pass"}, {"good": "maybe"}, {"extra": 1}, {"outcome_id": ""}):
            assert operator.post("/v1/outcomes", json=good | change).status_code == 422, change
        assert operator.post("/v1/outcomes", json=good | {"trajectory_id": "nobody"}).status_code == 404
        assert stranger.post("/v1/outcomes", json=good).status_code == 404
        assert eve.post("/v1/outcomes", json=good).status_code == 403
    assert world.signals(certificate) == ()
