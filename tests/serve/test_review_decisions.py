"""Approving, rejecting and taking back: what becomes of the certificate, of the signals, and of the training truth."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from certloop.agentrl.rewards import fold, text_similarity
from certloop.agentrl.signals import Reason, Scope, Signal, Source, fuse
from certloop.agentrl.store import create_snapshot, verify
from certloop.agentrl.store.exporters import approved_answer
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, deliveries
from certloop.serve.people.roles import Role
from certloop.serve.webhooks import outbox
from tests.serve.audit_world import CODE, LICENCE, WRONG_CODE, World, less_sure, licence, open_world


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        yield opened


def post(client: httpx.Client, certificate: str, what: str, tag: str | None = None, **body: Any) -> httpx.Response:
    headers = {} if tag is None else {"If-Match": tag}
    return client.post(f"/v1/reviews/{certificate}/{what}", json=body, headers=headers)


def patch(client: httpx.Client, certificate: str, tag: str, **fields: Any) -> httpx.Response:
    answer = client.patch(f"/v1/reviews/{certificate}", json={"fields": fields}, headers={"If-Match": tag})
    assert answer.status_code == 200, answer.text
    return answer


def by_field(signals: tuple[Signal, ...], source: Source = Source.AUDITOR) -> Mapping[str, Signal]:
    return {str(s.field): s for s in signals if s.source is source and s.scope is Scope.FIELD}


def whole(signals: tuple[Signal, ...], source: Source = Source.AUDITOR) -> list[Signal]:
    return [s for s in signals if s.source is source and s.scope is Scope.TRAJECTORY]


def state(world: World, certificate: str) -> str:
    with reading(world.service, "acme") as connection:
        query = select(certificates.c.state).where(certificates.c.certificate_id == certificate)
        return str(connection.execute(query).scalar_one())


def test_a_silent_approval_counts_for_every_field(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        made = post(ann, certificate, "approve", '"2"')
        assert made.status_code == 200 and made.json()["state"] == "approved" and made.json()["revision"] == 3
        assert ann.get("/v1/reviews").json()["items"] == []
        assert [row["state"] for row in ann.get("/v1/reviews", params={"state": "approved"}).json()["items"]] == ["approved"]
    said = world.signals(certificate)
    fields = by_field(said)
    assert len(fields) == len(LICENCE) and {s.value for s in fields.values()} == {1.0}
    assert {s.reason for s in fields.values()} == {Reason.APPROVAL} and {s.actor for s in said} == {world.ids["ann"]}
    assert [s.value for s in whole(said)] == [1.0]
    assert [(s.value, s.evidence["outcome"]) for s in whole(said, Source.BUSINESS)] == [(1.0, "first_pass")]
    assert sorted(made.json()["signals"]) == sorted(s.signal_id for s in said)
    assert state(world, certificate) == "approved"
    assert world.actions(certificate) == ["opened", "claimed", "approved"]


def test_an_approval_after_edits_scores_the_answer_by_its_f1_and_hints_where_to_look(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    new = "北京市朝阳区样例路7号"
    with world.as_("ann") as ann:
        patch(ann, certificate, '"2"', address=new)
        assert post(ann, certificate, "approve", '"3"').status_code == 200
    said = world.signals(certificate)
    fields = by_field(said)
    edit = fields["住所"]
    assert (edit.value, edit.reason) == (-1.0, Reason.EDIT)
    assert edit.evidence["old"] == LICENCE["address"] and edit.evidence["new"] == new
    assert edit.hint is not None and "住所" in edit.hint and new not in edit.hint, "a hint that holds the answer teaches it"
    kept = [s for name, s in fields.items() if name != "住所"]
    assert {s.value for s in kept} == {1.0} and len(kept) == len(LICENCE) - 1
    # F1 by hand: six fields equal, one alike to 11/12 (one of 12 characters differs), squared.
    alike = text_similarity(LICENCE["address"], new)
    assert alike == pytest.approx(1 - 1 / len(fold(new)))
    assert [s.value for s in whole(said)] == [pytest.approx((6 + alike**2) / 7)]
    assert [s.value for s in whole(said, Source.BUSINESS)] == [-1.0]
    assert fuse(said).trajectory.value == pytest.approx((6 + alike**2) / 7), "the business outcome is no reward"


def test_what_was_approved_is_the_truth_that_exporters_find(world: World) -> None:
    certificate = world.certificate(less_sure(licence(registration_no="110105000000001"), "address", 0.3))
    with world.as_("ann") as ann:
        patch(
            ann, certificate, '"2"', address="北京市朝阳区样例路7号", term=None,
            registration_no={"value": None, "status": "absent"}, registered_capital="100万元",
        )  # fmt: skip
        post(ann, certificate, "approve", '"3"')
    stored = world.service.tenant("acme").trajectory(certificate)
    answer = json.loads(approved_answer(stored.trajectory, stored.signals) or "")
    assert answer["住所"] == "北京市朝阳区样例路7号" and answer["注册资本"] == "100万元"
    assert answer["营业期限"] is None, "its label is printed, so the answer says null"
    assert "注册号" not in answer, "the form has no such field"
    assert answer["名称"] == LICENCE["name"]


def test_a_kept_value_that_fails_a_hard_rule_is_the_papers_fault(world: World) -> None:
    """The verbatim answer is right and the document flagged (METHODS §1.5)."""
    certificate = world.certificate(licence(credit_code=WRONG_CODE))
    failed = [s for s in world.signals(certificate) if s.reason == Reason.HARD_FAIL]
    assert [s.field for s in failed] == ["统一社会信用代码"]
    assert fuse(world.signals(certificate)).fields["统一社会信用代码"].value is None, "a fail alone says nothing"
    with world.as_("ann") as ann:
        post(ann, certificate, "approve", '"2"')
    said = world.signals(certificate)
    assert by_field(said)["统一社会信用代码"].reason == Reason.PRINT_IS_WRONG
    verdict = fuse(said).fields["统一社会信用代码"]
    assert verdict.value == 1.0 and verdict.flagged


def test_a_corrected_value_that_failed_a_hard_rule_is_wrong(world: World) -> None:
    certificate = world.certificate(licence(credit_code=WRONG_CODE))
    with world.as_("ann") as ann:
        patch(ann, certificate, '"2"', credit_code=CODE)
        post(ann, certificate, "approve", '"3"')
    assert fuse(world.signals(certificate)).fields["统一社会信用代码"].value == -1.0


def test_a_qr_code_that_reads_otherwise_confirms_a_failed_check(world: World) -> None:
    certificate = world.certificate(licence(credit_code=WRONG_CODE, qr=CODE))
    said = world.signals(certificate)
    assert {s.reason for s in said} == {Reason.HARD_FAIL, Reason.SECOND_READ_DIFFERS}
    verdict = fuse(said).fields["统一社会信用代码"]
    assert (verdict.value, verdict.reason) == (-1.0, "confirmed_hard_fail")
    agreeing = world.certificate(licence(credit_code=WRONG_CODE, qr=WRONG_CODE))
    same = fuse(world.signals(agreeing)).fields["统一社会信用代码"]
    assert same.value == 0.0 and same.flagged, "both looks agree: the print itself is wrong"


@pytest.mark.parametrize(
    ("reason", "value"), [("misread", -1.0), ("not_a_certificate", -1.0), ("expired", None), ("not_legible", None)]
)
def test_a_bad_paper_is_not_held_against_the_reader(world: World, reason: str, value: float | None) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        made = post(ann, certificate, "reject", '"2"', reason=reason)
    assert made.status_code == 200 and made.json()["state"] == "rejected"
    said = world.signals(certificate)
    assert ([s.value for s in whole(said)] or [None]) == [value]
    stored = world.service.tenant("acme").trajectory(certificate)
    assert approved_answer(stored.trajectory, stored.signals) is None
    assert state(world, certificate) == "rejected"


def test_advice_becomes_a_hint_that_stands(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        patch(ann, certificate, '"2"', address="北京市朝阳区样例路7号")
        post(ann, certificate, "approve", '"3"', comment="你应该先查二维码")
    said = world.signals(certificate)
    (hint,) = [s for s in said if s.scope is Scope.STEP]
    assert (hint.value, hint.source, hint.hint) == (-1.0, Source.AUDITOR, "你应该先查二维码")
    assert hint.signal_id in {s.signal_id for s in fuse(said).hints}
    assert world.actions(certificate) == ["opened", "claimed", "edited", "commented", "approved"]


def test_advice_about_a_corrected_field_hints_at_that_field_without_the_answer(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        patch(ann, certificate, '"2"', address="北京市朝阳区样例路7号")
        post(ann, certificate, "approve", '"3"', comment="住所应为「北京市朝阳区样例路7号」")
    hints = [s for s in world.signals(certificate) if s.reason == Reason.NEXT_MESSAGE]
    assert [(s.field, "7号" in str(s.hint)) for s in hints] == [("住所", False)]


def test_thanks_are_no_advice(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        post(ann, certificate, "approve", '"2"', comment="谢谢，没问题")
    assert not [s for s in world.signals(certificate) if s.reason == Reason.NEXT_MESSAGE]


def test_a_decision_is_made_once_whoever_tries(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    codes: list[int] = []
    start = threading.Barrier(4)

    def decide(name: str, what: str, body: dict[str, str]) -> None:
        with world.as_(name) as client:
            start.wait()
            codes.append(post(client, certificate, what, '"2"', **body).status_code)

    threads = [
        threading.Thread(target=decide, args=args)
        for args in (
            ("ann", "approve", {}),
            ("ann", "approve", {}),
            ("bob", "approve", {}),
            ("bob", "reject", {"reason": "misread"}),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200, 409, 409, 409]
    said = world.signals(certificate)
    assert len(whole(said)) == 1 and len({s.actor for s in said}) == 1


def test_an_approval_needs_the_revision_that_was_seen(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        assert post(ann, certificate, "approve").status_code == 428
        assert post(ann, certificate, "approve", '"1"').status_code == 412
        assert post(ann, certificate, "reject", '"1"', reason="misread").status_code == 412
    assert world.signals(certificate) == () and state(world, certificate) == "review"


def test_undo_within_a_minute_withdraws_and_deletes_nothing(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann, world.as_("bob") as bob:
        patch(ann, certificate, '"2"', address="北京市朝阳区样例路7号")
        post(ann, certificate, "approve", '"3"')
        before = world.signals(certificate)
        assert (bob.post(f"/v1/reviews/{certificate}/undo").status_code) == 409, "only who decided"
        undone = ann.post(f"/v1/reviews/{certificate}/undo")
        assert (undone.status_code, undone.json()["state"], undone.json()["revision"]) == (200, "review", 5)
        after = world.signals(certificate)
        assert after[: len(before)] == before and len(after) == 2 * len(before), "appended, nothing deleted"
        folded = fuse(after)
        assert folded.trajectory.value is None and {v.value for v in folded.fields.values()} == {None}
        assert folded.business == () and folded.hints == ()
        stored = world.service.tenant("acme").trajectory(certificate)
        assert approved_answer(stored.trajectory, stored.signals) is None
        assert ann.get(f"/v1/reviews/{certificate}").json()["claimed_by"] == world.ids["ann"], "still mine"
        patch(ann, certificate, '"5"', address="北京市朝阳区样例路8号")
        post(ann, certificate, "approve", '"6"')
    stored = world.service.tenant("acme").trajectory(certificate)
    assert json.loads(approved_answer(stored.trajectory, stored.signals) or "")["住所"] == "北京市朝阳区样例路8号"
    assert fuse(stored.signals).trajectory.value not in (None, 0.0)
    actions = world.actions(certificate)
    assert actions == ["opened", "claimed", "edited", "approved", "undone", "edited", "approved"]


def test_a_decision_older_than_a_minute_stands(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        post(ann, certificate, "approve", '"2"')
        world.clock.pass_s(61)
        late = ann.post(f"/v1/reviews/{certificate}/undo")
    assert (late.status_code, late.json()["code"]) == (409, "undo_too_late")
    assert state(world, certificate) == "approved"


def test_an_open_review_has_nothing_to_undo(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        assert ann.post(f"/v1/reviews/{certificate}/undo").status_code == 409


def test_webhooks_are_told_ids_and_states_only(world: World) -> None:
    world.person("root", Role.ADMIN)
    with world.as_("root") as root:
        hook = root.post("/v1/webhooks", json={"url": "https://example.com/hook", "events": [e.value for e in outbox.Event]})
    assert hook.status_code == 201, hook.text
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("ann") as ann:
        post(ann, certificate, "approve", '"2"')
        ann.post(f"/v1/reviews/{certificate}/undo")
        post(ann, certificate, "reject", '"4"', reason="misread")
    with reading(world.service, "acme") as connection:
        rows = connection.execute(select(deliveries.c.event, deliveries.c.payload).order_by(deliveries.c.created_at)).all()
    told = [(row.event, json.loads(row.payload)["data"]) for row in rows if row.event.startswith("review.")]
    assert [event for event, _ in told] == ["review.approved", "review.undone", "review.rejected"]
    assert told[0][1] == {
        "certificate_id": certificate, "document_id": certificate.split(".")[0], "state": "approved", "revision": 3,
    }  # fmt: skip
    assert not any(value in row.payload for row in rows for value in LICENCE.values())


def test_what_was_decided_reaches_a_training_snapshot(world: World, tmp_path: Path) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3), consent="tenant", purpose="training")
    with world.as_("ann") as ann:
        patch(ann, certificate, '"2"', address="北京市朝阳区样例路7号")
        post(ann, certificate, "approve", '"3"')
    snapshot = create_snapshot(world.service.tenant("acme"), tmp_path / "sets", actor="test")
    (row,) = snapshot.rows()
    assert json.loads(approved_answer(row.trajectory, row.signals) or "")["住所"] == "北京市朝阳区样例路7号"
    assert not verify(world.service.store).findings


def test_a_deleted_document_takes_its_review_with_it(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    with world.as_("operator") as operator, world.as_("ann") as ann:
        assert operator.delete(f"/v1/documents/{certificate.split('.')[0]}").status_code == 204
        assert ann.get(f"/v1/reviews/{certificate}").status_code == 404
        assert post(ann, certificate, "approve", '"2"').status_code == 404
        assert ann.get("/v1/reviews").json()["items"] == []


def test_a_field_signal_carries_the_tokens_of_its_value() -> None:
    """A model's answer has tokens: the signal of a field points at them, and nowhere else."""
    from certloop.agentrl.signals import Origin
    from certloop.agentrl.trajectory import Outcome, Sampling, Segment, Trajectory
    from certloop.agentrl.trajectory import Role as Speaker
    from certloop.serve.review.signals import approval_signals

    text = json.dumps({"名称": "样例甲", "住所": "样例路1号"}, ensure_ascii=False)
    offsets = tuple((i, i + 1) for i in range(len(text)))
    trajectory = Trajectory(
        "t", "acme", "business_licence", "2026-03-01T08:00:00+00:00", Outcome.CLEAN, final_json=text,
        token_ids=(1, *range(len(text))), logprobs=(None, *[-0.1] * len(text)), loss_mask=(0, *[1] * len(text)),
        segments=(Segment(Speaker.USER, 0, 1), Segment(Speaker.ASSISTANT, 1, 1 + len(text))), token_offsets=offsets,
        sampling=Sampling(),
    )  # fmt: skip
    read = {
        name: f.to_json() for name, f in licence(name="样例甲", address="样例路1号").fields.items() if name in ("name", "address")
    }
    final = {**read, "address": {**read["address"], "value": "样例路7号"}}
    said = approval_signals(Origin("t", "ann", "2026-03-01T08:00:00+00:00"), read, final, trajectory=trajectory)
    (edit,) = [s for s in said if s.reason == Reason.EDIT]
    assert edit.span is not None
    start, end = edit.span
    assert text[start - 1 : end - 1] == '"样例路1号"'
    assert replace(edit, span=None).span is None
