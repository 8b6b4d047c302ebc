"""What waits for a person: who sees it in which order, and who holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serve.audit_world import WRONG_CODE, World, less_sure, licence, open_world


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        yield opened


def test_a_sure_certificate_passes_and_an_unsure_one_waits(world: World) -> None:
    passed = world.certificate()
    unsure = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        rows = ann.get("/v1/reviews").json()["items"]
        assert ann.get(f"/v1/reviews/{passed}").status_code == 404
    assert [row["certificate_id"] for row in rows] == [unsure]
    assert rows[0]["state"] == "open" and not rows[0]["second_look"]
    (reason,) = rows[0]["reasons"]
    assert (reason["reason"], reason["field"]) == ("field_unsure", "address")
    assert "住所" in reason["message_zh"] and reason["message_en"]
    with world.as_("operator") as operator:
        assert operator.get(f"/v1/documents/{passed.split('.')[0]}/result").json()["documents"][0]["state"] == "passed"


def test_the_heaviest_reason_comes_first_then_the_oldest_and_pages_follow(world: World) -> None:
    old = world.certificate(less_sure(licence(), "address", 0.3))
    world.clock.pass_s(100)
    young = world.certificate(less_sure(licence(), "name", 0.3))
    wrong = world.certificate(licence(credit_code=WRONG_CODE))
    with world.as_("ann") as ann:
        assert [row["certificate_id"] for row in ann.get("/v1/reviews").json()["items"]] == [wrong, old, young]
        seen, cursor = [], None
        while True:
            page = ann.get("/v1/reviews", params={"limit": 1} | ({"cursor": cursor} if cursor else {})).json()
            seen += [row["certificate_id"] for row in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == [wrong, old, young]
        aged = ann.get("/v1/reviews", params={"min_age_s": 60}).json()["items"]
        assert [row["certificate_id"] for row in aged] == [old] and aged[0]["age_s"] >= 100
        by_reason = ann.get("/v1/reviews", params={"reason": "hard_rule_failed"}).json()["items"]
        assert [row["certificate_id"] for row in by_reason] == [wrong]
        assert ann.get("/v1/reviews", params={"doc_type": "id_card"}).json()["items"] == []
        numbers = ann.get("/v1/reviews/summary").json()
    assert (numbers["open"], numbers["claimed"]) == (3, 0)
    assert numbers["reasons"]["field_unsure"] == 2 and numbers["oldest_age_s"] >= 100


def test_a_cursor_of_another_tenant_or_another_list_is_refused(world: World) -> None:
    for _ in range(2):
        world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann, world.as_("stranger") as stranger:
        cursor = ann.get("/v1/reviews", params={"limit": 1}).json()["next_cursor"]
        foreign = stranger.get("/v1/reviews", params={"cursor": cursor})
        other_list = ann.get("/v1/reviews", params={"cursor": cursor, "reason": "sampled"})
    assert (foreign.status_code, foreign.json()["code"]) == (422, "cursor_invalid")
    assert (other_list.status_code, other_list.json()["code"]) == (422, "cursor_invalid")


def test_another_tenant_sees_and_touches_nothing(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("stranger") as stranger:
        assert stranger.get("/v1/reviews").json()["items"] == []
        assert stranger.get(f"/v1/reviews/{certificate}").status_code == 404
        for path, body in (("claim", None), ("release", None), ("approve", {}), ("reject", {"reason": "other"}), ("undo", None)):
            answer = stranger.post(f"/v1/reviews/{certificate}/{path}", json=body, headers={"If-Match": '"2"'})
            assert (path, answer.status_code) == (path, 404)
    assert world.actions(certificate) == ["opened"]


def test_an_operator_reviews_nothing_and_an_engineer_only_looks(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("operator") as operator, world.as_("eve") as eve:
        assert operator.get("/v1/reviews").status_code == 403
        assert eve.get(f"/v1/reviews/{certificate}").status_code == 200
        assert eve.post(f"/v1/reviews/{certificate}/claim").status_code == 403


def test_a_claimed_review_cannot_be_taken_until_its_lease_ends(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann, world.as_("bob") as bob:
        mine = ann.post(f"/v1/reviews/{certificate}/claim", json={"lease_s": 60})
        assert mine.status_code == 200 and mine.json()["claimed_by"] == world.ids["ann"]
        for path, body in (("claim", None), ("release", None), ("approve", {}), ("reject", {"reason": "misread"})):
            refused = bob.post(f"/v1/reviews/{certificate}/{path}", json=body, headers={"If-Match": '"2"'})
            assert (refused.status_code, refused.json()["code"]) == (409, "review_claimed"), path
        assert ann.get("/v1/reviews", params={"claimed": "mine"}).json()["items"]
        assert not bob.get("/v1/reviews", params={"claimed": "nobody"}).json()["items"]
        assert bob.get("/v1/reviews", params={"claimed": "others"}).json()["items"]
        world.clock.pass_s(59)
        renewed = ann.post(f"/v1/reviews/{certificate}/claim", json={"lease_s": 60})
        world.clock.pass_s(59)
        assert bob.post(f"/v1/reviews/{certificate}/claim").status_code == 409
        world.clock.pass_s(2)
        assert bob.get("/v1/reviews", params={"claimed": "nobody"}).json()["items"]
        taken = bob.post(f"/v1/reviews/{certificate}/claim")
        late = ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": mine.headers["etag"]})
    assert renewed.json()["lease_until"] > mine.json()["lease_until"]
    assert taken.json()["claimed_by"] == world.ids["bob"]
    assert (late.status_code, late.json()["code"]) == (409, "review_claimed")
    assert world.actions(certificate) == ["opened", "claimed", "claimed"]


def test_a_renewal_never_shortens_a_lease(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        long = ann.post(f"/v1/reviews/{certificate}/claim", json={"lease_s": 3600}).json()["lease_until"]
        assert ann.post(f"/v1/reviews/{certificate}/claim", json={"lease_s": 10}).json()["lease_until"] == long


def test_what_is_given_back_is_free_at_once(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann, world.as_("bob") as bob:
        ann.post(f"/v1/reviews/{certificate}/claim")
        assert ann.post(f"/v1/reviews/{certificate}/release").json()["claimed_by"] is None
        assert bob.post(f"/v1/reviews/{certificate}/claim").status_code == 200
    assert world.actions(certificate) == ["opened", "claimed", "released", "claimed"]


def test_a_review_shows_places_checks_and_what_was_declared(world: World) -> None:
    declared = '{"name": "样例乙商贸有限公司", "统一社会信用代码": "91110105MA01ABCD5F", "实收资本": "100万元"}'
    certificate = world.certificate(less_sure(licence(), "address", 0.3), doc_type="business_licence", expected=declared)
    with world.as_("ann") as ann:
        shown = ann.get(f"/v1/reviews/{certificate}")
    body = shown.json()
    assert shown.headers["etag"] == f'"{body["revision"]}"'
    address = body["fields"]["address"]
    with world.as_("ann") as ann:
        crop = ann.get(address["crop"])
    assert crop.status_code == 422, "the page of this test is one pixel wide; the box lies outside"
    assert address["box"] and address["page"] == 0 and address["required"] and 0 < address["probability"] < 0.98
    assert {c["field"]: (c["match"], c["reason"]) for c in body["comparisons"]} == {
        "credit_code": ("match", "same_print"),
        "name": ("differs", "other_value"),
        "paid_in_capital": ("not_readable", "not_on_form"),
    }
    assert [entry["action"] for entry in body["history"]] == ["opened"]
    assert {r["reason"] for r in body["reasons"]} == {"field_unsure", "declared_differs", "declared_unreadable"}
    assert any(v["rule"] == "business_licence.code_class" and v["outcome"] == "pass" for v in body["validations"])
