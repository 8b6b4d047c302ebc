"""Does a teacher's answer agree with the label? Only reasoning that ends in the truth, and does not give itself away, is kept."""

from __future__ import annotations

from dataclasses import dataclass

from certloop.extract.engine.answer_parser import Answer, read_answer
from certloop.extract.evaluation.normalise import same_value
from certloop.train.teach.helpers import traces
from certloop.train.teach.pages import LabelledPage

SHORT = 30
"""Longer values need not be quoted whole in the reasoning."""


@dataclass(frozen=True, slots=True)
class Judged:
    """``reasons`` why an answer is not kept (empty: it is), as words with the label they are about; ``quoted`` the share of short
    values that the reasoning names."""

    reasoning: str
    reasons: tuple[str, ...] = ()
    quoted: float = 0.0

    @property
    def kept(self) -> bool:
        return not self.reasons


def judge(text: str, page: LabelledPage, *, min_quoted: float, max_chars: int) -> Judged:
    """Compare one answer with the page's label. Values count as equal when they are the same print (spaces, width and the
    form of a date aside): what is packed is the label's JSON, whatever the teacher's was."""
    answer = read_answer(text)
    reasons = [f"marked:{mark}" for mark in sorted(answer.marks)]
    if answer.json_text is not None:
        reasons += _differences(answer, page)
    if not answer.thought:
        reasons.append("no_reasoning")
    if len(answer.thought) > max_chars:
        reasons.append("too_long")
    if "{" in answer.thought or "}" in answer.thought:
        reasons.append("braces")
    if traces(answer.thought):
        reasons.append("gives_itself_away")
    quoted = _quoted(answer.thought, page)
    if quoted < min_quoted:
        reasons.append("proves_too_little")
    return Judged(answer.thought, tuple(dict.fromkeys(reasons)), quoted)


def _differences(answer: Answer, page: LabelledPage) -> list[str]:
    kinds = {spec.label: spec.kind.value for spec in page.doc_type.fields.values()}
    found = []
    for label, wanted in page.fields.items():
        if label not in answer.fields:
            found.append(f"missing:{label}")
        elif wanted is None:
            found += [f"invented:{label}"] if answer.fields[label] is not None else []
        elif not same_value(label, wanted, answer.fields[label], kind=kinds[label]):
            found.append(f"wrong:{label}")
    found += [f"extra:{label if label in kinds else 'unknown'}" for label in answer.fields if label not in page.fields]
    return found


def _quoted(thought: str, page: LabelledPage) -> float:
    short = [value for value in page.fields.values() if value is not None and len(value) <= SHORT]
    return sum(value in thought for value in short) / len(short) if short else 1.0
