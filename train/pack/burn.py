"""A row's texts, and the proof that the bridge is burnt: no ground-truth message, no mode trigger, the generic prompt byte
for byte."""

from __future__ import annotations

from certloop.extract.engine.answer_parser import read_answer
from certloop.extract.engine.prompt import GUIDANCE_OPEN, answer_text, prompt_text
from certloop.train.errors import TrainDataError
from certloop.train.rows import Row
from certloop.train.teach.helpers import traces
from certloop.train.teach.pages import LabelledPage


def row_texts(page: LabelledPage, reasoning: str | None, guidance: tuple[str, ...] = ()) -> tuple[str, str | None]:
    """Prompt and completion of a page: the type's own prompt, and reasoning followed by the label's JSON (None: no
    completion)."""
    prompt = prompt_text(page.doc_type.prompt, guidance)
    return prompt, None if reasoning is None else answer_text(page.fields, reasoning)


def check_burnt(row: Row, page: LabelledPage) -> Row:
    """Return the row, or raise TrainDataError that says what of the bridge still stands (its id, never its text)."""
    generic = page.doc_type.prompt
    if row.prompt != generic and not row.prompt.startswith(f"{generic.rstrip()}\n{GUIDANCE_OPEN}\n"):
        raise TrainDataError(f"row {row.id}: the prompt is not the generic prompt of {page.doc_type.id}")
    answer = read_answer(row.completion or "")
    if traces(row.prompt) or traces(answer.thought):
        raise TrainDataError(f"row {row.id}: words of the teacher's helper prompts stand in the row")
    if row.completion is None:
        return row
    if not answer.strict or answer.fields != dict(page.fields):
        raise TrainDataError(f"row {row.id}: the completion does not end in exactly the label's JSON")
    return row
