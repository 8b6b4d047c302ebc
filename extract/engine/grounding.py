"""Where a model's answer stands on the page: its characters are looked for among those that OCR saw.

A model says what, not where. OCR says where, with its own reading: how well both agree is evidence about the value, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from certloop.agentrl.rewards import text_similarity
from certloop.extract.reading.document import LayoutReading
from certloop.extract.reading.drafts import quad_of
from certloop.extract.reading.glyphs import Glyph, Row, key_of

SAME_PLACE = 0.8  # the layout reader's own value for the field is this much like the answer: it stands there
FOUND = 0.5  # below this share of its characters an answer was not found
_MIN_BLOCK = 2
_GAP = 4.0  # em of white space that part one run of a row from the next
_SLIP = 3  # characters that one side may have and the other not, inside one run


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """``quad`` (4, 2) in upright pixels; ``agreement`` in [0, 1] is how much of the value OCR reads there too, ``score`` its mean
    certainty about those characters."""

    quad: NDArray[np.float32]
    agreement: float
    score: float


def locate(value: str, layout: LayoutReading, field: str) -> Place | None:
    """Find one field's value; None where OCR sees nothing like it. Of two like places the one nearer to the label is taken."""
    keys = _keys(value)
    if not keys:
        return None
    draft = layout.drafts.get(field)
    best: Place | None = None
    if draft is not None and draft.glyphs and draft.quad is not None:
        alike = text_similarity(keys, "".join(g.key for g in draft.glyphs))
        best = Place(draft.quad, alike, _score(draft.glyphs))
        if alike >= SAME_PLACE:
            return best
    cell = layout.cells.get(field)
    anchor = None if cell is None else (cell.label.left, cell.label.y)
    found = _cover(keys, [run for row in layout.rows for run in _runs(row)], anchor)
    if found is not None and (best is None or found.agreement > best.agreement):
        best = found
    return best if best is not None and best.agreement >= FOUND else None


@dataclass(frozen=True, slots=True)
class _Window:
    """Characters ``[start, end)`` of the value found in the glyphs of one run."""

    start: int
    end: int
    matched: int
    glyphs: tuple[Glyph, ...]
    distance: float


def _cover(keys: str, runs: Sequence[tuple[Glyph, ...]], anchor: tuple[float, float] | None) -> Place | None:
    """Cover the value with pieces of runs, the longest first: a long value stands on several lines."""
    windows = [w for run in runs for w in _windows(keys, run, anchor)]
    windows.sort(key=lambda w: (-w.matched, w.distance))
    taken: list[_Window] = []
    free = np.ones(len(keys), bool)
    for window in windows:
        span = slice(window.start, window.end)
        if free[span].sum() < 0.8 * (window.end - window.start):
            continue
        taken.append(window)
        free[span] = False
        if not free.any():
            break
    if not taken:
        return None
    glyphs = [g for window in taken for g in window.glyphs]
    return Place(quad_of(glyphs), sum(w.matched for w in taken) / len(keys), _score(glyphs))


def _windows(keys: str, run: tuple[Glyph, ...], anchor: tuple[float, float] | None) -> list[_Window]:
    """Stretches of one run that are written like stretches of the value; slips of a few characters do not part them."""
    text = "".join(g.key for g in run)
    least = min(_MIN_BLOCK, len(keys))
    blocks = [b for b in SequenceMatcher(None, keys, text, autojunk=False).get_matching_blocks() if b.size >= least]
    groups: list[list[tuple[int, int, int]]] = []
    for a, b, size in blocks:
        if groups:
            last_a, last_b, last_size = groups[-1][-1]
            if a - (last_a + last_size) <= _SLIP and b - (last_b + last_size) <= _SLIP:
                groups[-1].append((a, b, size))
                continue
        groups.append([(a, b, size)])
    windows = []
    for group in groups:
        (a, b, _), (last_a, last_b, last_size) = group[0], group[-1]
        glyphs = run[b : last_b + last_size]
        windows.append(_Window(a, last_a + last_size, sum(s for _, _, s in group), glyphs, _distance(glyphs, anchor)))
    return windows


def _runs(row: Row) -> list[tuple[Glyph, ...]]:
    """A row cut where wide white space parts columns."""
    cuts = [0, *(i for i in range(1, len(row.glyphs)) if row.gaps[i] > _GAP), len(row.glyphs)]
    return [row.glyphs[a:b] for a, b in itertools.pairwise(cuts) if b > a]


def _distance(glyphs: Sequence[Glyph], anchor: tuple[float, float] | None) -> float:
    """How far from the label, in em; lines count twice, since a value mostly stands beside its label."""
    first = glyphs[0]
    if anchor is None:
        return first.y / first.em
    return (abs(first.left - anchor[0]) + 2 * abs(first.y - anchor[1])) / first.em


def _keys(value: str) -> str:
    return "".join(key for char in value if not char.isspace() for key in key_of(char)[:1])


def _score(glyphs: Sequence[Glyph]) -> float:
    return float(np.mean([g.score for g in glyphs]))
