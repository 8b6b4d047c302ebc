"""A simulated auditor: says what is printed, and sometimes says it wrong."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random


class Auditor:
    """Answers a share of the documents; each field of an answer is wrong with ``error_rate``: a slip of the finger, or the
    value of another field."""

    def __init__(self, share: float, error_rate: float, seed: int) -> None:
        self._share, self._error_rate = share, error_rate
        self._rng = Random(f"auditor-{seed}")

    def answers(self) -> bool:
        """Whether the next document is answered."""
        return self._rng.random() < self._share

    def answer(self, truth: Mapping[str, str]) -> dict[str, str]:
        """What the auditor says is printed, by label."""
        return {label: self._say(label, truth) for label in truth}

    def _say(self, label: str, truth: Mapping[str, str]) -> str:
        value = truth[label]
        if self._rng.random() >= self._error_rate:
            return value
        others = [other for name, other in truth.items() if name != label]
        if others and self._rng.random() < 0.5:
            return self._rng.choice(others)
        at = self._rng.randrange(len(value))
        return value[:at] + self._rng.choice("样本错误〇") + value[at + 1 :]
