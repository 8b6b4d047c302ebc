"""From labels to values: which printed pieces belong to which label.

A *span* is a maximal piece of a row without labels and without wide white space. Each label takes the spans to its right, then
the lines that continue them (wrapped, possibly with a single character on the last line), or, where nothing stands to its
right, the lines under it. Everything else on the page (notices, seals, footers) belongs to nobody and stays unread.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from certloop.extract.reading.glyphs import Glyph, Row
from certloop.extract.reading.labels import STOP, Label
from certloop.templates import FieldKind, FieldSpec

_SPLIT_GAP = 1.6  # em of white space that separate two spans of a row
_WRAPPING = {FieldKind.TEXT, FieldKind.LONG_TEXT, FieldKind.MONEY, FieldKind.DATE_RANGE}
_DATEISH = re.compile(r"[0-9〇○零O一二三四五六七八九十年月日至到止自长期\-./:~]+")

_DATE_LINE = re.compile(r"[0-9〇○零O一二三四五六七八九十年月日./\-]{4,}")


@dataclass(slots=True, eq=False)
class Span:
    """Glyphs ``start:end`` of one row."""

    row: int
    start: int
    glyphs: tuple[Glyph, ...]
    owner: Label | None = None

    @property
    def left(self) -> float:
        return self.glyphs[0].left

    @property
    def right(self) -> float:
        return self.glyphs[-1].right

    @property
    def em(self) -> float:
        ems = sorted(g.em for g in self.glyphs)
        return ems[len(ems) // 2]

    @property
    def y(self) -> float:
        return sum(g.y for g in self.glyphs) / len(self.glyphs)

    @property
    def text(self) -> str:
        return "".join(g.key for g in self.glyphs)


@dataclass(slots=True)
class Cell:
    """A label with the spans that make its value, grouped by printed line."""

    label: Label
    lines: list[list[Span]] = field(default_factory=list)
    below: bool = False

    @property
    def spans(self) -> list[Span]:
        return [s for line in self.lines for s in line]


def spans_of(rows: Sequence[Row], labels: Sequence[Label]) -> list[Span]:
    """Cut every row at labels and at wide white space."""
    spans = []
    for index, row in enumerate(rows):
        covered = {i for label in labels if label.row == index for i in range(label.start, label.end)}
        start: int | None = None
        for i in range(len(row.glyphs) + 1):
            breaks = i == len(row.glyphs) or i in covered or (start is not None and _breaks(row, i))
            if breaks and start is not None:
                spans.append(Span(index, start, row.glyphs[start:i]))
                start = None
            if i < len(row.glyphs) and i not in covered and start is None:
                start = i
    return spans


def _breaks(row: Row, at: int) -> bool:
    ratio = row.glyphs[at].em / row.glyphs[at - 1].em
    limit = 1.6 if row.glyphs[at].line == row.glyphs[at - 1].line else 1.4
    return row.gaps[at] > _SPLIT_GAP or ratio > limit or ratio < 1 / limit


def assign(rows: Sequence[Row], labels: Sequence[Label], fields: Mapping[str, FieldSpec]) -> list[Cell]:
    """Give every label its spans. Returns one cell per label, stop labels too (an empty one: the value is blank)."""
    spans = spans_of(rows, labels)
    cells = {id(label): Cell(label) for label in labels}
    for label in labels:
        _take_right(cells[id(label)], labels, spans, fields)
    for label in labels:
        if not cells[id(label)].lines:
            _take_beside(cells[id(label)], labels, spans)
    columns = [c for c in cells.values() if c.lines]
    for cell in sorted(columns, key=lambda c: c.label.y):
        _take_continuations(cell, labels, spans, fields, columns)
    for label in sorted(labels, key=lambda c: c.y):
        if not cells[id(label)].lines and label.field != STOP:
            _take_below(cells[id(label)], labels, spans, fields)
    return list(cells.values())


def _take_right(cell: Cell, labels: Sequence[Label], spans: Sequence[Span], fields: Mapping[str, FieldSpec]) -> None:
    """Spans on the label's own line: the first may stand a way off, later ones only close by or as pieces of a date."""
    label = cell.label
    kind = fields[label.field].kind if label.field in fields else None
    bound = _right_bound(label, labels)
    line: list[Span] = []
    same_row = sorted((s for s in spans if s.row == label.row and s.start >= label.end and s.owner is None), key=lambda s: s.left)
    for span in same_row:
        if any(c.row == label.row and label.end <= c.start <= span.start for c in labels if c is not label):
            break
        if span.left > bound - 0.3 * span.em:
            break
        gap = (span.left - (line[-1].right if line else label.right)) / max(label.em, span.em)
        if gap > _allowed_gap(label, line, span, kind, labels):
            break
        if not line and _foreign_size(label, span):
            break
        if line and kind not in (FieldKind.DATE, FieldKind.DATE_RANGE) and not 0.72 < span.em / line[0].em < 1.39:
            break
        line.append(span)
    for span in line:
        span.owner = label
    if line:
        cell.lines = [line]


