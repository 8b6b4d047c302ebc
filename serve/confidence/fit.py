"""Fits a calibration: isotonic regression per kind of field, drawn towards all kinds where samples are few, and threshold steps.

Half of the documents give the curves, the other half the steps: a threshold tested on what the curves were fitted on would
promise too much. Source of the regression: pool adjacent violators (Ayer et al. 1955; Zadrozny and Elkan, KDD 2002). Fields of
one document err together, so the tests on single fields are a little too sure; ``benchmarks/confidence.py`` measures what is
left of the promise.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certloop.extract.evaluation.calibration import (
    ConfidenceSample,
    expected_calibration_error,
    reliability_table,
    wilson_interval,
)
from certloop.serve.confidence.calibration import ANY_KIND, Calibration, Curve, steps_of
from certloop.serve.errors import CalibrationError

MIN_FIELDS, MIN_DOCUMENTS = 200, 20
BIN, MAX_BINS = 25, 20
STRENGTH, KIND_STRENGTH = 10.0, 5.0
"""How many imagined samples weigh in each bin: of what was in force before in the curve of all kinds, of that in a kind's."""
RATES = (0.005, 0.01, 0.02, 0.05)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """A field that was read and then looked at by a person. ``group`` names its certificate."""

    kind: str
    confidence: float
    right: bool
    group: str


def fit(
    samples: Sequence[Sample], *, version: str, source: str, parent: Calibration | None = None, seed: str = "certloop"
) -> Calibration:
    """Fit curves and steps. ``parent`` is what the curve over all kinds is drawn towards. Raises CalibrationError when too little
    was reviewed. The same samples in any order give the same calibration."""
    documents = {sample.group for sample in samples}
    if len(samples) < MIN_FIELDS or len(documents) < MIN_DOCUMENTS:
        raise CalibrationError(
            f"{len(samples)} reviewed fields of {len(documents)} certificates are too few to fit on; "
            f"{MIN_FIELDS} fields of {MIN_DOCUMENTS} certificates are needed"
        )
    ordered = sorted(samples, key=lambda s: (s.group, s.kind, s.confidence, s.right))
    first = [sample for sample in ordered if _in_first_half(seed, sample.group)]
    second = [sample for sample in ordered if not _in_first_half(seed, sample.group)]
    curves = fit_curves(first, parent)
    draft = Calibration(version, curves)
    steps = steps_of([(draft.probability(s.kind, s.confidence), s.right) for s in second])
    fitted = Calibration(version, curves, steps, len(samples), source)
    return Calibration(version, curves, steps, len(samples), source, report_of(fitted, second, len(documents)))


def fit_curves(samples: Sequence[Sample], parent: Calibration | None = None) -> dict[str, Curve]:
    """One curve over all kinds (``*``) and one a kind, on the same bins: where a kind has no samples, it follows all kinds."""
    mean = float(np.mean([s.right for s in samples])) if samples else 0.5
    above: Callable[[float], float] = (lambda x: parent.probability(ANY_KIND, x)) if parent is not None else (lambda _: mean)
    bins = bins_of([s.confidence for s in samples])
    pooled = fit_curve(samples, bins, above, STRENGTH)
    kinds = sorted({sample.kind for sample in samples})
    return {ANY_KIND: pooled} | {
        kind: fit_curve([s for s in samples if s.kind == kind], bins, pooled, KIND_STRENGTH) for kind in kinds
    }


@dataclass(frozen=True, slots=True)
class Bins:
    """``starts`` are the lowest confidences of each bin but the first, ``centres`` the mean confidence in each."""

    starts: tuple[float, ...]
    centres: tuple[float, ...]

    def place(self, confidence: float) -> int:
        return bisect_right(self.starts, confidence)


def bins_of(confidences: Sequence[float]) -> Bins:
    """Bins of about equal size; equal confidences stay together."""
    ordered = sorted(confidences)
    n_bins = int(np.clip(len(ordered) // BIN, 1, MAX_BINS))
    cuts = sorted({ordered[round(i * len(ordered) / n_bins)] for i in range(1, n_bins)} - set(ordered[:1]))
    groups: list[list[float]] = [[] for _ in range(len(cuts) + 1)]
    for confidence in ordered:
        groups[bisect_right(cuts, confidence)].append(confidence)
    return Bins(tuple(cuts), tuple(float(np.mean(group)) if group else 0.5 for group in groups))


def fit_curve(samples: Sequence[Sample], bins: Bins, above: Callable[[float], float], strength: float) -> Curve:
    """The share of right ones in each bin, drawn towards ``above`` by ``strength`` imagined samples, made monotone."""
    right, n = np.zeros(len(bins.centres)), np.zeros(len(bins.centres))
    for sample in samples:
        place = bins.place(sample.confidence)
        n[place] += 1
        right[place] += sample.right
    prior = np.array([above(centre) for centre in bins.centres])
    fitted = np.clip(isotonic((right + strength * prior) / (n + strength), n + strength), 0.0, 1.0)
    return Curve(tuple(zip(bins.centres, map(float, fitted), strict=True)), len(samples))


def isotonic(y: Floats, weight: Floats) -> Floats:
    """The weighted least squares fit of ``y`` that never falls (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, mass in zip(y, weight, strict=True):
        mean, total, length = float(value), float(mass), 1
        while blocks and blocks[-1][0] >= mean:
            before, mass_before, more = blocks.pop()
            mean = (mean * total + before * mass_before) / (total + mass_before)
            total, length = total + mass_before, length + more
        blocks.append((mean, total, length))
    return np.concatenate([np.full(length, mean) for mean, _, length in blocks]) if blocks else np.zeros(0)


def report_of(calibration: Calibration, held_out: Sequence[Sample], documents: int) -> dict[str, Any]:
    """What the calibration does on fields that its curves were not fitted on: calibration error before and after, and what passes
    at several error rates."""
    return {
        "documents": documents,
        "held_out_fields": len(held_out),
        "held_out_right": sum(s.right for s in held_out),
        "ece_before": _rounded(ece([(s.confidence, s.right) for s in held_out])),
        "ece_after": _rounded(ece([(calibration.probability(s.kind, s.confidence), s.right) for s in held_out])),
        "kinds": {kind: sum(s.kind == kind for s in held_out) for kind in sorted({s.kind for s in held_out})},
        "rates": {str(rate): passing(calibration, held_out, rate) for rate in RATES},
    }


def passing(calibration: Calibration, samples: Sequence[Sample], accepted_error: float) -> Mapping[str, Any]:
    """What passes at an accepted error rate, and how much of it is wrong."""
    threshold = calibration.threshold(accepted_error)
    passed = [] if threshold is None else [s for s in samples if calibration.probability(s.kind, s.confidence) >= threshold]
    wrong = sum(not s.right for s in passed)
    return {
        "threshold": _rounded(threshold),
        "fields": len(samples),
        "passed": len(passed),
        "wrong": wrong,
        "error": _rounded(wrong / len(passed)) if passed else None,
        "error_wilson_95": [_rounded(x) for x in wilson_interval(wrong, len(passed)) or ()] or None,
    }


def ece(scored: Sequence[tuple[float, bool]]) -> float | None:
    """Expected calibration error over ten equal bins."""
    return expected_calibration_error(reliability_table([ConfidenceSample("", "", p, right) for p, right in scored]))


def _in_first_half(seed: str, group: str) -> bool:
    return hashlib.sha256(f"{seed}\x1fhalf\x1f{group}".encode()).digest()[0] < 128


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
