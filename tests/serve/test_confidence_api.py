"""The calibration in force: what it lets pass, what was found wrong among it, and fitting a new one from reviews."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serve.audit_world import World, less_sure, licence, open_world


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        yield opened


def approve(world: World, certificate: str, **fields: str) -> None:
    with world.as_("ann") as ann:
        tag = ann.get(f"/v1/reviews/{certificate}").headers["etag"]
        if fields:
            tag = ann.patch(f"/v1/reviews/{certificate}", json={"fields": fields}, headers={"If-Match": tag}).headers["etag"]
        assert ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag}).status_code == 200


def test_the_straight_through_rate_at_several_error_rates(world: World) -> None:
    for document in (licence(), licence(), less_sure(licence(), "address", 0.3), licence(name=None)):
        world.certificate(document)
    with world.as_("eve") as eve, world.as_("ann") as ann:
        shown = eve.get("/v1/calibration").json()
        assert ann.get("/v1/calibration").status_code == 403
    assert (shown["version"], shown["certificates"], shown["accepted_error"]) == ("builtin-1", 4, 0.02)
    by_rate = {row["accepted_error"]: row for row in shown["straight_through"]}
    assert (by_rate[0.02]["passed"], by_rate[0.02]["rate"]) == (2, 0.5), "an unsure and a missing field need a person"
    assert 0.5 < by_rate[0.02]["threshold"] <= 1.0
    passed = [row["passed"] for row in shown["straight_through"]]
    assert passed == sorted(passed), "who accepts more errors lets more pass"


def test_the_accepted_error_rate_is_the_tenants_own(world: World) -> None:
    unsure = less_sure(licence(), "address", 0.9)
    world.certificate(unsure)
    world.settings(review={"accepted_error": 0.4})
    world.certificate(unsure)
    with world.as_("ann") as ann:
        assert len(ann.get("/v1/reviews").json()["items"]) == 1


def test_all_fields_may_be_asked_for(world: World) -> None:
    unsure = less_sure(licence(), "established_on", 0.2)
    world.certificate(unsure)
    world.settings(review={"all_fields": True})
    second = world.certificate(unsure)
    with world.as_("ann") as ann:
        assert [row["certificate_id"] for row in ann.get("/v1/reviews").json()["items"]] == [second]


def test_sampling_shows_what_slips_through(world: World) -> None:
    world.settings(review={"sampling": 1.0})
    right, wrong = world.certificate(), world.certificate()
    with world.as_("ann") as ann:
        rows = ann.get("/v1/reviews").json()["items"]
    assert [[r["reason"] for r in row["reasons"]] for row in rows] == [["sampled"], ["sampled"]]
    approve(world, right)
    approve(world, wrong, person="王样")
    with world.as_("eve") as eve:
        slipped = eve.get("/v1/calibration").json()["passed_and_sampled"]
    assert (slipped["fields"], slipped["passed"], slipped["wrong"]) == (14, 14, 1)
    assert slipped["error"] == pytest.approx(1 / 14, abs=1e-5)


def test_sampling_is_seeded_and_has_the_share_asked_for(world: World) -> None:
    from certloop.serve.confidence.versions import builtin
    from certloop.serve.review.triage import ReviewPolicy, triage

    kind = world.service.registry.get("business_licence")
    policy = ReviewPolicy(sample_share=0.1, seed="acme")
    document = licence()
    ids = [f"doc_{i:032x}.0" for i in range(1000)]
    drawn = [bool(triage(document, policy, doc_type=kind, calibration=builtin(), certificate_id=i)) for i in ids]
    assert 70 <= sum(drawn) <= 130
    assert drawn == [bool(triage(document, policy, doc_type=kind, calibration=builtin(), certificate_id=i)) for i in ids]


def test_a_calibration_is_fitted_on_reviews_and_put_in_force(world: World) -> None:
    with world.as_("eve") as eve:
        early = eve.post("/v1/calibration/versions")
        assert (early.status_code, early.json()["code"]) == (422, "calibration_invalid")
        for number in range(40):
            certificate = world.certificate(less_sure(licence(0.99), "address", 0.3 + number / 100))
            approve(world, certificate, **({"address": "北京市朝阳区样例路7号"} if number % 2 else {}))
        made = eve.post("/v1/calibration/versions", json={"activate": False})
        assert made.status_code == 201, made.text
        version = made.json()["version"]
        assert (made.json()["fields"], made.json()["active"]) == (280, False)
        listed = eve.get("/v1/calibration/versions").json()["items"]
        assert [(row["version"], row["active"]) for row in listed] == [(version, False), ("builtin", True)]
        assert eve.post(f"/v1/calibration/versions/{version}/activate").json()["active"]
        assert eve.get("/v1/calibration").json()["version"] == version
        reviewed = eve.get("/v1/calibration").json()["reviewed"]
        assert (reviewed["fields"], reviewed["right"]) == (280, 260)
        assert eve.post("/v1/calibration/versions/builtin/activate").json()["active"]
        assert eve.get("/v1/calibration").json()["version"] == "builtin-1"
        assert eve.post(f"/v1/calibration/versions/cal_{'0' * 32}/activate").status_code == 404
        assert eve.post("/v1/calibration/versions/nonsense/activate").status_code == 404
    with world.as_("ann") as ann, world.as_("stranger") as stranger:
        assert ann.post("/v1/calibration/versions").status_code == 403
        assert stranger.get("/v1/calibration/versions").status_code == 403
