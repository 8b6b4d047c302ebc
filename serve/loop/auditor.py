"""A simulated auditor: says what is printed, and sometimes says it wrong."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

RESERVE = 4.0
"""Answers that auditors keep back for documents that need one; what is left over goes to any document."""


class Auditor:
    """Answers a share of the documents, as in the review queue those first that need a person; each field of an answer is wrong
    with ``error_rate``: a slip of the finger, or the value of another field."""

    def __init__(self, share: float, error_rate: float, seed: int) -> None:
        self._share, self._error_rate = share, error_rate
        self._time = 0.0
        self._rng = Random(f"auditor-{seed}")

    def answers(self, needed: bool) -> bool:
        """Whether the next document is answered: never more than the share of all so far."""
        self._time += self._share
        if self._time < (1.0 if needed else RESERVE):
            return False
        self._time -= 1.0
        return True

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
