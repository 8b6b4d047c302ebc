"""Decided certificates that a second auditor decides blindly: what he may see, what it changes (nothing), what it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from certloop.agentrl.signals import Origin, review_signals
from certloop.serve.db.access import reading
from certloop.serve.people.roles import Role
from certloop.serve.review import double
from tests.serve.audit_world import LICENCE, World, less_sure, licence, open_world

NEW = "北京市朝阳区样例路7号"


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        opened.settings(review={"double_check": 1.0})
        yield opened


def decided(world: World, name: str = "ann", **fields: str) -> str:
    """A certificate that somebody approved, drawn for a second look that is due."""
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_(name) as client:
        tag = '"2"'
        if fields:
            tag = edit(client, certificate, tag, **fields).headers["etag"]
        assert client.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag}).status_code == 200
    world.clock.pass_s(61)
    return certificate


def edit(client: httpx.Client, certificate: str, tag: str, **fields: str) -> httpx.Response:
    answer = client.patch(f"/v1/reviews/{certificate}", json={"fields": fields}, headers={"If-Match": tag})
    assert answer.status_code == 200, answer.text
    return answer


def test_a_second_look_waits_for_the_time_to_undo_and_is_not_for_who_decided(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann, world.as_("bob") as bob:
        ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"2"'})
        assert bob.get("/v1/reviews").json()["items"] == []
        assert bob.post(f"/v1/reviews/{certificate}/claim").status_code == 409
        world.clock.pass_s(61)
        (row,) = bob.get("/v1/reviews").json()["items"]
        assert row["second_look"] and row["state"] == "open" and row["decided_by"] is None
        assert [reason["reason"] for reason in row["reasons"]] == ["double_check"]
        assert bob.get("/v1/reviews", params={"reason": "double_check"}).json()["items"] == [row]
        assert bob.get("/v1/reviews/summary").json()["second_looks"] == 1
        assert ann.get("/v1/reviews").json()["items"] == []
        assert ann.post(f"/v1/reviews/{certificate}/claim").status_code == 409


def test_a_second_look_is_blind_and_changes_nothing(world: World) -> None:
    certificate = decided(world, address=NEW)
    before = world.signals(certificate)
    with world.as_("bob") as bob, world.as_("ann") as ann:
        shown = bob.get(f"/v1/reviews/{certificate}")
        assert shown.json()["fields"]["address"]["value"] == LICENCE["address"] and NEW not in shown.text
        assert shown.json()["history"] == [] and shown.json()["decided_by"] is None
        after_edit = edit(bob, certificate, shown.headers["etag"], address="北京市朝阳区样例路9号", person="王样")
        assert after_edit.json()["fields"]["person"]["value"] == "王样"
        assert [entry["action"] for entry in after_edit.json()["history"]] == ["edited", "edited"]
        final = ann.get(f"/v1/reviews/{certificate}").json()
        assert (final["fields"]["address"]["value"], final["fields"]["person"]["value"]) == (NEW, "张样"), (
            "what ann approved stands"
        )
        done = bob.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": after_edit.headers["etag"]})
        assert (done.status_code, done.json()["signals"], done.json()["undo_until"]) == (200, [], None)
        assert bob.get("/v1/reviews").json()["items"] == []
        again = bob.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": after_edit.headers["etag"]})
        assert again.status_code == 409
    assert world.signals(certificate) == before
    assert world.actions(certificate)[-1] == "double_checked"


def test_agreement_is_counted_by_field_and_weighs_the_auditor(world: World) -> None:
    certificate = decided(world)
    with world.as_("bob") as bob:
        tag = edit(bob, certificate, bob.get(f"/v1/reviews/{certificate}").headers["etag"], address=NEW).headers["etag"]
        bob.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag})
    with world.as_("eve") as eve:
        (row,) = eve.get("/v1/auditors").json()["items"]
    # Seven fields, six agreed; Beta(9, 1) prior: (6 + 9) / (7 + 10).
    assert row == {"auditor": world.ids["ann"], "agreed": 6, "checked": 7, "reliability": round(15 / 17, 4)}


def test_a_rejection_agrees_with_nothing(world: World) -> None:
    certificate = decided(world)
    with world.as_("bob") as bob, world.as_("eve") as eve:
        tag = bob.get(f"/v1/reviews/{certificate}").headers["etag"]
        bob.post(f"/v1/reviews/{certificate}/reject", json={"reason": "misread"}, headers={"If-Match": tag})
        (row,) = eve.get("/v1/auditors").json()["items"]
    assert (row["agreed"], row["checked"]) == (0, 7)


def test_rewards_weigh_auditors_by_their_reliability(world: World) -> None:
    """Two auditors disagree on a trajectory: the one found wrong before weighs less, as computed by hand."""
    decided(world, "ann")
    for name, agree in (("ann", False), ("bob", True)):
        other = "bob" if name == "ann" else "ann"
        certificate = decided(world, name)
        with world.as_(other) as client:
            tag = client.get(f"/v1/reviews/{certificate}").headers["etag"]
            if not agree:
                tag = edit(client, certificate, tag, **dict.fromkeys(("name", "type", "person", "address"), "另一个值")).headers[
                    "etag"
                ]
            client.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag})
    with reading(world.service, "acme") as connection:
        known = double.auditor_records(connection, "acme")
    assert (known[world.ids["ann"]].agreed, known[world.ids["bob"]].agreed) == (3, 7)
    ann, bob = (3 + 9) / (7 + 10), (7 + 9) / (7 + 10)
    trajectory = world.service.tenant("acme").trajectory(certificate)
    good = review_signals(Origin(certificate, world.ids["ann"], "2026-03-02T08:00:00+00:00"), {"a": "x"}, {"a": "x"})
    bad = review_signals(Origin(certificate, world.ids["bob"], "2026-03-02T08:00:00+00:00"), {"a": "x"}, {"a": "整个不同"})
    assert (good[-1].value, bad[-1].value) == (1.0, 0.0)
    reward = double.reward_of(world.service, "acme")
    assert reward(trajectory.trajectory, [*good, *bad]) == pytest.approx(ann / (ann + bob))
    assert reward(trajectory.trajectory, []) is None


def test_what_is_drawn_follows_the_share(world: World) -> None:
    from certloop.serve.review.triage import drawn

    keys = [f"doc_{i:032x}.0" for i in range(4000)]
    share = sum(drawn("acme", "double", key, 0.05) for key in keys) / len(keys)
    assert 0.035 < share < 0.065
    assert [drawn("acme", "double", k, 0.05) for k in keys[:50]] == [drawn("acme", "double", k, 0.05) for k in keys[:50]]
    assert not any(drawn("acme", "double", k, 0.0) for k in keys) and all(drawn("acme", "double", k, 1.0) for k in keys)


def test_only_engineers_see_how_far_auditors_are_believed(world: World) -> None:
    world.person("root", Role.ADMIN)
    with world.as_("ann") as ann, world.as_("root") as root:
        assert ann.get("/v1/auditors").status_code == 403
        assert root.get("/v1/auditors").json() == {"items": []}
