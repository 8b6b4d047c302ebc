"""A fitted calibration: what an engine's confidence is worth, and from where on a value may pass without a person.

``curves`` map the confidence of each kind of field (FieldKind) to the probability of being right, monotone, linear between knots.
``steps`` are what the threshold is chosen from: reviewed fields that no curve was fitted on, by falling probability.

The threshold for an accepted error rate is the lowest probability at which the fields above it are shown, with 95 % confidence,
to hold no more errors than that. It is found by testing from the surest fields downwards until a test fails (fixed sequence
testing, Angelopoulos et al., "Learn then Test", 2021; binomial tails; ``STARTS`` starting points share the risk). With too few
reviewed fields no threshold can be shown, and nothing passes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from certloop.serve.errors import CalibrationError

SCHEMA = "certloop.calibration/1"
ANY_KIND = "*"
RISK = 0.05
"""How often a threshold may turn out too low."""
STARTS = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """Knots ``(confidence, probability)``, both rising. Below the first and above the last knot the curve is flat."""

    knots: tuple[tuple[float, float], ...]
    n: int = 0

    def __post_init__(self) -> None:
        flat = [number for knot in self.knots for number in knot]
        if not flat or any(not (math.isfinite(number) and 0.0 <= number <= 1.0) for number in flat):
            raise CalibrationError("a curve needs knots of numbers between 0 and 1")
        if any(b[0] <= a[0] or b[1] < a[1] for a, b in zip(self.knots, self.knots[1:], strict=False)):
            raise CalibrationError("the knots of a curve must rise")

    def __call__(self, confidence: float) -> float:
        knots = self.knots
        right = bisect_right(knots, confidence, key=lambda knot: knot[0])
        if right == 0:
            return knots[0][1]
        if right == len(knots):
            return knots[-1][1]
        (x0, y0), (x1, y1) = knots[right - 1], knots[right]
        return y0 + (y1 - y0) * (confidence - x0) / (x1 - x0)


@dataclass(frozen=True, slots=True)
class Step:
    """``n`` held-out fields of at least this ``probability`` (and below the step before), ``right`` of them right."""

    probability: float
    n: int
    right: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """``version`` names it; ``source`` says what it was fitted on; ``n`` how many fields."""

    version: str
    curves: Mapping[str, Curve]
    steps: tuple[Step, ...] = ()
    n: int = 0
    source: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)

    def probability(self, kind: str, confidence: float) -> float:
        """How likely a value of this kind and confidence is right."""
        curve = self.curves.get(kind) or self.curves.get(ANY_KIND)
        if curve is None:
            raise CalibrationError(f"this calibration knows neither fields of kind {kind!r} nor any others")
        return curve(confidence)

    def threshold(self, accepted_error: float) -> float | None:
        """The lowest probability that may pass unseen; None when no threshold can be shown to keep the error rate."""
        return _threshold(self.steps, accepted_error)

    def accepts(self, kind: str, confidence: float, accepted_error: float) -> bool:
        limit = self.threshold(accepted_error)
        return limit is not None and self.probability(kind, confidence) >= limit

    def to_json(self) -> dict[str, Any]:
        curves = {kind: {"n": curve.n, "knots": [list(knot) for knot in curve.knots]} for kind, curve in self.curves.items()}
        return {
            "schema": SCHEMA,
            "version": self.version,
            "source": self.source,
            "n": self.n,
            "curves": curves,
            "steps": [[step.probability, step.n, step.right] for step in self.steps],
            "report": dict(self.report),
        }


def from_json(data: Mapping[str, Any]) -> Calibration:
    """Read and check. Raises CalibrationError."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise CalibrationError(f"unknown calibration schema; this release reads {SCHEMA}")
    try:
        curves = {
            str(kind): Curve(tuple((float(x), float(y)) for x, y in curve["knots"]), int(curve["n"]))
            for kind, curve in data["curves"].items()
        }
        steps = tuple(Step(float(p), int(n), int(right)) for p, n, right in data["steps"])
        return Calibration(
            str(data["version"]), curves, steps, int(data["n"]), str(data.get("source", "")), dict(data.get("report", {}))
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CalibrationError(f"a calibration that is not well formed ({type(error).__name__})") from None


@lru_cache(maxsize=256)
def _threshold(steps: tuple[Step, ...], accepted_error: float) -> float | None:
    if not 0.0 < accepted_error < 1.0:
        raise CalibrationError("an accepted error rate lies between 0 and 1")
    counts: list[tuple[int, int]] = []
    n = wrong = 0
    for step in steps:
        n, wrong = n + step.n, wrong + step.n - step.right
        counts.append((n, wrong))
    risk = RISK / STARTS
    enough = math.log(risk) / math.log1p(-accepted_error)  # so many fields without an error would show it
    first = next((i for i, (seen, _) in enumerate(counts) if seen >= enough), None)
    if first is None:
        return None
    # Which steps are tested does not depend on which fields were right: that keeps the tests honest.
    starts = {first + round(k * (len(steps) - 1 - first) / STARTS) for k in range(STARTS)}
    lowest = None
    for start in sorted(starts):
        for i in range(start, len(steps)):
            if binomial_tail(counts[i][1], counts[i][0], accepted_error) > risk:
                break
            lowest = max(lowest, i) if lowest is not None else i
    return None if lowest is None else steps[lowest].probability


def binomial_tail(k: int, n: int, p: float) -> float:
    """P(X <= k) of a binomial X: how likely so few errors are if the error rate were ``p``."""
    if k >= n:
        return 1.0
    log_p, log_q = math.log(p), math.log1p(-p)
    terms = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q for i in range(k + 1)]
    top = max(terms)
    return min(1.0, math.exp(top) * math.fsum(math.exp(term - top) for term in terms))


def steps_of(scored: Sequence[tuple[float, bool]], most: int = 100) -> tuple[Step, ...]:
    """Held-out fields as steps of about equal size, the surest first; equal probabilities stay together."""
    ordered = sorted(scored, key=lambda item: -item[0])
    size = max(1, -(-len(ordered) // most))
    steps: list[Step] = []
    start = 0
    while start < len(ordered):
        end = min(start + size, len(ordered))
        while end < len(ordered) and ordered[end][0] == ordered[end - 1][0]:
            end += 1
        part = ordered[start:end]
        steps.append(Step(part[-1][0], len(part), sum(right for _, right in part)))
        start = end
    return tuple(steps)