def _take_beside(cell: Cell, labels: Sequence[Label], spans: Sequence[Span]) -> None:
    """A value set a little higher or lower than its label: the nearest span to the right that no other label is closer to."""
    label = cell.label
    bound = _right_bound(label, labels)
    near = [
        s
        for s in spans
        if s.owner is None
        and abs(s.y - label.y) < 1.0 * label.em
        and -0.5 * label.em < s.left - label.right < 4.0 * label.em
        and s.left < bound
        and 0.6 < s.em / label.em < 1.5
        and not any(
            c is not label and abs(c.y - s.y) < abs(label.y - s.y) and c.left < s.left < c.right + 8 * c.em for c in labels
        )
    ]
    if near:
        span = min(near, key=lambda s: (s.left, abs(s.y - label.y)))
        span.owner, cell.lines = label, [[span]]


def _allowed_gap(label: Label, line: Sequence[Span], span: Span, kind: FieldKind | None, labels: Sequence[Label]) -> float:
    if not line:
        column = [c for c in labels if abs(c.left - label.left) < label.em and c is not label]
        widest = max([c.right for c in column], default=label.right)
        return 6.0 + max(0.0, (widest - label.right) / label.em)
    if kind in (FieldKind.DATE, FieldKind.DATE_RANGE):
        return 6.0 if _DATEISH.fullmatch(span.text) else 1.5
    return 2.6


def _foreign_size(label: Label, span: Span) -> bool:
    """Headlines beside a label are not its value."""
    return span.em > 2.2 * label.em


def _right_bound(label: Label, labels: Sequence[Label]) -> float:
    """Left edge of the next label to the right whose line this is."""
    rights = [c.left for c in labels if c.left > label.right and abs(c.y - label.y) < 0.8 * max(c.em, label.em)]
    return min(rights, default=math.inf)


def _take_continuations(
    cell: Cell, labels: Sequence[Label], spans: Sequence[Span], fields: Mapping[str, FieldSpec], columns: Sequence[Cell]
) -> None:
    """Lines above (a value set higher than its label) and below that continue the first line."""
    label, first = cell.label, cell.lines[0]
    kind = fields[label.field].kind if label.field in fields else FieldKind.TEXT
    if kind not in _WRAPPING:
        return
    left, em = first[0].left, first[0].em
    above = _line_near(cell, spans, labels, y=first[0].y, direction=-1, left=left, em=em)
    if (
        above
        and abs((above[0].y + first[0].y) / 2 - label.y) < 0.4 * label.em
        and not _belongs_elsewhere(above[0], label, labels)
    ):
        cell.lines.insert(0, above)
        for span in above:
            span.owner = label
    while True:
        line = _line_near(cell, spans, labels, y=cell.lines[-1][0].y, direction=1, left=left, em=em)
        if not line or not _continues(cell, line, kind, labels, columns, spans):
            return
        cell.lines.append(line)
        for span in line:
            span.owner = label


def _line_near(
    cell: Cell, spans: Sequence[Span], labels: Sequence[Label], *, y: float, direction: int, left: float, em: float
) -> list[Span]:
    """The next printed line in ``direction`` whose first span starts at ``left`` (within 1.6 em) and within 2.4 em of height."""
    starts = [
        s
        for s in spans
        if s.owner is None
        and 0.5 * em < direction * (s.y - y) < 2.4 * em
        and abs(s.left - left) < 1.6 * em
        and 0.6 < s.em / em < 1.6
    ]
    if not starts:
        return []
    head = min(starts, key=lambda s: abs(s.y - y))
    line = [head]
    bound = min((c.left for c in labels if c.row == head.row and c.left > head.left), default=math.inf)
    for span in sorted(
        (s for s in spans if s.row == head.row and s.start > head.start and s.owner is None), key=lambda s: s.left
    ):
        if span.left >= bound or (span.left - line[-1].right) / em > 2.0:
            break
        line.append(span)
    return line


def _belongs_elsewhere(span: Span, label: Label, labels: Sequence[Label]) -> bool:
    """Whether another label of the column stands closer to the span's height."""
    return any(
        c is not label and c.left < span.left and abs(c.y - span.y) < abs(label.y - span.y) and c.row == span.row for c in labels
    )


