"""From OCR lines to characters with places: the ground on which labels and values are told apart.

Everything here lives in the *upright frame*: the page turned so that its text runs left to right, in pixels of the page.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from certloop.extract.engine.lines import TextLine

LINE_TO_EM = 0.78  # a detected box is about this much taller than the characters in it
_NARROW = 0.55  # advance of an ASCII character in em


@dataclass(frozen=True, slots=True)
class Glyph:
    """One character: ``char`` as read, ``key`` its comparison form, centre and em size in pixels, index of its OCR line;
    ``spaced`` when the recogniser read a space before it."""

    char: str
    key: str
    x: float
    y: float
    em: float
    score: float
    line: int
    spaced: bool = False

    @property
    def advance(self) -> float:
        return self.em * (_NARROW if self.char.isascii() else 1.0)

    @property
    def left(self) -> float:
        return self.x - self.advance / 2

    @property
    def right(self) -> float:
        return self.x + self.advance / 2


@dataclass(frozen=True, slots=True)
class Run:
    """The glyphs of one OCR line, left to right, with the line's slope (dy/dx)."""

    glyphs: tuple[Glyph, ...]
    slope: float

    @property
    def left(self) -> float:
        return self.glyphs[0].left

    @property
    def right(self) -> float:
        return self.glyphs[-1].right

    @property
    def em(self) -> float:
        return self.glyphs[0].em

    def y_at(self, x: float) -> float:
        """Height of the line's middle, extended along its slope to ``x``."""
        first, last = self.glyphs[0], self.glyphs[-1]
        anchor = first if abs(x - first.x) < abs(x - last.x) else last
        return anchor.y + self.slope * (x - anchor.x)


def key_of(char: str) -> str:
    """NFKC form of a character, with the brackets and dashes that OCR confuses made one."""
    return unicodedata.normalize("NFKC", char).translate(_KEYS)


_KEYS = str.maketrans(
    {"【": "(", "】": ")", "〔": "(", "〕": ")", "[": "(", "]": ")", "—": "-", "–": "-", "﹕": ":", "∶": ":", "：": ":"}
)


def runs_of(lines: Sequence[TextLine]) -> list[Run]:
    """Explode upright lines into runs; a line that stands on end becomes one run per character (stacked single-character
    labels such as 名/类/住, which the detector joins downwards)."""
    runs = []
    for index, line in enumerate(lines):
        dx, dy = line.quad[1] - line.quad[0]
        glyphs = _glyphs(line, index)
        if not glyphs:
            continue
        if abs(dy) > 2 * abs(dx):
            runs += [Run((g,), 0.0) for g in glyphs if not g.char.isspace()]
        else:
            slope = float(dy / dx) if abs(dx) > 1 and line.length > 3 * line.thickness else 0.0
            visible = tuple(g for g in glyphs if not g.char.isspace())
            if visible:
                runs.append(Run(visible, slope))
    return runs


def _glyphs(line: TextLine, index: int) -> list[Glyph]:
    start = (line.quad[0] + line.quad[3]) / 2
    end = (line.quad[1] + line.quad[2]) / 2
    em = max(1.0, line.thickness * LINE_TO_EM)
    glyphs = []
    spaced = False
    for char, place, score in zip(line.text, line.char_x, line.char_scores, strict=True):
        x, y = start + (end - start) * place
        for key in key_of(char):
            glyphs.append(Glyph(char, key, float(x), float(y), em, score, index, spaced))
            break
        spaced = char.isspace()
    return glyphs


@dataclass(frozen=True, slots=True)
class Row:
    """Runs that stand side by side on one printed line. ``gaps[i]`` is the white space before glyph i in em (first: inf)."""

    glyphs: tuple[Glyph, ...]
    gaps: tuple[float, ...]

    @property
    def text(self) -> str:
        return "".join(g.key for g in self.glyphs)

    @property
    def y(self) -> float:
        return float(np.mean([g.y for g in self.glyphs]))


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """Chain runs into rows: each run is followed by the nearest run to its right that lies on its extended middle line."""
    order = sorted(range(len(runs)), key=lambda i: runs[i].left)
    links: list[tuple[float, int, int]] = []
    for a in order:
        for b in order:
            cost = _link_cost(runs[a], runs[b]) if a != b else math.inf
            if cost < math.inf:
                links.append((cost, a, b))
    follower: dict[int, int] = {}
    taken: set[int] = set()
    for _, a, b in sorted(links):
        if a not in follower and b not in taken:
            follower[a] = b
            taken.add(b)
    rows = []
    for head in order:
        if head in taken:
            continue
        chain, at = [head], head
        while at in follower:
            at = follower[at]
            chain.append(at)
        rows.append(_row([runs[i] for i in chain]))
    return sorted(rows, key=lambda r: r.glyphs[0].y)


def _link_cost(a: Run, b: Run) -> float:
    """Distance in em from the end of ``a`` to the start of ``b``; infinite where ``b`` is not to the right on the same line."""
    em = max(a.em, b.em)
    if em > 1.9 * min(a.em, b.em):
        return math.inf
    gap = (b.left - a.right) / em
    if gap < -1.0 or b.left <= a.left or b.glyphs[0].x <= a.glyphs[-1].x - 0.3 * em:
        return math.inf
    middle = (a.right + b.left) / 2
    offset = abs(a.y_at(middle) - b.y_at(middle)) / em
    if offset > 0.55:
        return math.inf
    return max(gap, 0.0) + 3 * offset


def _row(chain: Sequence[Run]) -> Row:
    glyphs = tuple(g for run in chain for g in run.glyphs)
    gaps = [math.inf]
    for before, after in itertools.pairwise(glyphs):
        gaps.append((after.left - before.right) / min(before.em, after.em))
    return Row(glyphs, tuple(gaps))
