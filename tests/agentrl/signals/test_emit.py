"""What reviews, checks and uploads say, and on which tokens."""

from __future__ import annotations

import json

import pytest

from certloop.agentrl.signals import (
    Origin,
    Reason,
    Scope,
    SecondRead,
    business_signal,
    fuse,
    judge_signal,
    rejection_signal,
    review_signals,
    silent_approval_signal,
    upload_signal,
    validator_signals,
)
from certloop.agentrl.trajectory import Outcome, Role, Trajectory, Turn, build_tokens

ORIGIN = Origin("t", "li", "2026-01-02T03:04:05+00:00")
SHOWN = {"name": "甲公司", "code": "123", "until": None}


def char_trajectory(answer: dict[str, str]) -> Trajectory:
    text = json.dumps(answer, ensure_ascii=False)
    tokens = build_tokens([Turn(Role.USER, (1,) * 5), Turn(Role.ASSISTANT, tuple(map(ord, text)), (-1.0,) * len(text))])
    return Trajectory(
        "t", "a", "toy", "2026-01-01T00:00:00Z", Outcome.CLEAN, final_json=text, token_ids=tokens.token_ids,
        logprobs=tokens.logprobs, loss_mask=tokens.loss_mask, segments=tokens.segments,
        token_offsets=tuple((i, i + 1) for i in range(len(text))),
    )  # fmt: skip


def test_an_approval_without_edits_is_plus_one() -> None:
    fused = fuse(review_signals(ORIGIN, SHOWN, SHOWN))
    assert fused.trajectory.value == 1.0
    assert {name: v.value for name, v in fused.fields.items()} == {"name": 1.0, "code": 1.0}


def test_an_approval_after_edits_is_the_f1_of_the_original() -> None:
    final = {"name": "甲公司", "code": "124", "until": "2030"}
    fused = fuse(review_signals(ORIGIN, SHOWN, final))
    # name 1, code (2/3)^2, until missed: TP 1.4444 of 2 answered and 3 true
    assert fused.trajectory.value == pytest.approx(2 * (1 + 4 / 9) / 5)
    assert {name: v.value for name, v in fused.fields.items()} == {"name": 1.0, "code": -1.0, "until": -1.0}


def test_a_hint_says_where_to_look_and_the_other_variant_is_kept_apart() -> None:
    signals = review_signals(ORIGIN, SHOWN, SHOWN | {"code": "987654"}, labels={"code": "注册号"})
    (edit,) = [s for s in signals if s.reason == Reason.EDIT]
    assert edit.hint is not None
    assert "注册号" in edit.hint
    assert "987654" not in edit.hint
    assert edit.evidence["hint_with_answer"] == "字段「注册号」应读作「987654」。"
    assert (edit.evidence["old"], edit.evidence["new"]) == ("123", "987654")
    assert edit.scope is Scope.FIELD


def test_an_edit_points_at_the_tokens_of_its_field() -> None:
    trajectory = char_trajectory({"name": "甲公司", "code": "123"})
    signals = review_signals(ORIGIN, {"name": "甲公司", "code": "123"}, {"name": "甲公司", "code": "124"}, trajectory=trajectory)
    (edit,) = [s for s in signals if s.reason == Reason.EDIT]
    assert edit.span is not None
    assert "".join(map(chr, trajectory.token_ids[slice(*edit.span)])) == '"123"'


def test_an_invented_field_is_an_edit_to_nothing() -> None:
    signals = review_signals(ORIGIN, {"name": "甲", "phone": "110"}, {"name": "甲"})
    (edit,) = [s for s in signals if s.reason == Reason.EDIT]
    assert (edit.field, edit.evidence["new"]) == ("phone", None)
    assert fuse(signals).trajectory.value == pytest.approx(2 / 3)


def test_width_and_white_space_are_no_edits() -> None:
    assert not [s for s in review_signals(ORIGIN, {"a": "ＡＢ 1"}, {"a": "AB1"}) if s.reason == Reason.EDIT]


def test_checks_of_a_field() -> None:
    reads = [
        SecondRead("zoom", "12 3", 0.9),
        SecondRead("qr", "124"),
        SecondRead("other engine", None),
        SecondRead("blurred", " "),
    ]
    signals = validator_signals(ORIGIN, "code", "123", hard_fail=True, message="check digit", second_reads=reads, span=(3, 6))
    assert [(s.reason, s.actor, s.confidence) for s in signals] == [
        (Reason.HARD_FAIL, "li", 1.0), (Reason.SECOND_READ_AGREES, "zoom", 0.9), (Reason.SECOND_READ_DIFFERS, "qr", 1.0),
    ]  # fmt: skip
    assert {s.span for s in signals} == {(3, 6)}
    assert signals[0].hint == "check digit"
    assert validator_signals(ORIGIN, "code", "123", hard_fail=False) == []  # a pass says nothing


def test_uploads_and_rejections() -> None:
    assert fuse([upload_signal(ORIGIN, same_document=True)]).trajectory.value == -1.0
    assert fuse([upload_signal(ORIGIN, same_document=False)]).trajectory.value is None
    assert fuse([rejection_signal(ORIGIN, "unreadable")]).trajectory.value == -1.0


def test_silence_judges_and_business() -> None:
    silent, judged = silent_approval_signal(ORIGIN), judge_signal(ORIGIN, -0.2)
    assert fuse([silent]).trajectory.value == 1.0
    assert fuse([silent, judged]).trajectory.value == pytest.approx((0.7 * 0.6 - 0.3 * 0.2) / (0.7 * 0.6 + 0.3))
    business = business_signal(ORIGIN, "first_pass", good=False)
    assert fuse([silent, business]).trajectory.value == 1.0
    assert fuse([business]).business[0].evidence == {"outcome": "first_pass"}
