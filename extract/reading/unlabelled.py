"""Values that stand without a label of their own: the date under the seal, sentence forms, numbers of a fixed shape."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from certloop.extract.reading.drafts import DATE, Draft, make_draft
from certloop.extract.reading.glyphs import Glyph, Row
from certloop.templates import DocumentType, FieldSpec


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


def loose_date(rows: Sequence[Row], owned: Collection[Glyph], spec: FieldSpec, *, below: float) -> Draft | None:
    """The lowest free-standing date below height ``below``, put together from its pieces (2021 | 年6 | 月 | 18日).

    ``owned`` are the glyphs of values that have a label.
    """
    best: Draft | None = None
    for line in free_lines(rows, owned, below=below):
        match = DATE.search("".join(g.key for g in line))
        if not match:
            continue
        glyphs = line[match.start() : match.end()]
        if match.group().isdigit() and len({g.line for g in glyphs}) > 1:
            continue  # 2022 | 08 | 24: the printed 年 月 日 between them were not seen
        if best is None or glyphs[0].y > best.glyphs[0].y:
            best = make_draft(glyphs, spec, label=None, source="loose")
    return best


def free_lines(rows: Sequence[Row], owned: Collection[Glyph], *, below: float) -> list[list[Glyph]]:
    """Glyphs that belong to no value, below a height, as printed lines from left to right (rows of one height joined, cut at wide
    white space)."""
    taken = {id(g) for g in owned}
    lines: list[list[Glyph]] = []
    for row in rows:
        for glyph in row.glyphs:
            if id(glyph) in taken or glyph.y <= below:
                continue
            near = next((line for line in lines if abs(line[0].y - glyph.y) < 0.8 * min(line[0].em, glyph.em)), None)
            if near is None:
                lines.append([glyph])
            else:
                near.append(glyph)
    pieces = []
    for line in lines:
        line.sort(key=lambda g: g.x)
        start = 0
        for at in range(1, len(line) + 1):
            if at == len(line) or line[at].left - line[at - 1].right > 7 * line[at].em:
                pieces.append(line[start:at])
                start = at
    return pieces


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
