"""Confidence that means something: the fit, the threshold's promise, and what is refused."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.serve.confidence.calibration import ANY_KIND, Calibration, Curve, Step, binomial_tail, from_json, steps_of
from certloop.serve.confidence.fit import Sample, bins_of, ece, fit, fit_curve, isotonic, passing
from certloop.serve.confidence.versions import builtin
from certloop.serve.errors import CalibrationError
from certloop.templates import FieldKind

rates = st.floats(0, 1)


def simulated(seed: int, n: int, true: Any, kinds: tuple[str, ...] = ("text",), per_document: int = 8) -> list[Sample]:
    """Fields whose chance of being right is ``true(kind, confidence)``; confidences lie near 1, as an engine's do."""
    rng = random.Random(seed)
    out = []
    for i in range(n):
        kind, confidence = rng.choice(kinds), 1.0 - rng.random() ** 3 * 0.6
        out.append(Sample(kind, confidence, rng.random() < true(kind, confidence), f"d{i // per_document}"))
    return out


def overconfident(_kind: str, confidence: float) -> float:
    return max(0.0, 1.0 - 2.5 * (1.0 - confidence))


def test_pooled_adjacent_violators_by_hand() -> None:
    assert isotonic(np.array([0.1, 0.5, 0.3, 0.8]), np.ones(4)) == pytest.approx([0.1, 0.4, 0.4, 0.8])
    assert isotonic(np.array([0.9, 0.1]), np.array([3.0, 1.0])) == pytest.approx([0.7, 0.7])
    assert isotonic(np.array([]), np.array([])).size == 0


@given(st.lists(st.tuples(rates, st.floats(0.1, 10)), min_size=1, max_size=40))
def test_an_isotonic_fit_never_falls_and_keeps_the_mean(points: list[tuple[float, float]]) -> None:
    y, weight = np.array([p for p, _ in points]), np.array([w for _, w in points])
    fitted = isotonic(y, weight)
    assert all(b >= a - 1e-12 for a, b in pairwise(fitted))
    assert float(fitted @ weight) == pytest.approx(float(y @ weight))


@given(st.lists(st.tuples(rates, st.booleans()), min_size=1, max_size=120), rates, rates)
def test_a_curve_rises_whatever_was_reviewed(seen: list[tuple[float, bool]], a: float, b: float) -> None:
    curve = fit_curve([Sample("text", c, right, "d") for c, right in seen], bins_of([c for c, _ in seen]), lambda _: 0.7, 5.0)
    low, high = sorted((a, b))
    assert 0.0 <= curve(low) <= curve(high) <= 1.0


def test_binomial_tails_by_hand() -> None:
    assert binomial_tail(0, 50, 0.02) == pytest.approx(0.98**50)
    assert binomial_tail(1, 10, 0.1) == pytest.approx(0.9**10 + 10 * 0.1 * 0.9**9)
    assert binomial_tail(7, 7, 0.3) == 1.0
    assert binomial_tail(900, 100_000, 0.01) == pytest.approx(0.0007, abs=0.0003)


def test_a_threshold_needs_enough_fields_to_show_it() -> None:
    """Without any error, 0.98^n must fall below the risk 0.05 / 4: n = 217."""
    enough = Calibration("c", {ANY_KIND: Curve(((0.0, 0.0), (1.0, 1.0)))}, (Step(0.9, 217, 217),))
    assert enough.threshold(0.02) == 0.9
    few = Calibration("c", enough.curves, (Step(0.9, 216, 216),))
    assert few.threshold(0.02) is None and not few.accepts("text", 1.0, 0.02)
    none = Calibration("c", enough.curves, ())
    assert none.threshold(0.5) is None


def test_a_threshold_stops_where_errors_begin() -> None:
    steps = (Step(0.99, 1000, 1000), Step(0.9, 1000, 995), Step(0.5, 1000, 700))
    made = Calibration("c", {ANY_KIND: Curve(((0.0, 0.0), (1.0, 1.0)))}, steps)
    assert made.threshold(0.01) == 0.9 and made.threshold(0.001) is None and made.threshold(0.2) == 0.5
    assert made.accepts("text", 0.95, 0.01) and not made.accepts("text", 0.85, 0.01)


@pytest.mark.parametrize(("rate", "n"), [(0.02, 4000), (0.05, 1500)])
def test_the_accepted_error_rate_holds(rate: float, n: int) -> None:
    """In 100 simulated tenants the fields above the threshold err more often than accepted in at most one of twenty."""

    def true(_kind: str, confidence: float) -> float:
        return max(0.0, 1.0 - 1.2 * (1.0 - confidence))

    population = [(s.confidence, true(s.kind, s.confidence)) for s in simulated(10_000, 3000, true)]
    broken = shown = 0
    for seed in range(100):
        made = fit(simulated(seed, n, true), version="v", source="simulation", seed=str(seed))
        limit = made.threshold(rate)
        passed = [p for confidence, p in population if limit is not None and made.probability("text", confidence) >= limit]
        if passed:
            shown += 1
            broken += 1 - sum(passed) / len(passed) > rate
    assert shown >= 80 and broken <= 0.05 * 100


