"""What a rule answers: never a changed value, always a verdict that a person can read in Chinese or English."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """``hard``: a checksum with a published algorithm; ``soft``: a convention that real documents break."""

    HARD = "hard"
    SOFT = "soft"


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one rule on one value (or, for cross-field rules, on the values of ``fields``).

    ``suggestion`` is what the value may have been meant to be; it is shown to a person and never written back.
    """

    rule: str
    severity: Severity
    outcome: Outcome
    message_zh: str
    message_en: str
    suggestion: str | None = None
    fields: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASS

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAIL

    def to_json(self) -> dict[str, object]:
        out: dict[str, object] = {
            "rule": self.rule,
            "severity": self.severity.value,
            "outcome": self.outcome.value,
            "message_zh": self.message_zh,
            "message_en": self.message_en,
        }
        if self.suggestion is not None:
            out["suggestion"] = self.suggestion
        if self.fields:
            out["fields"] = list(self.fields)
        return out
