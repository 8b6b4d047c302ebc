"""How far a rate and a confidence can be trusted: Wilson's interval, the reliability table and the expected calibration error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class ConfidenceSample:
    """One answered and scored field: what a calibration is fitted on."""

    doc_type: str
    field: str
    confidence: float
    correct: bool


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Answers whose confidence lies in [low, high), the last bin with its upper end. The means are None when it is empty."""

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None


def wilson_interval(ok: int, n: int, z: float = Z_95) -> tuple[float, float] | None:
    """Return Wilson's score interval of a proportion (95 % by default), or None when nothing was counted.

    Source: E. B. Wilson, JASA 22 (1927).
    """
    if n == 0:
        return None
    p, zz = ok / n, z * z
    centre = p + zz / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + zz / (4 * n * n))
    scale = 1 + zz / n
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def reliability_table(samples: Sequence[ConfidenceSample], bins: int = 10) -> tuple[ReliabilityBin, ...]:
    """Return ``bins`` equally wide bins of confidence with what was claimed and what was right."""
    members: list[list[ConfidenceSample]] = [[] for _ in range(bins)]
    for sample in samples:
        members[min(int(sample.confidence * bins), bins - 1)].append(sample)
    table = []
    for i, inside in enumerate(members):
        n = len(inside)
        claimed = math.fsum(s.confidence for s in inside) / n if n else None
        right = sum(s.correct for s in inside) / n if n else None
        table.append(ReliabilityBin(i / bins, (i + 1) / bins, n, claimed, right))
    return tuple(table)


def expected_calibration_error(table: Sequence[ReliabilityBin]) -> float | None:
    """Return sum of n_b / N * |accuracy_b - confidence_b|, or None when nothing was answered.

    Source: Naeini et al., AAAI 2015; Guo et al., ICML 2017.
    """
    total = sum(b.n for b in table)
    if total == 0:
        return None
    return math.fsum(
        b.n / total * abs(b.accuracy - b.confidence) for b in table if b.accuracy is not None and b.confidence is not None
    )