def test_calibration_takes_most_of_the_error_away() -> None:
    made = fit(simulated(1, 4000, overconfident), version="v", source="simulation")
    fresh = simulated(2, 4000, overconfident)
    before = ece([(s.confidence, s.right) for s in fresh])
    after = ece([(made.probability(s.kind, s.confidence), s.right) for s in fresh])
    assert before is not None and after is not None
    assert before > 0.1 and after < 0.03


def test_each_kind_has_its_own_curve_and_a_rare_one_leans_on_all() -> None:
    def true(kind: str, confidence: float) -> float:
        return 0.99 if kind == "uscc" else 0.6

    samples = simulated(3, 4000, true, ("text", "uscc"))
    made = fit([*samples, *(Sample("money", 0.9, False, f"d{i}") for i in range(6))], version="v", source="simulation")
    assert made.probability("uscc", 0.95) > 0.93 and made.probability("text", 0.95) < 0.7
    pooled = made.probability(ANY_KIND, 0.9)
    assert pooled * 5 / 11 - 0.01 < made.probability("money", 0.9) < pooled, "at most six errors against five imagined fields"
    assert made.probability("never_seen", 0.9) == pooled


def test_a_kind_that_was_only_seen_sure_is_not_believed_when_unsure() -> None:
    samples = simulated(3, 2000, overconfident)
    sure = [Sample("money", 0.999, True, f"d{i}") for i in range(100)]
    made = fit([*samples, *sure], version="v", source="simulation")
    assert made.probability("money", 0.999) > 0.97
    assert made.probability("money", 0.5) < made.probability(ANY_KIND, 0.5) + 0.1 < 0.5


def test_the_parent_counts_while_little_is_known() -> None:
    parent = Calibration("p", {ANY_KIND: Curve(((0.0, 0.5), (1.0, 0.5)))})
    made = fit([Sample("text", 0.9, True, f"d{i // 8}") for i in range(200)], version="v", source="s", parent=parent)
    assert 0.5 < made.probability("text", 0.9) < 1.0


def test_order_does_not_matter_and_the_same_samples_give_the_same_fit() -> None:
    samples = simulated(4, 900, overconfident)
    shuffled = random.Random(5).sample(samples, len(samples))
    assert fit(samples, version="v", source="s").to_json() == fit(shuffled, version="v", source="s").to_json()


def test_too_little_is_refused() -> None:
    for samples in ([], simulated(6, 199, overconfident), simulated(6, 400, overconfident, per_document=400)):
        with pytest.raises(CalibrationError) as refused:
            fit(samples, version="v", source="s")
        assert refused.value.code == "calibration_invalid" and "200 fields of 20 certificates" in refused.value.message


def test_what_was_fitted_is_read_back() -> None:
    made = fit(simulated(7, 900, overconfident), version="v", source="s")
    assert from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "other"}, {"curves": {}, "steps": 7}, {"curves": {"text": {"n": 1, "knots": []}}},
        {"curves": {"text": {"n": 1, "knots": [[0.5, 0.9], [0.5, 1.0]]}}},
        {"curves": {"text": {"n": 1, "knots": [[0.5, 0.9], [0.6, 0.8]]}}},
        {"curves": {"text": {"n": 1, "knots": [[0.5, float("nan")]]}}}, {"steps": [[0.5]]},
    ],
)  # fmt: skip
def test_what_is_no_calibration_is_refused(change: dict[str, Any]) -> None:
    whole = fit(simulated(8, 400, overconfident), version="v", source="s").to_json()
    with pytest.raises(CalibrationError):
        from_json(whole | change)


def test_equal_probabilities_stay_in_one_step() -> None:
    assert steps_of([(0.9, True)] * 3 + [(0.8, False)], most=4) == (Step(0.9, 3, 3), Step(0.8, 1, 0))


def test_what_passes_is_counted() -> None:
    made = Calibration("c", {ANY_KIND: Curve(((0.0, 0.0), (1.0, 1.0)))}, (Step(0.9, 1000, 1000),))
    samples = [Sample("text", 0.95, True, "a"), Sample("text", 0.95, False, "b"), Sample("text", 0.2, False, "b")]
    found = passing(made, samples, 0.02)
    assert (found["passed"], found["wrong"], found["error"], found["fields"]) == (2, 1, 0.5, 3)


def test_the_builtin_calibration_knows_every_kind_and_shows_two_percent() -> None:
    made = builtin()
    assert all(0.0 < made.probability(kind.value, 0.99) <= 1.0 for kind in FieldKind)
    assert made.threshold(0.02) is not None and made.n > 1000
    assert made.report["ece_after"] < made.report["ece_before"]
