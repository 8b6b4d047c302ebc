"""A rule as data: its name, its severity and what to tell a person when it holds or does not.

Messages name what is wrong but never the character or date that would make it right: they may reach the reading agent,
which must copy the print and not repair it (METHODS §1.5). Nor do they quote the value.
"""

from __future__ import annotations

from dataclasses import dataclass

from .outcome import Outcome, Severity, Verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """``holds`` and ``broken`` are (Chinese, English) message pairs."""

    name: str
    severity: Severity
    holds: tuple[str, str]
    broken: tuple[str, str]

    def judge(self, ok: bool, *, suggestion: str | None = None, fields: tuple[str, ...] = ()) -> Verdict:
        """PASS or FAIL; a suggestion is kept only on a FAIL."""
        zh, en = self.holds if ok else self.broken
        outcome = Outcome.PASS if ok else Outcome.FAIL
        return Verdict(self.name, self.severity, outcome, zh, en, None if ok else suggestion, fields)

    def skip(self, zh: str, en: str, *, fields: tuple[str, ...] = ()) -> Verdict:
        """The rule says nothing about this value, and why."""
        return Verdict(self.name, self.severity, Outcome.NOT_APPLICABLE, zh, en, None, fields)


def hard(name: str, holds: tuple[str, str], broken: tuple[str, str]) -> Rule:
    """A rule fixed by a published standard (form and checksum of a number)."""
    return Rule(name, Severity.HARD, holds, broken)


def soft(name: str, holds: tuple[str, str], broken: tuple[str, str]) -> Rule:
    """A convention that genuine documents may break."""
    return Rule(name, Severity.SOFT, holds, broken)
