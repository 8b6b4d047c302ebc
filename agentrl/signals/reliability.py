"""How far an auditor can be believed: counted on items whose right answer is known, or that a second auditor saw too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from certloop.agentrl.signals.errors import SignalError

PRIOR_AGREED, PRIOR_CHECKED = 9.0, 10.0
"""A new auditor starts at 0.9, as if 9 of 10 checked items had agreed (Beta(9, 1))."""


@dataclass(frozen=True, slots=True)
class AuditorRecord:
    """How many of an auditor's decisions were checked, and how many of those agreed."""

    agreed: int = 0
    checked: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.agreed <= self.checked:
            raise SignalError("an auditor's record needs 0 <= agreed <= checked")

    @property
    def reliability(self) -> float:
        """The posterior mean of the auditor being right, in (0, 1)."""
        return (self.agreed + PRIOR_AGREED) / (self.checked + PRIOR_CHECKED)


def records(checks: Iterable[tuple[str, bool]]) -> dict[str, AuditorRecord]:
    """Count checks given as (auditor, whether he agreed with the known answer)."""
    out: dict[str, AuditorRecord] = {}
    for auditor, agreed in checks:
        old = out.get(auditor, AuditorRecord())
        out[auditor] = AuditorRecord(old.agreed + agreed, old.checked + 1)
    return out


def reliability_of(known: Mapping[str, AuditorRecord], auditor: str) -> float:
    """Return an auditor's reliability; of one who was never checked, the prior's."""
    return known.get(auditor, AuditorRecord()).reliability