def _continues(
    cell: Cell, line: Sequence[Span], kind: FieldKind, labels: Sequence[Label], columns: Sequence[Cell], spans: Sequence[Span]
) -> bool:
    head, label = line[0], cell.label
    for other in labels:
        if other is label:
            continue
        beside = other.left < head.left and other.right < head.left + head.em and abs(other.y - head.y) < 0.6 * other.em
        if beside and other.left > label.left - 2 * label.em:
            return False
        between = label.y + 0.5 * label.em < other.y <= head.y + 0.2 * head.em
        if between and other.left < head.right and other.right > label.left and other.left < head.left + head.em:
            return False
    text = "".join(s.text for s in line)
    if kind is FieldKind.DATE_RANGE:
        return bool(_DATEISH.fullmatch(text))
    if kind in (FieldKind.TEXT, FieldKind.MONEY) and (_DATE_LINE.fullmatch(text) or ":" in text[:3]):
        return False
    pitch = head.y - cell.lines[-1][0].y
    if len(cell.lines) >= 2 and pitch > 1.35 * (cell.lines[-1][0].y - cell.lines[-2][0].y) + 0.2 * head.em:
        return False
    if kind in (FieldKind.TEXT, FieldKind.MONEY) and len(cell.lines) == 1:
        return pitch < 0.75 * _label_pitch(label, labels) or _line_is_full(cell, columns, spans)
    return True


def _label_pitch(label: Label, labels: Sequence[Label]) -> float:
    """Smallest distance between two labels of the label's column; 0 where it stands alone."""
    column = sorted(c.y for c in labels if abs(c.left - label.left) < 1.5 * label.em and c.field != STOP)
    steps = [b - a for a, b in itertools.pairwise(column) if b - a > 0.8 * label.em]
    return min(steps, default=0.0)


def _line_is_full(cell: Cell, columns: Sequence[Cell], spans: Sequence[Span]) -> bool:
    """A short value wraps only when its first line reaches about as far right as lines of its column do."""
    last = cell.lines[-1][-1]
    same = [c for c in columns if abs(c.label.left - cell.label.left) < 2 * cell.label.em and c is not cell and c.lines]
    longest = max((s.right for c in same for line in c.lines for s in line if c.label.field != STOP), default=last.right)
    left = cell.lines[0][0].left
    free = [s.right for s in spans if s.owner is None and abs(s.left - left) < 1.6 * last.em and 0.6 < s.em / last.em < 1.6]
    return last.right > max([longest, *free]) - 3.5 * last.em


def _take_below(cell: Cell, labels: Sequence[Label], spans: Sequence[Span], fields: Mapping[str, FieldSpec]) -> None:
    """Values printed under their label, often a little to the right of its left edge."""
    label = cell.label
    kind = fields[label.field].kind
    bound = min((c.left for c in labels if c.left > label.right and abs(c.y - label.y) < 1.5 * label.em), default=math.inf)
    floor = min(
        (
            c.y
            for c in labels
            if c.y > label.y + 0.8 * label.em and c.left < min(bound, label.right + 8 * label.em) and c.right > label.left
        ),
        default=math.inf,
    )
    reach = 2.6 if kind is not FieldKind.USCC else 3.0
    starts = [
        s
        for s in spans
        if s.owner is None
        and 0.5 * label.em < s.y - label.y < reach * label.em
        and label.left - 1.5 * label.em < s.left < min(bound, label.right + 2.5 * label.em)
        and s.y < floor - 0.3 * label.em
        and s.em < 1.5 * label.em
    ]
    if not starts:
        return
    head = min(starts, key=lambda s: (round((s.y - label.y) / label.em), s.left))
    limit = bound
    line = [head]
    for span in sorted(
        (s for s in spans if s.row == head.row and s.start > head.start and s.owner is None), key=lambda s: s.left
    ):
        if span.left >= limit or (span.left - line[-1].right) / head.em > 3.0:
            break
        line.append(span)
    cell.lines, cell.below = [line], True
    for span in line:
        span.owner = label
    if kind not in _WRAPPING:
        return
    while True:
        following = _line_near(cell, spans, labels, y=cell.lines[-1][0].y, direction=1, left=head.left, em=head.em)
        following = [s for s in following if s.left < limit and s.y - cell.lines[-1][0].y < 1.7 * head.em]
        if (
            not following
            or following[0].y > floor - 0.3 * label.em
            or not _continues(cell, following, FieldKind.LONG_TEXT, labels, (), spans)
        ):
            return
        cell.lines.append(following)
        for span in following:
            span.owner = label
