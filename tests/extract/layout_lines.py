"""Pages of text lines placed by hand, as the OCR engine would give them: no image, no model.

A page is written as ``[at(x, y, "名  称"), at(x, y, "示例公司"), ...]``; ``read_page`` gives the values that the reader takes
from it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

import numpy as np

from certloop.extract.classify import Classification, classify
from certloop.extract.engine.lines import TextLine
from certloop.extract.guidance import Hint
from certloop.extract.reading.document import LayoutReading, read_layout
from certloop.extract.reading.glyphs import Row, rows_of, runs_of
from certloop.extract.reading.orient import find_upright
from certloop.templates import load_types

EM = 30.0
BOX = 1 / 0.78  # a detector's box is this much taller than the characters in it


def advance(char: str) -> float:
    """Width of a character in em: Latin ones and blanks take about half of a Chinese one."""
    return 0.55 if unicodedata.east_asian_width(char) in ("Na", "H", "N") else 1.0


def width_of(text: str, em: float = EM, spacing: float = 0.0) -> float:
    return em * (sum(map(advance, text)) + spacing * max(0, len(text) - 1))


def at(x: float, y: float, text: str, em: float = EM, *, spacing: float = 0.0, score: float = 0.98) -> TextLine:
    """A line whose text starts at ``x`` with its middle at ``y``; ``spacing`` em stand between characters.

    Blanks in ``text`` take room but are not read, as the recogniser leaves them out.
    """
    pen, centres, seen = x, [], []
    for char in text:
        size = em * advance(char)
        if not char.isspace():
            centres.append(pen + size / 2)
            seen.append(char)
        pen += size + em * spacing
    left, right = x - 0.1 * em, pen - em * spacing + 0.1 * em
    half = em * BOX / 2
    quad = np.array([[left, y - half], [right, y - half], [right, y + half], [left, y + half]], np.float32)
    places = tuple((c - left) / (right - left) for c in centres)
    return TextLine(quad, "".join(seen), score, places, (score,) * len(seen))


def standing(x: float, ys: Sequence[float], text: str, em: float = EM) -> TextLine:
    """Stacked single characters (名, 类, 住) that the detector joined into one line that runs downwards."""
    top, bottom, half = ys[0] - 0.6 * em, ys[-1] + 0.6 * em, em * BOX / 2
    quad = np.array([[x + half, top], [x + half, bottom], [x - half, bottom], [x - half, top]], np.float32)
    return TextLine(quad, text, 0.95, tuple((y - top) / (bottom - top) for y in ys), (0.95,) * len(text))


def turned(
    lines: Sequence[TextLine], degrees: float = 0.0, *, scale: float = 1.0, shift: tuple[float, float] = (0.0, 0.0)
) -> tuple[list[TextLine], int, int]:
    """The page turned clockwise, scaled and moved; with its new width and height."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    matrix = np.array([[scale * cos, -scale * sin, 0.0], [scale * sin, scale * cos, 0.0]])
    moved = [line.mapped(matrix) for line in lines]
    corner = np.concatenate([line.quad for line in moved]).min(axis=0) - 10
    matrix[:, 2] = np.asarray(shift) - corner
    moved = [line.mapped(matrix) for line in lines]
    right, bottom = np.concatenate([line.quad for line in moved]).max(axis=0) + 10
    return moved, math.ceil(right), math.ceil(bottom)


def rows(lines: Sequence[TextLine]) -> list[Row]:
    return rows_of(runs_of(lines))


def kind_of(lines: Sequence[TextLine]) -> Classification:
    """What the page is taken for."""
    return classify(rows(lines), load_types())


def layout_of(lines: Sequence[TextLine], type_id: str = "business_licence", hints: Sequence[Hint] = ()) -> LayoutReading:
    """The reading of an upright page, its type being known."""
    registry = load_types()
    upright = rows(lines)
    found = classify(upright, registry, doc_type=type_id)
    return read_layout(upright, registry.get(type_id), found, hints)


def read_page(lines: Sequence[TextLine], type_id: str = "business_licence", hints: Sequence[Hint] = ()) -> dict[str, str]:
    """Field id to printed value."""
    return {key: draft.text for key, draft in layout_of(lines, type_id, hints).drafts.items()}


def read_turned(page: tuple[Sequence[TextLine], int, int], type_id: str = "business_licence") -> dict[str, str]:
    """As ``read_page``, for a page of any direction, given with its width and height."""
    lines, width, height = page
    return read_page(find_upright(lines, width, height).lines(lines), type_id)


def form(
    *entries: tuple[str, str], title: str = "营业执照", x: float = 100, value_x: float = 360, y: float = 200
) -> list[TextLine]:
    """A plain form: a title, then one label and its value a row; an empty value is not drawn."""
    page = [at(x + 300, y - 110, title, 2.2 * EM)] if title else []
    for number, (label, value) in enumerate(entries):
        page.append(at(x, y + 70 * number, label))
        if value:
            page.append(at(value_x, y + 70 * number, value))
    return page
