"""What to look at again: from a layout reading to tool calls, most promising first. Thinks only; tools act."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.lines import TextLine
from certloop.extract.guidance import Hint
from certloop.extract.reading.document import LayoutReading
from certloop.extract.reading.drafts import DATE, NUM, Draft
from certloop.extract.reading.glyphs import Glyph
from certloop.extract.reading.labels import STOP, Label
from certloop.extract.reading.unlabelled import free_lines
from certloop.templates import DocumentType, FieldKind, FieldSpec
from certloop.validators import Outcome, Severity, validate

SURE_LINE = 0.9
SURE_CHAR = 0.5
VERY_UNSURE = 0.85
_PIECE = re.compile(rf"(?<![0-9])(?:19|20)[0-9]{{2}}(?![0-9])年?|[{NUM}]*[年月日][{NUM}年月日]*")
_NUMBER = re.compile(r"(?<![0-9A-Z])(?:[0-9A-HJ-NPQRTUWXY]{18}|[0-9]{15})(?![0-9A-Z])")
WANTED = {"date": DATE, "number": _NUMBER}
_CODES = (FieldKind.USCC, FieldKind.REGNO15, FieldKind.ID_NUMBER)


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call. ``key`` keeps it from being done twice.

    ``reread`` the lines that hold ``glyphs``; ``zoom`` or ``red_ink`` a ``region`` ((4, 2) upright pixels) of ``em`` px
    characters; read a region as one line (``strip``) that must hold ``wanted``; ``look_again`` at the whole page.
    """

    tool: str
    field: str
    thought: str
    key: str
    region: NDArray[np.float32] = dataclasses.field(default_factory=lambda: np.zeros((4, 2), np.float32), compare=False)
    glyphs: tuple[Glyph, ...] = dataclasses.field(default=(), compare=False)
    em: float = 16.0
    inked: bool = False
    wanted: str | None = dataclasses.field(default=None, compare=False)

    def lines(self, lines: Sequence[TextLine]) -> list[int]:
        """Indices of the lines that hold the glyphs (glyphs know the index of their line)."""
        return sorted({g.line for g in self.glyphs if g.line < len(lines)})


def plan(
    doc_type: DocumentType, layout: LayoutReading, ink: Sequence[NDArray[np.float32]] = (), hints: Sequence[Hint] = ()
) -> list[Action]:
    """Tool calls for this reading: unsure lines, lines under ``ink`` ((N, 2) polygons of red seals, upright pixels), failing
    codes, labels without value, the date under the seal, lost labels."""
    actions = [*_unsure(doc_type, layout), *_inked(layout, ink), *_failing(doc_type, layout), *_empty(doc_type, layout)]
    actions += [*_under_seal(doc_type, layout), *_lost(doc_type, layout), *_told(doc_type, layout, hints)]
    return actions


def hard_failure(spec: FieldSpec, text: str) -> bool:
    """Whether every kind of number that the field may hold is ruled out by a hard rule."""
    verdicts = [validate(kind, text) for kind in spec.validator_kinds]
    failed = [any(v.outcome is Outcome.FAIL and v.severity is Severity.HARD for v in group) for group in verdicts if group]
    return bool(failed) and all(failed)


def _unsure(doc_type: DocumentType, layout: LayoutReading) -> Iterator[Action]:
    """Lines of which the recogniser is unsure; running text only where it is very unsure (a second read rarely mends it)."""
    for draft in layout.drafts.values():
        long_text = doc_type.fields[draft.field].kind is FieldKind.LONG_TEXT
        by_line: dict[int, list[Glyph]] = {}
        for glyph in draft.glyphs:
            by_line.setdefault(glyph.line, []).append(glyph)
        for glyphs in by_line.values():
            scores = [g.score for g in glyphs]
            mean, least = sum(scores) / len(scores), min(scores)
            if mean < (VERY_UNSURE if long_text else SURE_LINE) or (least < SURE_CHAR and not long_text):
                text = "".join(g.char for g in glyphs)
                yield Action(
                    "reread", draft.field, "the recogniser is not sure of this line", f"reread {text}", glyphs=tuple(glyphs)
                )


