"""Corrections: checked at once, and never over somebody else's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from certloop.serve.db.access import reading
from certloop.serve.review import certificate as certs
from certloop.templates import load_types
from tests.serve.audit_world import CODE, WRONG_CODE, World, less_sure, licence, open_world


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        yield opened


def patch(client: httpx.Client, certificate: str, tag: str | None, **body: Any) -> httpx.Response:
    headers = {} if tag is None else {"If-Match": tag}
    return client.patch(f"/v1/reviews/{certificate}", json=body, headers=headers)


def test_an_edit_is_checked_and_normalised_at_once(world: World) -> None:
    certificate = world.certificate(licence(credit_code=WRONG_CODE, established_on="2019年02月30日"))
    with world.as_("ann") as ann:
        tag = ann.get(f"/v1/reviews/{certificate}").headers["etag"]
        answer = patch(ann, certificate, tag, fields={"credit_code": CODE, "established_on": "二〇一九年三月五日"})
    assert answer.status_code == 200
    fields = answer.json()["fields"]
    code, day = fields["credit_code"], fields["established_on"]
    assert (code["value"], code["read_value"], code["normalised"]) == (CODE, WRONG_CODE, CODE)
    assert all(v["outcome"] == "pass" for v in code["validations"])
    assert code["edited"]["by"] == world.ids["ann"] and code["probability"] is None and code["box"]
    assert (day["value"], day["normalised"]) == ("二〇一九年三月五日", "2019-03-05")
    assert fields["name"]["edited"] is None
    assert world.actions(certificate) == ["opened", "claimed", "edited", "edited"]


def test_an_edit_may_say_what_the_paper_says_even_if_a_rule_fails(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "credit_code", 0.2))
    with world.as_("ann") as ann:
        fields = patch(ann, certificate, '"2"', fields={"credit_code": WRONG_CODE}).json()["fields"]
    code = fields["credit_code"]
    assert code["value"] == WRONG_CODE, "never repaired"
    assert any(v["outcome"] == "fail" and v["severity"] == "hard" for v in code["validations"])


def test_an_edit_needs_the_revision_that_was_seen(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        for missing in (None, "*", ""):
            refused = patch(ann, certificate, missing, fields={"name": "样例丙商贸有限公司"})
            assert (refused.status_code, refused.json()["code"]) == (428, "precondition_required")
        for stale in ('"1"', 'W/"2"', '"2", "3"', "nonsense"):
            refused = patch(ann, certificate, stale, fields={"name": "样例丙商贸有限公司"})
            assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed"), stale
        assert patch(ann, certificate, '"2"', fields={"name": "样例丙商贸有限公司"}).headers["etag"] == '"3"'
        assert patch(ann, certificate, '"2"', fields={"name": "样例丁商贸有限公司"}).status_code == 412
        assert ann.get(f"/v1/reviews/{certificate}").json()["fields"]["name"]["value"] == "样例丙商贸有限公司"


def test_two_people_at_once_cannot_overwrite_each_other(world: World) -> None:
    """One gets the review, the other is told; whoever comes after a lease has ended must read again first."""
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    answers: dict[str, list[int]] = {"ann": [], "bob": []}
    start = threading.Barrier(2)

    def edit(name: str) -> None:
        with world.as_(name) as client:
            start.wait()
            answers[name] = [patch(client, certificate, '"2"', fields={"name": f"样例{name}公司"}).status_code for _ in range(5)]

    threads = [threading.Thread(target=edit, args=(name,)) for name in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [name for name, codes in answers.items() if 200 in codes]
    assert len(winners) == 1 and answers[winners[0]] == [200, 412, 412, 412, 412]
    (loser,) = {"ann", "bob"} - set(winners)
    assert answers[loser] == [409] * 5
    world.clock.pass_s(3600)
    with world.as_(loser) as client:
        assert patch(client, certificate, '"2"', fields={"name": "样例某公司"}).status_code == 412
        assert patch(client, certificate, '"3"', fields={"name": "样例某公司"}).status_code == 200


def test_a_field_can_be_emptied_with_a_reason(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        body = patch(ann, certificate, '"2"', fields={"term": None, "address": {"value": None, "status": "unreadable"}}).json()
    assert (body["fields"]["term"]["value"], body["fields"]["term"]["status"]) == (None, "blank")
    assert body["fields"]["address"]["status"] == "unreadable"
    assert body["missing"] == ["address"]


def test_back_to_what_was_read_is_no_edit(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        patch(ann, certificate, '"2"', fields={"name": "样例丙商贸有限公司"})
        name = patch(ann, certificate, '"3"', fields={"name": "样例甲商贸有限公司"}).json()["fields"]["name"]
    assert name["edited"] is None and name["confidence"] == 0.9999


@pytest.mark.parametrize(
    "body",
    [
        {"fields": {"no_such_field": "x"}},
        {"fields": {"name": ""}},
        {"fields": {"name": "   "}},
        {"fields": {"name": "a\x00b"}},
        {"fields": {"name": "\ud800"}},
        {"fields": {"name": "x" * 20000}},
        {"fields": {"name": {"value": "x", "status": "blank"}}},
        {"fields": {"name": {"value": None, "status": "read"}}},
        {"fields": {"name": 7}},
        {"comment": " "},
        {"comment": "a\x07b"},
        {"unknown": 1},
        {"doc_type": "No Such"},
        {"doc_type": "no_such_type"},
    ],
)
def test_what_is_no_correction_is_refused_and_changes_nothing(world: World, body: dict[str, Any]) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        refused = ann.request(
            "PATCH",
            f"/v1/reviews/{certificate}",
            content=_json(body),
            headers={"If-Match": '"2"', "Content-Type": "application/json"},
        )
        assert refused.status_code == 422, refused.text
        assert refused.headers["content-type"] == "application/problem+json"
        assert ann.get(f"/v1/reviews/{certificate}").headers["etag"] == '"2"'
    assert world.actions(certificate) == ["opened"]


def test_markup_and_formulas_are_values_like_others(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    value = '<script>alert(1)</script>=HYPERLINK("x")'
    with world.as_("ann") as ann:
        assert patch(ann, certificate, '"2"', fields={"name": value}).json()["fields"]["name"]["value"] == value


def test_a_certificate_can_be_taken_for_another_type(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        body = patch(
            ann, certificate, '"2"', doc_type="device_operation_permit", fields={"permit_no": "京样食药监械经营许20190001号"}
        ).json()
    assert body["doc_type"] == "device_operation_permit"
    assert body["fields"]["name"]["label"] == "企业名称" and body["fields"]["name"]["value"] == "样例甲商贸有限公司"
    assert "registered_capital" not in body["fields"] and body["fields"]["quality_manager"]["status"] == "absent"


def test_taking_the_type_back_brings_what_was_read(world: World) -> None:
    certificate = world.certificate(less_sure(licence(credit_code=WRONG_CODE), "address", 0.3))
    with world.as_("ann") as ann:
        assert patch(ann, certificate, '"2"', doc_type="device_operation_permit").status_code == 200
        back = patch(ann, certificate, '"3"', doc_type="business_licence").json()
    assert back["fields"]["credit_code"]["value"] == WRONG_CODE, "what was read is there again"
    assert back["fields"]["established_on"]["value"] == "2019年03月05日"
    assert back["fields"]["credit_code"]["edited"] is None
    assert any(v["outcome"] == "fail" and v["severity"] == "hard" for v in back["fields"]["credit_code"]["validations"])


def test_an_approval_as_another_type_needs_its_required_fields(world: World) -> None:
    """Nobody has looked for them: the reader read another form. A person says each, be it that nothing stands there."""
    required = load_types().get("device_operation_permit").required
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        missing = patch(ann, certificate, '"2"', doc_type="device_operation_permit").json()["missing"]
        assert missing and set(missing) <= set(required)
        refused = ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"3"'})
        assert (refused.status_code, refused.json()["code"]) == (409, "fields_unsaid")
        assert [row["loc"] for row in refused.json()["errors"]] == [["fields", name] for name in missing]
        assert ann.get(f"/v1/reviews/{certificate}").json()["state"] == "open"
        first, *others = missing
        said = {first: "京样食药监械经营许20190001号"} | {name: {"value": None, "status": "absent"} for name in others}
        tag = patch(ann, certificate, '"3"', fields=said).headers["etag"]
        approved = ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag})
    assert (approved.status_code, approved.json()["state"]) == (200, "approved")


def test_a_second_look_at_another_type_says_its_fields_too(world: World) -> None:
    world.settings(review={"double_check": 1.0})
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann, world.as_("bob") as bob:
        missing = patch(ann, certificate, '"2"', doc_type="device_operation_permit").json()["missing"]
        said = dict.fromkeys(missing, "样例")
        tag = patch(ann, certificate, '"3"', fields=said).headers["etag"]
        assert ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag}).status_code == 200
        world.clock.pass_s(120)
        tag = bob.post(f"/v1/reviews/{certificate}/claim").headers["etag"]
        refused = bob.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag})
        assert (refused.status_code, refused.json()["code"]) == (409, "fields_unsaid")
        tag = patch(bob, certificate, tag, fields=dict.fromkeys(missing)).headers["etag"]
        assert bob.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag}).status_code == 200


def test_fields_and_history_are_sealed_where_the_store_is(tmp_path: Path) -> None:
    from certloop.agentrl.store import AesGcm

    with open_world(tmp_path, cipher=AesGcm(bytes(range(32)))) as world:
        certificate = world.certificate(less_sure(licence(), "address", 0.3))
        with world.as_("ann") as ann:
            assert patch(ann, certificate, '"2"', fields={"name": "样例丙商贸有限公司"}).status_code == 200
        with reading(world.service, "acme") as connection:
            assert certs.load(connection, "acme", certificate).fields["name"]["value"] == "样例丙商贸有限公司"
        world.service.engine.dispose()
        raw = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert "样例丙".encode() not in raw and "样例甲".encode() not in raw


def _json(body: dict[str, Any]) -> str:
    import json

    return json.dumps(body)
