"""Rewards as a fold over signals: who is believed, what a failed check is worth, and what stays visible (METHODS §1.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.rewards import f1_power_reward, group_advantages
from certloop.agentrl.signals import (
    AuditorRecord,
    FusionWeights,
    Origin,
    Reason,
    Scope,
    SecondRead,
    Signal,
    Source,
    fuse,
    fuse_group,
    records,
    reliability_of,
    validator_signals,
    withdrawal_signals,
)


def at(minute: int) -> str:
    return f"2026-01-02T03:{minute:02d}:00+00:00"


def whole(source: Source, value: float, confidence: float = 1.0, minute: int = 0, **more: Any) -> Signal:
    options = {"reason": "said", "actor": f"some {source}"} | more
    return Signal("t", source, Scope.TRAJECTORY, value, confidence, at=at(minute), **options)


def on_field(source: Source, value: float, reason: str = "said", confidence: float = 1.0, minute: int = 0, **more: Any) -> Signal:
    options = {"field": "code", "actor": f"some {source}"} | more
    return Signal("t", source, Scope.FIELD, value, confidence, reason, at=at(minute), **options)


IMPLICIT, JUDGE = whole(Source.IMPLICIT, -1.0), whole(Source.JUDGE, 0.8)
EXPLICIT = whole(Source.AUDITOR, 1.0, minute=30)
FAIL = on_field(Source.VALIDATOR, -1.0, Reason.HARD_FAIL)
DIFFERS = on_field(Source.VALIDATOR, 0.0, Reason.SECOND_READ_DIFFERS, actor="zoom")
AGREES = on_field(Source.VALIDATOR, 0.0, Reason.SECOND_READ_AGREES, actor="zoom")


def test_implicit_and_judge_are_mixed_and_explicit_overrides_both() -> None:
    assert fuse([IMPLICIT, JUDGE]).trajectory.value == pytest.approx(-0.46)
    assert fuse([IMPLICIT, JUDGE, EXPLICIT]).trajectory.value == 1.0


def test_an_unsure_implicit_signal_weighs_less() -> None:
    unsure = replace(IMPLICIT, confidence=0.5)
    assert fuse([unsure, JUDGE]).trajectory.value == pytest.approx((0.35 * -1 + 0.3 * 0.8) / 0.65)
    assert fuse([replace(IMPLICIT, confidence=0.0), JUDGE]).trajectory.value == pytest.approx(0.8)
    assert fuse([unsure]).trajectory.value == -1.0
    assert fuse([JUDGE]).trajectory.value == pytest.approx(0.8)
    assert fuse([replace(IMPLICIT, confidence=0.0)]).trajectory.value is None


def test_business_outcomes_never_enter_a_reward() -> None:
    business = whole(Source.BUSINESS, -1.0)
    assert fuse([business]).trajectory.value is None
    assert fuse([business, JUDGE]).trajectory.value == pytest.approx(0.8)
    assert fuse([business]).business == (business,)
    (override,) = fuse([business, JUDGE, EXPLICIT]).overrides
    assert override.replaced == (JUDGE,)  # and nobody's word replaces them


SOME = st.lists(
    st.sampled_from([
        IMPLICIT, JUDGE, EXPLICIT, FAIL, DIFFERS, AGREES, whole(Source.BUSINESS, -1.0),
        whole(Source.JUDGE, -0.2, 0.4, actor="other"), whole(Source.AUDITOR, -1.0, minute=40, supersedes=EXPLICIT.signal_id),
        on_field(Source.AUDITOR, 1.0, minute=9),
        on_field(Source.JUDGE, 0.5), on_field(Source.IMPLICIT, -1.0, confidence=0.3), whole(Source.IMPLICIT, 0.0, 0.1, minute=2),
    ]),
    min_size=1,
)  # fmt: skip


@given(SOME, st.randoms())
def test_order_and_repetition_do_not_matter(signals: list[Signal], random: Any) -> None:
    shuffled = signals * 2
    random.shuffle(shuffled)
    assert fuse(shuffled) == fuse(signals)


@given(SOME)
def test_every_reward_stays_in_range(signals: list[Signal]) -> None:
    fused = fuse(signals)
    for verdict in (fused.trajectory, *fused.fields.values()):
        assert verdict.value is None or -1.0 <= verdict.value <= 1.0
        assert 0.0 <= verdict.confidence <= 1.0


def test_late_feedback_scores_again_and_the_old_values_stay_visible() -> None:
    before = fuse([IMPLICIT, JUDGE])
    late = whole(Source.AUDITOR, 1.0, minute=50, actor="li", reason=Reason.APPROVAL)
    after = fuse([IMPLICIT, JUDGE, late])
    assert (before.trajectory.source, after.trajectory.source) == (Source.IMPLICIT, Source.AUDITOR)
    assert fuse([late, JUDGE, IMPLICIT, late]) == after
    (override,) = after.overrides
    assert (override.actor, override.at, override.value, override.field) == ("li", at(50), 1.0, None)
    assert {(s.source, s.value) for s in override.replaced} == {(Source.IMPLICIT, -1.0), (Source.JUDGE, 0.8)}


def test_an_auditor_may_take_back_what_he_said() -> None:
    again = whole(Source.AUDITOR, -1.0, minute=45, supersedes=EXPLICIT.signal_id, actor="wang")
    fused = fuse([EXPLICIT, again])
    assert fused.trajectory.value == -1.0
    assert [(o.actor, o.replaced) for o in fused.overrides] == [("wang", (EXPLICIT,))]


def test_a_judge_cannot_replace_what_an_auditor_said() -> None:
    assert fuse([EXPLICIT, whole(Source.JUDGE, -1.0, minute=59, supersedes=EXPLICIT.signal_id)]).trajectory.value == 1.0


def test_an_auditors_last_word_counts_and_several_are_weighed_by_reliability() -> None:
    li = [whole(Source.AUDITOR, 1.0, minute=1, actor="li"), whole(Source.AUDITOR, -1.0, minute=2, actor="li")]
    assert fuse(li).trajectory.value == -1.0
    assert fuse(li).overrides[0].replaced == (li[0],)
    wang = whole(Source.AUDITOR, 1.0, minute=3, actor="wang")
    known = {"li": 0.9, "wang": 0.3}
    fused = fuse([*li, wang], reliability=known.__getitem__).trajectory
    assert fused.value == pytest.approx((0.9 * -1 + 0.3 * 1) / 1.2)
    assert fuse([wang], reliability=known.__getitem__).trajectory.value == 1.0  # alone, reliability is the confidence
    assert fuse([wang], reliability=known.__getitem__).trajectory.confidence == pytest.approx(0.3)
    with pytest.raises(CertloopError):
        fuse([wang], reliability=lambda _: 0.0)


def test_an_auditors_record() -> None:
    known = records([("li", True)] * 9 + [("li", False)])
    assert known["li"] == AuditorRecord(9, 10)
    assert known["li"].reliability == pytest.approx(18 / 20)
    assert reliability_of(known, "new") == pytest.approx(0.9)
    with pytest.raises(CertloopError):
        AuditorRecord(3, 2)


class TestFields:
    def test_a_failed_check_alone_is_no_negative_signal(self) -> None:
        assert fuse([FAIL]).fields["code"].value is None

    def test_a_failed_check_counts_when_a_second_read_differs(self) -> None:
        verdict = fuse([FAIL, DIFFERS, on_field(Source.JUDGE, 1.0), on_field(Source.IMPLICIT, 1.0)]).fields["code"]
        assert (verdict.value, verdict.source, verdict.reason) == (-1.0, Source.VALIDATOR, "confirmed_hard_fail")

    def test_a_failed_check_counts_when_an_auditor_says_the_print_differs(self) -> None:
        assert fuse([FAIL, on_field(Source.AUDITOR, -1.0, Reason.EDIT)]).fields["code"].value == -1.0

    def test_when_both_reads_agree_the_print_is_wrong_and_the_document_is_flagged(self) -> None:
        fused = fuse([FAIL, AGREES, on_field(Source.JUDGE, -1.0)])
        assert fused.fields["code"].value == 0.0
        assert fused.flagged == ("code",)

    def test_second_reads_that_disagree_with_each_other_confirm_nothing(self) -> None:
        assert fuse([FAIL, DIFFERS, AGREES]).fields["code"].value == 0.0

    def test_an_auditor_may_say_that_the_print_is_wrong(self) -> None:
        fused = fuse([FAIL, DIFFERS, on_field(Source.AUDITOR, 1.0, Reason.PRINT_IS_WRONG)])
        assert (fused.fields["code"].value, fused.flagged) == (1.0, ("code",))

    def test_explicit_is_believed_before_a_confirmed_failure(self) -> None:
        fused = fuse([FAIL, DIFFERS, on_field(Source.AUDITOR, 1.0, Reason.APPROVAL, actor="li", minute=7)])
        assert fused.fields["code"].value == 1.0
        assert {s.reason for s in fused.overrides[0].replaced} == {Reason.HARD_FAIL, Reason.SECOND_READ_DIFFERS}

    def test_a_soft_failure_or_a_pass_is_no_signal(self) -> None:
        for reason, value in ((Reason.SOFT_FAIL, -1.0), (Reason.PASS, 1.0)):
            assert fuse([on_field(Source.VALIDATOR, value, reason), DIFFERS]).fields["code"].value == 0.0
            assert fuse([on_field(Source.VALIDATOR, value, reason)]).fields["code"].value is None

    def test_without_checks_implicit_comes_before_the_judge(self) -> None:
        assert fuse([on_field(Source.IMPLICIT, -1.0), on_field(Source.JUDGE, 0.8)]).fields["code"].value == pytest.approx(-0.46)
        assert fuse([on_field(Source.JUDGE, 0.8)]).fields["code"].value == pytest.approx(0.8)

    def test_one_field_says_nothing_about_another(self) -> None:
        fused = fuse([FAIL, DIFFERS, on_field(Source.JUDGE, 0.5, field="name")])
        assert {name: verdict.value for name, verdict in fused.fields.items()} == {"code": -1.0, "name": 0.5}


PRINTED, REPAIRED = "914403001922038211", "914403001922038216"
SECOND = SecondRead("zoom", PRINTED)


def answer_signals(traj_id: str, answer: str, reads: list[SecondRead], *, fails: bool) -> list[Signal]:
    return validator_signals(Origin(traj_id, "check digit", at(0)), "code", answer, hard_fail=fails, second_reads=reads)


@given(st.floats(-1, 1), st.floats(-1, 1), st.booleans(), st.booleans())
def test_a_repaired_answer_never_comes_out_above_the_verbatim_one(
    likes_verbatim: float, likes_repaired: float, implicit: bool, second_read: bool
) -> None:
    """Whatever judges and next messages say, with and without a second read of the print."""
    source = Source.IMPLICIT if implicit else Source.JUDGE
    reads = [SECOND] if second_read else []
    group = []
    for name, answer, fails, liked in (("v", PRINTED, True, likes_verbatim), ("r", REPAIRED, False, likes_repaired)):
        opinion = replace(on_field(source, liked), traj_id=name)
        group.append([opinion, *answer_signals(name, answer, reads, fails=fails)])
    values = [fused.fields["code"].value or 0.0 for fused in fuse_group(group)]
    verbatim, repaired = group_advantages(values)
    assert verbatim >= repaired
    alone = [fuse(signals).fields["code"].value for signals in group]
    if second_read:  # then even without knowing of each other
        assert (alone[0] or 0.0) >= (alone[1] or 0.0)


def test_against_the_truth_the_verbatim_answer_wins_outright() -> None:
    truth = {"code": PRINTED, "name": "甲公司"}
    rewards = [f1_power_reward(truth, truth | {"code": code}).reward for code in (PRINTED, REPAIRED)]
    verbatim, repaired = group_advantages(rewards)
    assert rewards[0] == 1.0
    assert verbatim > 0 > repaired


def test_hints_stand_only_for_what_turned_out_wrong() -> None:
    edit = on_field(Source.AUDITOR, -1.0, Reason.EDIT, hint="look right of the label")
    doubted = on_field(Source.IMPLICIT, -1.0, field="name", hint="the name is wrong")
    approved = on_field(Source.AUDITOR, 1.0, Reason.APPROVAL, field="name")
    assert fuse([edit, doubted, approved]).hints == (edit,)
    step = Signal("t", Source.JUDGE, Scope.STEP, -1.0, 1.0, "said", "judge", at(0), step=2, hint="zoom first")
    assert fuse([edit, step]).hints == tuple(sorted((edit, step), key=lambda s: s.signal_id))


def test_a_fold_needs_one_trajectory() -> None:
    for signals in ([], [IMPLICIT, replace(JUDGE, traj_id="u")], [replace(JUDGE, value=float("nan"))]):
        with pytest.raises(CertloopError):
            fuse(signals)
    with pytest.raises(CertloopError):
        FusionWeights(0.0, 0.0)


def test_an_unrelated_upload_or_a_question_takes_back_no_complaint() -> None:
    complaint = whole(Source.IMPLICIT, -1.0, 0.9, minute=1)
    silence, question = whole(Source.IMPLICIT, 0.0, 0.0, minute=2), whole(Source.IMPLICIT, 0.0, 0.5, minute=3)
    assert fuse([complaint, silence]).trajectory.value == -1.0
    assert fuse([complaint, silence, question]).trajectory.value == -1.0
    assert fuse([silence, question]).trajectory.value == 0.0
    assert fuse([complaint, question, whole(Source.IMPLICIT, 1.0, 0.9, minute=4)]).trajectory.value == 1.0  # the last opinion


def withdrawal(of: Signal, minute: int) -> Signal:
    (taken_back,) = withdrawal_signals(Origin(of.traj_id, of.actor, at(minute)), [of])
    return taken_back


def test_what_was_taken_back_replaced_nothing() -> None:
    again = whole(Source.AUDITOR, -1.0, minute=45, supersedes=EXPLICIT.signal_id, actor="wang")
    back = withdrawal(again, 50)
    assert fuse([EXPLICIT, again, back]).trajectory.value == 1.0
    assert fuse([EXPLICIT, again, back, withdrawal(back, 55)]).trajectory.value == -1.0  # the withdrawal is taken back, too
    third = whole(Source.AUDITOR, 0.5, minute=52, supersedes=again.signal_id, actor="li")
    assert fuse([EXPLICIT, again, third]).trajectory.value == 0.5  # what is replaced has replaced all the same


@given(SOME, st.integers(1, 300))
def test_a_long_chain_of_second_thoughts_folds(signals: list[Signal], length: int) -> None:
    chain = [EXPLICIT]
    for _ in range(length):
        chain.append(withdrawal(chain[-1], len(chain) % 60))
    value = fuse([*signals, *chain]).trajectory.value
    assert value is None or -1.0 <= value <= 1.0
    assert fuse(chain).trajectory.value == (1.0 if length % 2 == 0 else None)


def test_who_looks_twice_and_sees_the_same_has_seen_it_once() -> None:
    other = replace(DIFFERS, actor="qr")
    again = [replace(AGREES, confidence=0.9, at=at(minute)) for minute in range(3)]
    assert fuse([FAIL, other, *again]).fields["code"].value == -1.0


def test_overrides_stand_in_the_order_of_time_in_every_time_zone() -> None:
    early, late = "2026-01-02T08:00:00+08:00", "2026-01-02T01:00:00+00:00"  # 00:00 and 01:00 UTC
    fails = [replace(FAIL, field=name, at=at(0)) for name in "ab"]
    says = [on_field(Source.AUDITOR, 1.0, field=n, actor=n) for n in "ab"]
    fused = fuse([*fails, replace(says[0], at=late), replace(says[1], at=early)])
    assert [o.at for o in fused.overrides] == [early, late]


def test_thousands_of_words_on_one_answer_fold_in_no_time() -> None:
    words = [whole(Source.AUDITOR, 1.0, reason=f"said {n}") for n in range(10_000)]
    fused = fuse(words)
    assert fused.trajectory.value == 1.0
    assert len(fused.overrides[0].replaced) == 9_999


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -0.1])
def test_weights_that_make_no_sense(weight: float) -> None:
    for weights in ((weight, 0.3), (0.7, weight)):
        with pytest.raises(CertloopError):
            FusionWeights(*weights)
