"""Guards and stages of a canary. METHODS §1.6: 180/200 against 160/200 goes back if the judge rose; against 176/200 it stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from certloop.agentrl.release import (
    Alarm,
    ArmWindow,
    CanaryAction,
    CanaryPolicy,
    CanaryState,
    ReleaseError,
    check,
    decide,
    position,
)

OLD = ArmWindow(200, 200, 180, judge=(0.80, 0.80, 0.80, 0.80))
START = datetime(2026, 3, 1, tzinfo=UTC)


def arm(passed: int, judge: tuple[float, ...] = (0.80,), **more: object) -> ArmWindow:
    return ArmWindow(200, 200, passed, judge=judge, **more)  # type: ignore[arg-type]


def test_a_pleased_judge_and_a_worse_business_goes_back() -> None:
    (finding,) = check(arm(160, (0.86, 0.86)), OLD)
    assert finding.alarm is Alarm.DIVERGENCE
    assert finding.p == pytest.approx(0.00255, abs=5e-4)
    (by_trend,) = check(arm(160, (0.77, 0.78, 0.79, 0.80, 0.81)), OLD)
    assert by_trend.alarm is Alarm.DIVERGENCE


def test_a_small_fall_stays() -> None:
    assert check(arm(176, (0.9,)), OLD) == ()


def test_the_business_alone_needs_more_evidence() -> None:
    assert check(arm(160, (0.80,)), OLD) == ()
    (finding,) = check(arm(150), OLD)  # z = -4.07
    assert finding.alarm is Alarm.BUSINESS


def test_too_few_outcomes_say_nothing() -> None:
    assert check(ArmWindow(200, 199, 100, judge=(1.0,)), OLD) == ()


def test_one_failing_class_is_found_behind_a_good_mean() -> None:
    old = ArmWindow(1000, 0, 0, failures={"address": 20, "code": 20, "date": 20})
    new = ArmWindow(1000, 0, 0, failures={"address": 1, "code": 55, "date": 1})
    (finding,) = check(new, old)
    assert (finding.alarm, finding.subject) == (Alarm.FAILURE_CLASS, "code")
    assert check(old, old) == ()


def test_other_ways_of_using_tools_and_slowness() -> None:
    old = ArmWindow(300, 0, 0, tool_paths={"read": 250, "read>zoom": 50}, latency_p95_s=2.0)
    drifted = ArmWindow(300, 0, 0, tool_paths={"read": 60, "read>zoom": 240}, latency_p95_s=2.0)
    slow = ArmWindow(300, 0, 0, tool_paths={"read": 250, "read>zoom": 50}, latency_p95_s=3.5)
    assert [f.alarm for f in check(drifted, old)] == [Alarm.TOOL_PATHS]
    assert [f.alarm for f in check(slow, old)] == [Alarm.LATENCY]


def state(share: float, **more: object) -> CanaryState:
    values: dict[str, object] = {"share": share, "since": START, "new": arm(180), "old": OLD, "documents_per_week": 5000.0}
    return CanaryState(**values | more)  # type: ignore[arg-type]


DAY = timedelta(days=1)


def test_the_stages() -> None:
    assert decide(state(0.05), START + DAY).share == 0.25
    assert decide(state(0.25), START + DAY).action is CanaryAction.PROMOTE
    young = decide(state(0.05), START + DAY / 2)
    assert (young.action, young.share) == (CanaryAction.CONTINUE, 0.05)
    few = decide(state(0.05, new=ArmWindow(199, 150, 150)), START + DAY)
    assert few.action is CanaryAction.CONTINUE
    assert len(few.reasons) == 2


def test_an_alarm_goes_back_at_any_age() -> None:
    decision = decide(state(0.25, new=arm(150)), START)
    assert (decision.action, decision.share) == (CanaryAction.ROLL_BACK, 0.0)
    assert decision.findings


def test_a_clock_that_went_back_promotes_nothing() -> None:
    assert decide(state(0.05), START - DAY).action is CanaryAction.CONTINUE


def test_low_traffic_decides_by_shadow_replay() -> None:
    policy = CanaryPolicy()
    assert policy.first_share(100.0) == policy.low_traffic_share
    low: dict[str, object] = {"documents_per_week": 100.0, "new": ArmWindow(40, 10, 9), "old": ArmWindow(40, 10, 9)}
    assert decide(state(0.5, **low, better=3, worse=2), START + DAY).action is CanaryAction.CONTINUE
    assert decide(state(0.5, **low, better=12), START + DAY).action is CanaryAction.PROMOTE
    assert decide(state(0.5, **low, better=12), START + DAY / 2).action is CanaryAction.CONTINUE
    assert decide(state(0.5, **low, worse=12), START).action is CanaryAction.ROLL_BACK
    assert decide(state(0.5, **low, better=3, worse=2), START + 40 * DAY).action is CanaryAction.ASK


def test_shares_must_rise_to_everything() -> None:
    for shares in ((), (0.5, 0.25, 1.0), (0.05,), (0.0, 1.0)):
        with pytest.raises(ReleaseError):
            CanaryPolicy(shares=shares)


def test_documents_stay_where_they_are_when_the_share_grows() -> None:
    documents = [f"doc-{i}" for i in range(4000)]
    small = {d for d in documents if position("acme", d) < 0.05}
    large = {d for d in documents if position("acme", d) < 0.25}
    assert small < large
    assert len(small) == pytest.approx(200, abs=60)
    assert {d for d in documents if position("other", d) < 0.05} != small
    assert position("a", "b:c") != position("a:b", "c")
