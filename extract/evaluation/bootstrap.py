"""Intervals by bootstrap over documents: fields of one page succeed and fail together, so pages are drawn, not fields.

Percentile intervals (Efron, 1979). Two readings of the same documents are compared document by document (paired), so that
easy and hard pages cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from certloop.extract.evaluation.errors import EvaluationError

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over ``n`` documents with its 95 % interval; all None without a document."""

    mean: float | None
    low: float | None
    high: float | None
    n: int

    def __str__(self) -> str:
        return "-" if self.mean is None else f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_json(self) -> dict[str, float | int | None]:
        def short(value: float | None) -> float | None:
            return None if value is None else round(value, 6)

        return {"mean": short(self.mean), "low": short(self.low), "high": short(self.high), "n": self.n}


def mean_interval(values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean of one number a document."""
    return ratio_interval(values, [1.0] * len(values), seed=seed, resamples=resamples)


def ratio_interval(parts: Sequence[float], wholes: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """``sum(parts) / sum(wholes)`` over documents, as right fields of printed fields. Raises EvaluationError for other
    lengths."""
    if len(parts) != len(wholes):
        raise EvaluationError("an interval needs as many parts as wholes")
    top, bottom = np.asarray(parts, np.float64), np.asarray(wholes, np.float64)
    if not len(top) or bottom.sum() <= 0:
        return Interval(None, None, None, 0)
    rng = np.random.default_rng(seed)
    ratios = []
    for start in range(0, resamples, 200):  # bounded memory, the same numbers
        drawn = rng.integers(0, len(top), (min(200, resamples - start), len(top)))
        below = bottom[drawn].sum(axis=1)
        ratios.append(top[drawn].sum(axis=1)[below > 0] / below[below > 0])
    low, high = np.quantile(np.concatenate(ratios), [0.025, 0.975])
    return Interval(float(top.sum() / bottom.sum()), float(low), float(high), len(top))


def paired_interval(after: Sequence[float], before: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean difference on the same documents, in the same order. Raises EvaluationError when they are not as many."""
    if len(after) != len(before):
        raise EvaluationError(f"{len(after)} documents cannot be compared with {len(before)}; score the same labels")
    return mean_interval([a - b for a, b in zip(after, before, strict=True)], seed=seed, resamples=resamples)
