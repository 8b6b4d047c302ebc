"""How sure a value is, in [0, 1]: the recogniser's certainty, how the value was found, and what its rules say.

The figures are a first guess by hand; ``certloop evaluate`` prints the reliability table that a fitted calibration will replace.
"""

from __future__ import annotations

from collections.abc import Sequence

from certloop.extract.reading.drafts import Draft
from certloop.templates import FieldKind, FieldSpec
from certloop.validators import Outcome, Severity, Verdict

_TRUST = {"label": 1.0, "below": 0.97, "sentence": 0.97, "pattern": 0.95, "hint": 0.95, "mark": 1.0, "loose": 0.95, "seal": 0.9}


def confidence_of(draft: Draft, verdicts: Sequence[Verdict], spec: FieldSpec) -> float:
    """A hard rule that fails caps it at 0.5; a checksum that holds lifts it to 0.97 at least; long text loses with length."""
    sure = draft.score * _TRUST.get(draft.source, 0.9)
    if draft.label is not None and not draft.label.exact:
        sure *= 0.95
    if spec.kind is FieldKind.LONG_TEXT:
        sure *= 0.995 ** max(0, len(draft.text) - 20)
    return under_rules(sure, verdicts)


def under_rules(sure: float, verdicts: Sequence[Verdict]) -> float:
    """What the rules leave of a certainty: at most 0.5 where a hard one fails, at least 0.97 where one holds on a sure value."""
    hard = [v for v in verdicts if v.severity is Severity.HARD and v.outcome is not Outcome.NOT_APPLICABLE]
    if any(v.outcome is Outcome.FAIL for v in hard):
        return min(sure, 0.5)
    if any(v.outcome is Outcome.FAIL for v in verdicts):
        return min(sure, 0.8)
    if hard and sure > 0.9:
        return max(sure, 0.97)
    return max(0.0, min(1.0, sure))
