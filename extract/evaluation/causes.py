"""Guesses why a field is wrong, from nothing but the expected and the given text: where to look first, not a proof."""

from __future__ import annotations

from enum import StrEnum

from certloop.extract.evaluation.normalise import comparable


class Cause(StrEnum):
    """``swallowed``: the value is there and more with it (a neighbour, a label); ``wrap_lost``: it stops early, as when the
    second line was not joined; ``partial``: another part of it; ``wrong``: other text; ``wrong_type``: no value, and the
    document was taken for another type."""

    INVENTED = "invented"
    WRONG = "wrong"
    SWALLOWED = "swallowed"
    WRAP_LOST = "wrap_lost"
    PARTIAL = "partial"
    MISSED = "missed"
    WRONG_TYPE = "wrong_type"


def guess_cause(expected: str | None, got: str | None, *, right_type: bool) -> Cause:
    """Return the likely cause of a field that is not right. ``expected`` None: the label says that no value can be read."""
    if expected is None:
        return Cause.INVENTED
    if got is None:
        return Cause.MISSED if right_type else Cause.WRONG_TYPE
    want, have = comparable(expected), comparable(got)
    if not want or not have:
        return Cause.WRONG
    if want in have:
        return Cause.SWALLOWED
    if want.startswith(have):
        return Cause.WRAP_LOST
    return Cause.PARTIAL if have in want else Cause.WRONG
