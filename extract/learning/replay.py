"""Does a rule read what it was learned for, and does everything else that was read stay read?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from certloop.agentrl.memory import ReplayFailedError
from certloop.agentrl.rewards import text_similarity
from certloop.extract.evaluation.normalise import same_value
from certloop.extract.guidance import Hint
from certloop.extract.learning.case import Case, read_case
from certloop.extract.learning.propose import Rule, propose
from certloop.extract.learning.rules import hint_of
from certloop.templates import DocumentType

NEAR, GAIN = 0.8, 0.3


@dataclass(frozen=True, slots=True)
class Replay:
    """``fixed``: the corrected field reads right now. ``gained`` and ``broken`` are (case, field) that turned right or wrong."""

    fixed: bool
    gained: tuple[tuple[str, str], ...] = ()
    broken: tuple[tuple[str, str], ...] = ()

    @property
    def accepted(self) -> bool:
        return self.fixed and not self.broken

    def require(self) -> None:
        """Raises ReplayFailedError."""
        if not self.fixed:
            raise ReplayFailedError("the rule does not read the corrected field")
        if self.broken:
            raise ReplayFailedError(f"the rule breaks {len(self.broken)} fields of documents that were read right")


def replay(
    rule: Rule, case: Case, field: str, others: Sequence[Case], doc_type: DocumentType, hints: Sequence[Hint] = ()
) -> Replay:
    """Read the case and the regression cases ``others`` of the same type with and without the rule, beside the rules in use."""
    new = (*hints, hint_of(rule[0], doc_type.id, rule[1]))
    gained: list[tuple[str, str]] = []
    broken: list[tuple[str, str]] = []
    fixed = False
    for one in (case, *(other for other in others if other.case_id != case.case_id)):
        before, after = _right(one, doc_type, hints), _right(one, doc_type, new)
        gained += [(one.case_id, name) for name in sorted(after - before)]
        broken += [(one.case_id, name) for name in sorted(before - after)]
        if one is case:
            fixed = field in after or _nearer(case, field, doc_type, hints, new)
            if not fixed:
                break
    return Replay(fixed, tuple(gained), tuple(broken))


def learn(
    case: Case, fields: Sequence[str], others: Sequence[Case], doc_type: DocumentType, hints: Sequence[Hint] = ()
) -> tuple[tuple[str, Rule], ...]:
    """Rules for the corrected fields, ``(field, rule)`` each: the first proposed one that a replay accepts.

    A value may be read right only once its neighbour's label is known, so fields without a rule are tried again after the others.
    """
    found: list[tuple[str, Rule]] = []
    open_fields = list(dict.fromkeys(fields))
    while open_fields:
        before = len(found)
        for field in list(open_fields):
            known = [*hints, *(hint_of(kind, doc_type.id, body) for _, (kind, body) in found)]
            if field in _right(case, doc_type, known):
                open_fields.remove(field)
                continue
            for rule in propose(case, field, doc_type):
                if replay(rule, case, field, others, doc_type, known).accepted:
                    found.append((field, rule))
                    open_fields.remove(field)
                    break
        if len(found) == before:
            break
    return tuple(found)


def _nearer(case: Case, field: str, doc_type: DocumentType, old: Sequence[Hint], new: Sequence[Hint]) -> bool:
    """The right place was found although a character there is misread: far nearer to the truth than before."""
    truth = case.truth[field] or ""
    before, after = (text_similarity(truth, read_case(case, doc_type, hints)[0].get(field, "")) for hints in (old, new))
    return after >= NEAR and after >= before + GAIN


def _right(case: Case, doc_type: DocumentType, hints: Sequence[Hint]) -> frozenset[str]:
    """The fields whose value is as printed. A case is read once under the same hints."""
    key = (id(doc_type), tuple(hints))
    if key not in case.right:
        values, _ = read_case(case, doc_type, hints)
        fields = {
            name
            for name, truth in case.truth.items()
            if truth and name in doc_type.fields and _same(name, truth, values.get(name), doc_type)
        }
        case.right[key] = (doc_type, frozenset(fields))
    return case.right[key][1]


def _same(name: str, truth: str, got: str | None, doc_type: DocumentType) -> bool:
    spec = doc_type.fields[name]
    return same_value(spec.label, truth, got, kind=spec.kind.value)
