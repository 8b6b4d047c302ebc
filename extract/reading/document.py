"""Layout reading of one document: OCR lines in, one draft per field out. Pure geometry and text, no pixels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from certloop.extract.classify import Classification
from certloop.extract.guidance import Hint
from certloop.extract.reading.drafts import DATE, Draft, draft_of, make_draft
from certloop.extract.reading.glyphs import Glyph, Row
from certloop.extract.reading.labels import STOP, Label, find_labels
from certloop.extract.reading.unlabelled import copy_mark, loose_date, pattern_drafts, sentence_drafts
from certloop.extract.reading.values import Cell, assign
from certloop.templates import DocumentType, FieldKind, FieldSpec

_OFFICE = re.compile(r"(局|厅|委员会|委|政府|中心|支行|分行|银行|部|所|处|办公室|大队|办事处|管委会|审批)$")


@dataclass(frozen=True, slots=True)
class LayoutReading:
    """Drafts by field id, and the cells and labels they came from (cells without a draft are blank or not yet read);
    ``elsewhere`` are the glyphs that stand beside labels of no field (企业标识, 执照有效期)."""

    drafts: Mapping[str, Draft]
    cells: Mapping[str, Cell]
    labels: tuple[Label, ...]
    rows: tuple[Row, ...]
    elsewhere: tuple[Glyph, ...] = ()

    @property
    def text(self) -> str:
        """All text of the document without white space, row by row."""
        return "".join(row.text for row in self.rows)


def read_layout(rows: Sequence[Row], doc_type: DocumentType, found: Classification, hints: Sequence[Hint] = ()) -> LayoutReading:
    """Read every field of ``doc_type`` from upright rows."""
    aliases = [(h.field, alias) for h in hints for alias in h.anchor_aliases]
    regions = {h.field: h.region for h in hints if h.region is not None}
    labels = list(found.labels)
    if aliases or regions:
        labels = find_labels(
            rows, doc_type, aliases, lambda c: c.field not in regions or _inside(c.left, c.y, rows, regions[c.field])
        )
    every = assign(rows, labels, doc_type.fields)
    cells = {cell.label.field: cell for cell in every if cell.label.field != STOP}
    drafts: dict[str, Draft] = {}
    for field_id, cell in cells.items():
        draft = draft_of(cell, doc_type.fields[field_id])
        if draft and _plausible(draft, doc_type):
            drafts[field_id] = draft
        else:
            for span in cell.spans:
                span.owner = None
    _split_ranges(cells, doc_type, drafts)
    missing = [f for f, spec in doc_type.fields.items() if f not in drafts or _too_short(drafts[f], spec)]
    for draft in (*sentence_drafts(rows, doc_type, missing), *pattern_drafts(rows, doc_type, missing)):
        if draft.field not in drafts or len(draft.text) > len(drafts[draft.field].text):
            drafts[draft.field] = draft
    owned = [g for cell in every if cell.label.field == STOP for span in cell.spans for g in span.glyphs]
    _loose(rows, labels, owned, doc_type, found, drafts)
    for draft in _hinted(rows, doc_type, hints, drafts):
        drafts[draft.field] = draft
    return LayoutReading(drafts, cells, tuple(labels), tuple(rows), tuple(owned))


def _split_ranges(cells: Mapping[str, Cell], doc_type: DocumentType, drafts: dict[str, Draft]) -> None:
    """证件有效期 2025年…至2029年… holds two fields: the template says which one takes the start and which the end."""
    for spec in doc_type.fields.values():
        source = spec.range_of and cells.get(spec.range_of)
        if not source or (spec.id in drafts and spec.range_of != spec.id):
            continue
        glyphs = [g for span in source.spans for g in span.glyphs]
        dates = list(DATE.finditer("".join(g.key for g in glyphs)))
        if len(dates) == 2:
            at = dates[0 if spec.range_part == "start" else 1]
            draft = make_draft(glyphs[at.start() : at.end()], spec, label=source.label, source="label")
            if draft:
                drafts[spec.id] = draft


def _too_short(draft: Draft, spec: FieldSpec) -> bool:
    """An ID number cut by the end of the line; a name of one or two characters where a sentence may hold the whole."""
    if spec.kind is FieldKind.ID_NUMBER:
        return len(draft.text) not in (15, 18)
    return bool(spec.sentences) and spec.kind is FieldKind.TEXT and len(draft.text) < 2


def _plausible(draft: Draft, doc_type: DocumentType) -> bool:
    """Whether a value that was taken by position can be one of its field."""
    spec = doc_type.fields[draft.field]
    keys = "".join(g.key for g in draft.glyphs)
    if draft.field == "authority":
        return is_office(keys) or (draft.source == "label" and bool(_OFFICE.search(keys)) and len(keys) >= 3)
    if spec.kind is FieldKind.TEXT and not re.search(r"[0-9A-Za-z一-鿿]|^[*\-—/]{2,}$", keys):
        return False
    return not (
        spec.kind is FieldKind.MONEY
        and not re.search(r"[0-9零壹贰叁肆伍陆柒捌玖拾佰仟万亿元圆一二三四五六七八九十百千无*×Xx]", keys)
    )


def is_office(text: str) -> bool:
    """Whether a text ends like the name of a public office or a bank's branch."""
    return bool(_OFFICE.search(text)) and len(text) >= 5