def _inked(layout: LayoutReading, ink: Sequence[NDArray[np.float32]]) -> Iterator[Action]:
    for draft in layout.drafts.values():
        under = [
            g
            for g in draft.glyphs
            if any(p[:, 0].min() < g.x < p[:, 0].max() and p[:, 1].min() < g.y < p[:, 1].max() for p in ink)
        ]
        if under and draft.source != "seal":
            lines = {g.line for g in under}
            glyphs = tuple(g for g in draft.glyphs if g.line in lines)
            yield Action("reread", draft.field, "red ink lies over this line", f"inked {draft.field}", inked=True, glyphs=glyphs)


def _failing(doc_type: DocumentType, layout: LayoutReading) -> Iterator[Action]:
    for draft in layout.drafts.values():
        spec = doc_type.fields[draft.field]
        if draft.masked or not (
            set(spec.validator_kinds) & {"uscc", "regno15", "id_number", "food_permit_no", "food_production_no"}
        ):
            continue
        if hard_failure(spec, draft.text) or (spec.kind in _CODES and len(draft.text) not in (15, 18)):
            region = _around(draft.glyphs, 2.5 + 0.6 * max(0, 18 - len(draft.text)), 1.0)  # a cut number goes on behind its box
            em = draft.glyphs[0].em
            yield Action(
                "zoom",
                spec.id,
                "the number fails its rule: is it printed so?",
                f"zoom {spec.id} {draft.text}",
                region,
                em=em * 0.8,
            )
            yield Action(
                "red_ink",
                spec.id,
                "the number fails its rule: does ink lie over it?",
                f"red {spec.id} {draft.text}",
                region,
                em=em,
            )
            yield from _entangled(draft, spec, layout)


