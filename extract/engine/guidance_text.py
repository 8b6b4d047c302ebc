"""Hints in words: what a model is told where the layout reader is steered by data."""

from __future__ import annotations

from collections.abc import Sequence

from certloop.extract.guidance import Guidance, Hint
from certloop.templates import DocumentType

_COLUMNS, _ROWS = ("左", "中", "右"), ("上", "中", "下")


def guidance_lines(guidance: Guidance, doc_type: DocumentType, page_text: str) -> list[str]:
    """The guidance that applies to a page, one sentence a line; empty without any."""
    hints = [line for hint in guidance.for_page(doc_type.id, page_text) for line in hint_sentences(hint, doc_type)]
    return [*hints, *(note.text for note in guidance.notes_for_page(doc_type.id, page_text))]


def hint_sentences(hint: Hint, doc_type: DocumentType) -> Sequence[str]:
    """One hint as sentences about its field; a field that the type does not have gives none."""
    spec = doc_type.fields.get(hint.field)
    if spec is None:
        return []
    said = []
    if hint.anchor_aliases:
        said.append(f"{spec.label}的标签也印作{'、'.join(hint.anchor_aliases)}。")
    if hint.region is not None:
        said.append(f"{spec.label}印在页面{_where(hint.region)}。")
    if hint.value_regex is not None:
        said.append(f"{spec.label}的写法符合正则表达式{hint.value_regex.pattern}。")
    if "red_ink" in hint.tool_policy:
        said.append(f"{spec.label}可能被红章遮挡，请看清章下的字。")
    elif "zoom" in hint.tool_policy:
        said.append(f"{spec.label}字小，请仔细辨认。")
    if "qr" in hint.tool_policy:
        said.append(f"{spec.label}可与二维码核对，仍以印刷为准。")
    return said


def _where(region: tuple[float, float, float, float]) -> str:
    left, top, right, bottom = region
    column, row = (min(2, int(3 * middle)) for middle in ((left + right) / 2, (top + bottom) / 2))
    if (column, row) == (1, 1):
        return "中部"
    return (_COLUMNS[column] if column != 1 else "") + (_ROWS[row] if row != 1 else "") + ("部" if 1 in (column, row) else "方")