def _loose(
    rows: Sequence[Row],
    labels: Sequence[Label],
    elsewhere: Sequence[Glyph],
    doc_type: DocumentType,
    found: Classification,
    drafts: dict[str, Draft],
) -> None:
    """The issue date without a label and the copy mark."""
    named = [c for c in labels if c.field != STOP]
    lowest = max((c.y for c in named), default=0.0)
    top = min((c.y for c in named), default=0.0)
    for spec in doc_type.fields.values():
        if spec.id in drafts:
            continue
        if spec.id == "copy":
            title_y = found.title.y if found.title else top
            draft = copy_mark(rows, spec, above=max(top, title_y + 4 * (found.title.em if found.title else 0.0)))
        elif spec.unlabelled and spec.kind is FieldKind.DATE:
            owned = [*elsewhere, *(g for d in drafts.values() for g in d.glyphs), *_torn_terms(rows, labels, doc_type, drafts)]
            draft = loose_date(rows, owned, spec, below=top + 0.4 * (lowest - top))
        else:
            continue
        if draft:
            drafts[spec.id] = draft


def _inside(x: float, y: float, rows: Sequence[Row], region: tuple[float, float, float, float]) -> bool:
    right = max(g.right for row in rows for g in row.glyphs)
    bottom = max(g.y for row in rows for g in row.glyphs)
    return region[0] * right <= x <= region[2] * right and region[1] * bottom <= y <= region[3] * bottom


def _torn_terms(rows: Sequence[Row], labels: Sequence[Label], doc_type: DocumentType, drafts: Mapping[str, Draft]) -> list[Glyph]:
    """What stands on the line of a date's or term's label that was not (fully) read belongs to it, not to the issue date."""
    glyphs: list[Glyph] = []
    for label in labels:
        spec = doc_type.fields.get(label.field)
        if spec is None or spec.kind not in (FieldKind.DATE, FieldKind.DATE_RANGE) or spec.unlabelled:
            continue
        draft = drafts.get(label.field)
        if draft is None or (spec.kind is FieldKind.DATE_RANGE and len(DATE.findall(draft.text)) < 2):
            glyphs += [g for row in rows for g in row.glyphs if abs(g.y - label.y) < 0.7 * label.em and g.left > label.right]
    return glyphs


def _hinted(rows: Sequence[Row], doc_type: DocumentType, hints: Sequence[Hint], drafts: Mapping[str, Draft]) -> list[Draft]:
    """Values that guidance describes by pattern: inside the draft when there is one, else anywhere in the region."""
    found = []
    for hint in hints:
        if hint.value_regex is None or hint.field not in doc_type.fields:
            continue
        spec = doc_type.fields[hint.field]
        current = drafts.get(hint.field)
        for glyphs in [current.glyphs] if current else [row.glyphs for row in rows]:
            match = hint.value_regex.search("".join(g.key for g in glyphs))
            if not match or not match.group():
                continue
            kept = glyphs[match.start() : match.end()]
            if hint.region is None or _inside(kept[0].x, kept[0].y, rows, hint.region):
                draft = make_draft(kept, spec, label=current.label if current else None, source="hint")
                if draft:
                    found.append(draft)
                    break
    return found
