"""The tests behind decisions about releases. Numbers from METHODS §1.6, §8 or by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from certloop.agentrl.release import GateError
from certloop.agentrl.release.statistics import (
    bootstrap_means,
    divergence_p,
    holm,
    jensen_shannon,
    rising_p,
    sequential_verdict,
    sign_test_p,
    two_proportions,
)


@pytest.mark.parametrize(
    ("new", "old", "z", "p"), [((160, 200), (180, 200), -2.8006, 0.00255), ((176, 200), (180, 200), -0.639, 0.261)]
)
def test_two_proportions_of_the_methods(new: tuple[int, int], old: tuple[int, int], z: float, p: float) -> None:
    found = two_proportions(*new, *old)
    assert found == (pytest.approx(z, abs=5e-4), pytest.approx(p, abs=5e-4))


def test_two_proportions_without_a_difference_to_see() -> None:
    assert two_proportions(0, 0, 5, 10) == (0.0, 0.5)
    assert two_proportions(10, 10, 20, 20) == (0.0, 0.5)
    with pytest.raises(GateError):
        two_proportions(11, 10, 1, 10)


def test_holm_stops_at_the_first_that_is_not_small_enough() -> None:
    # 0.01 <= 0.05/4, 0.015 <= 0.05/3, 0.03 > 0.05/2: the last two stay, although 0.03 and 0.04 are below 0.05.
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.015}, 0.05) == ("a", "d")
    assert holm({}, 0.05) == ()


def test_jensen_shannon_in_bits() -> None:
    assert jensen_shannon({"a": 3}, {"b": 9}) == pytest.approx(1.0)
    assert jensen_shannon({"a": 3, "b": 1}, {"a": 6, "b": 2}) == pytest.approx(0.0)
    assert jensen_shannon({}, {"a": 1}) == 0.0
    # Half of KL((1,0)||(.75,.25)) + half of KL((.5,.5)||(.75,.25)), logarithms to base 2.
    by_hand = 0.5 * math.log2(4 / 3) + 0.5 * (0.5 * math.log2(0.5 / 0.75) + 0.5 * math.log2(0.5 / 0.25))
    assert jensen_shannon({"a": 4}, {"a": 2, "b": 2}) == pytest.approx(by_hand)


def test_small_samples_of_one_histogram_raise_no_alarm() -> None:
    generator = np.random.default_rng(5)
    alarms = 0
    for seed in range(40):
        left, right = generator.multinomial(30, [0.6, 0.3, 0.1], size=2)
        names = ("ocr>emit", "ocr>zoom>emit", "other")
        _, p = divergence_p(dict(zip(names, left, strict=True)), dict(zip(names, right, strict=True)), seed=seed)
        alarms += p < 0.01
    assert alarms <= 2
    assert divergence_p({"a": 200}, {"a": 100, "b": 100})[1] < 0.01


def test_a_rising_series() -> None:
    assert rising_p([1, 2, 3, 4, 5, 6]) == pytest.approx(1 / math.factorial(6))
    assert rising_p([6, 5, 4, 3, 2, 1]) > 0.9
    assert rising_p([1, 2, 3]) == 1.0
    assert rising_p([1, 1, 1, 1]) == 1.0


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(5, 0, 0.03125), (6, 0, 0.015625), (8, 4, 0.194), (12, 1, 0.0017), (0, 0, 1.0)]
)
def test_sign_test_of_the_methods(wins: int, losses: int, p: float) -> None:
    assert sign_test_p(wins, losses) == pytest.approx(p, abs=5e-4)


def test_the_sequential_test_keeps_its_error_rates() -> None:
    """log(0.8/0.05) = 2.77 and log(0.65/0.5) = 0.262: eleven pairs in a row decide."""
    assert sequential_verdict(10, 0) == "go_on"
    assert sequential_verdict(11, 0) == "better"
    assert sequential_verdict(0, 11) == "worse"
    generator = np.random.default_rng(3)
    ends = {"better": 0, "worse": 0, "same": 0}
    for _ in range(400):  # equally good releases
        better = worse = 0
        while (end := sequential_verdict(better, worse)) == "go_on":
            better, worse = (better + 1, worse) if generator.random() < 0.5 else (better, worse + 1)
        ends[end] += 1
    assert ends["better"] < 40
    assert ends["worse"] < 40
    with pytest.raises(GateError):
        sequential_verdict(1, 1, effect=0.5)


def test_bootstrap_means_are_around_the_mean_and_repeat() -> None:
    values = np.array([0.0] * 90 + [1.0] * 10)
    means = bootstrap_means([values], draws=4000, seed=1)
    assert means.mean() == pytest.approx(0.1, abs=0.003)
    assert means.std() == pytest.approx(math.sqrt(0.09 / 100), rel=0.1)
    assert np.array_equal(means, bootstrap_means([values], draws=4000, seed=1))
    with pytest.raises(GateError):
        bootstrap_means([np.array([])], draws=10, seed=0)
