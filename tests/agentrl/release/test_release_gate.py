"""The gate's verdicts. The rates over many candidates of known truth are measured by ``benchmarks/gate.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certloop.agentrl.release import (
    Approval,
    Evidence,
    GateConfig,
    GateError,
    Origin,
    Pair,
    Verdict,
    forgetting_table,
    judge,
    report_html,
    report_json,
)

CONFIG = GateConfig(draws=1000)


def suite(group: str, n: int, wins: int, losses: int) -> list[Pair]:
    """``n`` items of which the candidate alone gets ``wins`` right and the baseline alone ``losses``."""
    gains = [(0.0, 1.0)] * wins + [(1.0, 0.0)] * losses + [(1.0, 1.0)] * (n - wins - losses)
    return [Pair(f"{group}-{i}", group, before, after) for i, (before, after) in enumerate(gains)]


GOOD = Evidence(target=suite("new form", 300, 30, 5), retained=suite("licence", 1500, 6, 5) + suite("permit", 500, 2, 2))


def test_a_better_candidate_is_promoted() -> None:
    result = judge(GOOD, CONFIG)
    assert result.verdict is Verdict.PROMOTE
    assert result.target.mean == pytest.approx(25 / 300)
    assert result.target.lower > 0 > result.retained.lower > -0.005
    assert set(result.groups) == {"licence", "permit"}


def test_one_type_that_degrades_is_found_behind_a_good_mean() -> None:
    evidence = replace(GOOD, retained=suite("licence", 1500, 40, 2) + suite("permit", 300, 0, 24))
    result = judge(evidence, CONFIG)
    assert result.verdict is Verdict.REJECT
    assert result.alarms == ("permit",)
    assert result.retained.mean > 0


def test_what_got_worse_is_refused() -> None:
    assert judge(replace(GOOD, target=suite("new form", 300, 5, 40)), CONFIG).verdict is Verdict.REJECT
    assert judge(replace(GOOD, retained=suite("licence", 2000, 0, 60)), CONFIG).verdict is Verdict.REJECT


def test_no_gain_worth_a_release_is_refused_not_put_off() -> None:
    result = judge(replace(GOOD, target=suite("new form", 20000, 40, 41)), CONFIG)
    assert result.verdict is Verdict.REJECT
    assert "no gain" in result.reasons[0]


def test_too_little_evidence_says_how_much_would_do() -> None:
    few = judge(replace(GOOD, target=suite("new form", 20, 3, 0)), CONFIG)
    assert few.verdict is Verdict.INSUFFICIENT
    assert few.needed["target"] == 67  # 20 x 10 / 3
    unsure = judge(replace(GOOD, retained=suite("licence", 100, 1, 1)), CONFIG)
    assert unsure.verdict is Verdict.INSUFFICIENT
    assert unsure.needed["retained"] > 100
    assert judge(replace(GOOD, retained=[]), CONFIG).verdict is Verdict.INSUFFICIENT


@pytest.mark.parametrize(
    "spoil",
    [
        lambda e: replace(e, newly_failing=("case-7",)),
        lambda e: replace(e, checks={"check_digit_repair": False, "extra_fields": True}),
        lambda e: replace(e, latency_ratio=1.3),
        lambda e: replace(e, approval=Approval("eng-1", approved=False, at="2026-03-01T00:00:00+00:00")),
    ],
)
def test_one_hard_reason_is_enough(spoil: Callable[[Evidence], Evidence]) -> None:
    result = judge(spoil(GOOD), CONFIG)
    assert result.verdict is Verdict.REJECT
    assert len(result.reasons) == 1


def test_memory_checks_and_approval_that_are_asked_for() -> None:
    assert judge(replace(GOOD, memory_bytes=3 << 30), replace(CONFIG, max_memory_bytes=2 << 30)).verdict is Verdict.REJECT
    asked = replace(CONFIG, needs_approval=True, required_checks=("check_digit_repair",))
    result = judge(GOOD, asked)
    assert result.verdict is Verdict.INSUFFICIENT
    assert len(result.reasons) == 2
    approved = replace(GOOD, checks={"check_digit_repair": True}, approval=Approval("eng-1", True, "2026-03-01T00:00:00+00:00"))
    assert judge(approved, asked).verdict is Verdict.PROMOTE


def test_scores_that_cannot_be_compared() -> None:
    for pairs in ([], [Pair("a", "x", 0.5, float("nan"))], [Pair("a", "x", 0.5, 1.5)], [Pair("a", "x", 0, 1)] * 2):
        with pytest.raises(GateError):
            judge(replace(GOOD, target=pairs), CONFIG)


@settings(deadline=None, max_examples=30)
@given(wins=st.integers(0, 40), losses=st.integers(0, 40), extra=st.integers(1, 30))
def test_more_losses_never_help(wins: int, losses: int, extra: int) -> None:
    """A candidate that gets more of the target wrong is never promoted where the other was not."""
    rank = {Verdict.REJECT: 0, Verdict.INSUFFICIENT: 1, Verdict.PROMOTE: 2}
    better = judge(replace(GOOD, target=suite("t", 200, wins, losses)), CONFIG).verdict
    worse = judge(replace(GOOD, target=suite("t", 200, wins, losses + extra)), CONFIG).verdict
    if worse is Verdict.PROMOTE:
        assert rank[better] == 2 or wins + losses < CONFIG.min_discordant


def test_the_forgetting_table_keeps_real_and_synthetic_apart() -> None:
    pairs = [
        Pair("1", "licence", 1.0, 0.5, Origin.REAL, {"name": (1.0, 0.0), "code": (1.0, 1.0)}),
        Pair("2", "licence", 1.0, 1.0, Origin.SYNTHETIC, {"name": (1.0, 1.0)}),
    ]
    table = forgetting_table(pairs, CONFIG)
    seen = [(row.group, row.part, str(row.origin), row.change.mean) for row in table]
    assert seen == [
        ("licence", "(whole answer)", "real", -0.5),
        ("licence", "name", "real", -1.0),
        ("licence", "code", "real", 0.0),
        ("licence", "(whole answer)", "synthetic", 0.0),
        ("licence", "name", "synthetic", 0.0),
    ]


def test_the_report_escapes_what_comes_from_outside_and_names_its_hash() -> None:
    evidence = replace(GOOD, newly_failing=("<script>alert(1)</script>",))
    report = report_json("v2", "v1", evidence, judge(evidence, CONFIG), CONFIG)
    page = report_html(report)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert report["sha256"] in page
    assert report == report_json("v2", "v1", evidence, judge(evidence, CONFIG), CONFIG)