def _entangled(draft: Draft, spec: FieldSpec, layout: LayoutReading) -> Iterator[Action]:
    """A number in a line much taller than the page's others: two printed lines ran into one box; try its lower and upper part."""
    usual = sorted(row.glyphs[0].em for row in layout.rows)[len(layout.rows) // 2]
    em = draft.glyphs[0].em
    if em < 1.3 * usual or draft.label is None:
        return
    y, left = draft.glyphs[0].y, min(draft.label.right, draft.glyphs[0].left) - 0.2 * usual
    for name, top in (("lower", y), ("upper", y - 1.4 * usual)):
        strip = _box(left, top - 0.1 * usual, draft.glyphs[-1].right + 3 * usual, top + 1.3 * usual)
        thought = f"two lines run into each other here: the {name} one alone"
        yield Action("strip", spec.id, thought, f"{name} {spec.id} {draft.text}", strip, em=usual, wanted="number")


def _empty(doc_type: DocumentType, layout: LayoutReading) -> Iterator[Action]:
    """A label without a value: look right of it, or under it where the form's other values stand under their labels."""
    below = sum(c.below for c in layout.cells.values()) * 2 > max(1, sum(bool(c.lines) for c in layout.cells.values()))
    for cell in layout.cells.values():
        spec = doc_type.fields[cell.label.field]
        if spec.id in layout.drafts or spec.id == "authority":
            continue
        if spec.kind is FieldKind.DATE and not below:
            em = cell.label.em
            right = min(_next_label(cell.label, layout), cell.label.right + 16 * em)
            strip = _box(cell.label.right + 0.1 * em, cell.label.y - 0.85 * em, right, cell.label.y + 0.85 * em)
            yield Action("strip", spec.id, "a date should stand here", f"strip {spec.id} empty", strip, em=em, wanted="date")
        region = _value_region(cell.label, layout, below=below or spec.placement == "below" or spec.kind is FieldKind.USCC)
        yield Action(
            "zoom", spec.id, "its label is printed but no value was read", f"zoom {spec.id} empty", region, em=cell.label.em
        )


def _under_seal(doc_type: DocumentType, layout: LayoutReading) -> Iterator[Action]:
    """The issue date stands under the seal: read the strip of its pieces as one line, else look below the authority's label."""
    for spec in doc_type.fields.values():
        if spec.id in layout.drafts or not spec.unlabelled or spec.kind is not FieldKind.DATE:
            continue
        for pieces in _date_pieces(layout)[:2]:
            em = sorted(g.em for g in pieces)[len(pieces) // 2]
            left, right, y = pieces[0].left, pieces[-1].right, sum(g.y for g in pieces) / len(pieces)
            keys = "".join(g.key for g in pieces)
            left -= 0.6 * em if re.match(r"[12〇一二][0-9〇○O零一二三四五六七八九]{3}", keys) else 9 * em
            right += 0.6 * em if "日" in keys else 10 * em
            strip = _box(left, y - 0.85 * em, right, y + 0.85 * em)
            yield Action(
                "strip",
                spec.id,
                "a date stands here in pieces, under a seal",
                f"strip {y:.0f} {keys}",
                strip,
                em=em,
                wanted="date",
            )
        if "authority" in layout.cells:
            anchor = layout.cells["authority"].label
            em = anchor.em
            region = _box(anchor.left - 3 * em, anchor.y - 1.5 * em, anchor.right + 16 * em, anchor.y + 9 * em)
            yield Action("red_ink", spec.id, "the date of issue is usually under the seal", f"red {spec.id}", region, em=em)


def _date_pieces(layout: LayoutReading) -> list[list[Glyph]]:
    """Free-standing pieces of dates in the lower part of the document, by printed line, those with most pieces first."""
    named = [c.y for c in layout.labels if c.field != STOP]
    if not named:
        return []
    floor = min(named) + 0.4 * (max(named) - min(named))
    owned = [*layout.elsewhere, *(g for d in layout.drafts.values() for g in d.glyphs)]
    found = []
    for line in free_lines(layout.rows, owned, below=floor):
        keys = "".join(g.key for g in line)
        pieces = [g for m in _PIECE.finditer(keys) for g in line[m.start() : m.end()]]
        if pieces and len(pieces) >= 0.5 * len(line):
            found.append(pieces)
    return sorted(found, key=lambda pieces: (-len(pieces), -pieces[0].y))


def _lost(doc_type: DocumentType, layout: LayoutReading) -> Iterator[Action]:
    """Required fields without even a label: detect on the whole page at other sizes."""
    groups = [(f,) for f in doc_type.required] + list(doc_type.one_of)
    lost = [g for g in groups if not any(f in layout.drafts or f in layout.cells for f in g)]
    if lost:
        yield Action("look_again", lost[0][0], "required fields have no label on the page", "look again")


def _told(doc_type: DocumentType, layout: LayoutReading, hints: Sequence[Hint]) -> Iterator[Action]:
    for hint in hints:
        for tool in hint.tool_policy:
            draft, cell = layout.drafts.get(hint.field), layout.cells.get(hint.field)
            if tool not in ("zoom", "red_ink") or (draft is None and cell is None):
                continue
            region = _around(draft.glyphs, 2.0, 1.0) if draft else _value_region(cell.label, layout, below=True) if cell else None
            if region is not None:
                em = draft.glyphs[0].em if draft else cell.label.em if cell else 16.0
                yield Action(tool, hint.field, "guidance says so", f"told {tool} {hint.field}", region, em=em)


def _value_region(label: Label, layout: LayoutReading, *, below: bool) -> NDArray[np.float32]:
    """Where the value of a label should stand: up to the next label to the right, and two lines down when values stand under."""
    right, em = _next_label(label, layout), label.em
    if below:
        return _box(label.left - em, label.y - 0.8 * em, right - 0.2 * em, label.y + 2.8 * em)
    return _box(label.right - 0.3 * em, label.y - 1.4 * em, right - 0.2 * em, label.y + 1.4 * em)


def _next_label(label: Label, layout: LayoutReading) -> float:
    """Left edge of the next label to the right, or 24 em on."""
    rights = (c.left for c in layout.labels if c is not label and c.left > label.right and abs(c.y - label.y) < 2.5 * label.em)
    return min(rights, default=label.right + 24 * label.em)


def _around(glyphs: Sequence[Glyph], along: float, across: float) -> NDArray[np.float32]:
    em = max(g.em for g in glyphs)
    return _box(
        min(g.left for g in glyphs) - along * em,
        min(g.y for g in glyphs) - (0.6 + across) * em,
        max(g.right for g in glyphs) + along * em,
        max(g.y for g in glyphs) + (0.6 + across) * em,
    )


def _box(left: float, top: float, right: float, bottom: float) -> NDArray[np.float32]:
    right, bottom = max(right, left + 8), max(bottom, top + 8)
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)
