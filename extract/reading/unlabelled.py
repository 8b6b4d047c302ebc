"""Values that stand without a label of their own: the date under the seal, sentence forms, numbers of a fixed shape."""

from __future__ import annotations

import re
from collections.abc import Sequence

from certloop.extract.reading.drafts import DATE, NUM, Draft, make_draft
from certloop.extract.reading.glyphs import Glyph, Row
from certloop.extract.reading.values import Span
from certloop.templates import DocumentType, FieldKind, FieldSpec

_DATE_PIECE = re.compile(rf"[{NUM}年月日.\-/·,:]+")


def sentence_drafts(rows: Sequence[Row], doc_type: DocumentType, missing: Sequence[str]) -> list[Draft]:
    """Fields whose template gives a sentence pattern (经审核，X 符合开户条件)."""
    glyphs = [g for row in rows for g in row.glyphs]
    text = "".join(g.key for g in glyphs)
    found = []
    for field_id in missing:
        spec = doc_type.fields[field_id]
        for rule in spec.sentences:
            match = rule.pattern.search(text)
            if match:
                start, end = match.span("value")
                draft = make_draft(glyphs[start:end], spec, label=None, source="sentence")
                if draft:
                    found.append(draft)
                    break
    return found


def pattern_drafts(rows: Sequence[Row], doc_type: DocumentType, missing: Sequence[str]) -> list[Draft]:
    """Unlabelled fields whose template says what the value looks like."""
    found = []
    for field_id in missing:
        spec = doc_type.fields[field_id]
        if not spec.unlabelled or spec.value_pattern is None:
            continue
        for row in rows:
            match = spec.value_pattern.search(row.text)
            if match:
                draft = make_draft(row.glyphs[match.start() : match.end()], spec, label=None, source="pattern")
                if draft:
                    found.append(draft)
                    break
    return found


def loose_date(spans: Sequence[Span], spec: FieldSpec, *, below: float) -> Draft | None:
    """The lowest free-standing date on the page below height ``below``, put together from its pieces (2021 | 年6 | 月 | 18日)."""
    if spec.kind is not FieldKind.DATE:
        return None
    pieces = [s for s in spans if s.owner is None and s.y > below and _DATE_PIECE.fullmatch(s.text)]
    best: Draft | None = None
    for seed in pieces:
        line = sorted((p for p in pieces if abs(p.y - seed.y) < 0.9 * max(p.em, seed.em)), key=lambda p: p.left)
        glyphs: list[Glyph] = []
        for piece in line:
            if glyphs and piece.left - glyphs[-1].right > 7 * piece.em:
                glyphs = [] if not DATE.search("".join(g.key for g in glyphs)) else glyphs
                if glyphs:
                    break
            glyphs += piece.glyphs
        keys = "".join(g.key for g in glyphs)
        match = DATE.search(keys)
        if match and match.group().isdigit() and len({g.line for g in glyphs[match.start() : match.end()]}) > 1:
            continue  # 2022 | 08 | 24: the printed 年 月 日 between them were not seen
        if match and (best is None or glyphs[0].y > best.glyphs[0].y):
            best = make_draft(glyphs[match.start() : match.end()], spec, label=None, source="loose")
    return best


def copy_mark(rows: Sequence[Row], spec: FieldSpec, *, above: float) -> Draft | None:
    """(副本) or (正本) near the title."""
    for row in rows:
        if row.y > above:
            continue
        for value in spec.values:
            match = re.search(rf"\({value[0]}{value[1]}?\)?", row.text)
            if match:
                start = match.start() + 1
                glyphs = row.glyphs[start : start + len(value)]
                if "".join(g.key for g in glyphs) == value:
                    return make_draft(glyphs, spec, label=None, source="mark")
    return None
