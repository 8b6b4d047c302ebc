"""Several certificates in one image: one document per printed title, cut along the widest white gutter between them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from certloop.extract.classify import Title, find_titles
from certloop.extract.engine.lines import TextLine
from certloop.extract.reading.glyphs import rows_of, runs_of
from certloop.templates import Registry


def split_lines(lines: Sequence[TextLine], registry: Registry) -> list[list[TextLine]]:
    """Partition upright lines into documents (one list when there is at most one title)."""
    titles = _main_titles(find_titles(rows_of(runs_of(lines)), registry))
    return _cut(list(lines), titles)


def _main_titles(titles: Sequence[Title]) -> list[Title]:
    """Titles of about the largest size; one title printed twice close together (正本 heading and its caption) is one."""
    if not titles:
        return []
    largest = max(t.em for t in titles)
    mains: list[Title] = []
    for title in sorted((t for t in titles if t.em > 0.45 * largest and t.score >= 0.75), key=lambda t: -t.em):
        near = [m for m in mains if abs(m.y - title.y) < 3 * m.em and title.left < m.right and m.left < title.right]
        if not near:
            mains.append(title)
    return mains


def _cut(lines: list[TextLine], titles: Sequence[Title]) -> list[list[TextLine]]:
    if len(titles) < 2:
        return [lines]
    by_x = sorted(titles, key=lambda t: t.x)
    spread_x, spread_y = by_x[-1].x - by_x[0].x, max(t.y for t in titles) - min(t.y for t in titles)
    if spread_x >= spread_y:
        gaps = [(b.left - a.right, a, b) for a, b in itertools.pairwise(by_x)]
        gap, a, b = max(gaps, key=lambda g: g[0])
        if gap <= 0:
            return [lines]
        at = _gutter([(line.left, line.right) for line in lines], a.right, b.left)
        first = [line for line in lines if (line.left + line.right) / 2 < at]
        return _halves(lines, first, [t for t in titles if t.x < at], [t for t in titles if t.x >= at])
    by_y = sorted(titles, key=lambda t: t.y)
    _, upper, lower = max(((b.y - a.y, a, b) for a, b in itertools.pairwise(by_y)), key=lambda g: g[0])
    at = _gutter([(line.top, line.bottom) for line in lines], (upper.y + lower.y) / 2, lower.y - 0.6 * lower.em)
    first = [line for line in lines if (line.top + line.bottom) / 2 < at]
    return _halves(lines, first, [t for t in titles if t.y < at], [t for t in titles if t.y >= at])


def _halves(lines: list[TextLine], first: list[TextLine], a: Sequence[Title], b: Sequence[Title]) -> list[list[TextLine]]:
    chosen = set(map(id, first))
    second = [line for line in lines if id(line) not in chosen]
    if not a or not b or len(first) < 3 or len(second) < 3:
        return [lines]
    return [*_cut(first, a), *_cut(second, b)]


def _gutter(intervals: Sequence[tuple[float, float]], low: float, high: float) -> float:
    """The middle of the widest stretch between ``low`` and ``high`` that the fewest intervals cover."""
    edges = sorted({low, high, *(x for pair in intervals for x in pair if low < x < high)})
    best, at = (-1.0, -1.0), (low + high) / 2
    for a, b in itertools.pairwise(edges):
        middle = (a + b) / 2
        covered = sum(x0 < middle < x1 for x0, x1 in intervals)
        if (-covered, b - a) > best or best == (-1.0, -1.0):
            best, at = (-float(covered), b - a), middle
    return at
