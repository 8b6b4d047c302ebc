"""Answers that repair the print: a number made valid although the printed one is not. Such an answer earns nothing for its field,
however alike both are (METHODS §1.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from certloop.agentrl.rewards import fold
from certloop.templates import DocumentType
from certloop.validators import Severity, validate


def repair_test(types: Iterable[DocumentType]) -> Callable[[str, str, str], bool]:
    """From a label, the printed and the answered value to whether the answer passes the hard rules that the print fails.

    Of several types a label may hold every kind of number that one of them knows: what passes as any of these is no failure.
    """
    kinds: dict[str, list[str]] = {}
    for doc_type in types:
        for spec in doc_type.fields.values():
            kinds.setdefault(fold(spec.label), []).extend(spec.validator_kinds)

    def fails(key: str, value: str) -> bool:
        verdicts = [validate(kind, value) for kind in dict.fromkeys(kinds.get(key, ()))]
        return bool(verdicts) and all(any(v.failed and v.severity is Severity.HARD for v in found) for found in verdicts)

    return lambda key, printed, answered: fails(key, printed) and not fails(key, answered)
