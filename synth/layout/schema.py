"""A layout: where a form prints what, as data.

Coordinates are thousandths of the page's width on both axes, so that a layout fits any resolution. ``at`` is the left end and
the vertical middle of the first line. Sizes are the em of the face, in the same unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Point = tuple[float, float]
Rect = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Style:
    """A way of writing. ``weight`` thickens strokes (fraction of the em), ``spacing`` is added after each character (fraction of
    the em), ``leading`` is the distance of lines (ems), ``stretch`` narrows or widens characters (titles are often condensed),
    ``colour`` is #rrggbb or the name of a gradient (gold, bronze, dark_gold, foil)."""

    font: str = "song"
    size: float = 15
    colour: str = "#262626"
    weight: float = 0.0
    spacing: float = 0.0
    leading: float = 1.3
    stretch: float = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """A printed label with its value.

    ``labels`` are the wordings a seed chooses from, ``spread`` is the width over which the label's characters are spread,
    ``value`` the place of the value (default: behind the label), ``width`` where it wraps. ``optional`` is the chance that the
    row is missing, ``blank`` that it stands without a value, ``handwritten`` that its value is written by hand (where the
    handwriting faces have its characters)."""

    field: str
    at: Point
    labels: tuple[str, ...] = ()
    spread: float = 0
    suffix: str = ""
    value: Point | None = None
    width: float = 300
    lines: int = 1
    label_style: str = "label"
    value_style: str = "value"
    prints: tuple[str, ...] = ()
    optional: float = 0.0
    blank: float = 0.0
    prefix: str = ""
    after: str = ""
    underline: float = 0.0
    align: str = "left"
    handwritten: float = 0.0


@dataclass(frozen=True, slots=True)
class Text:
    """Printed words that are no field (or the copy mark, with ``field``). ``width`` 0 means: do not wrap."""

    text: tuple[str, ...]
    at: Point
    style: str = "label"
    width: float = 0
    align: str = "left"
    optional: float = 0.0
    field: str = ""
    spread: float = 0
    role: str = "text"


@dataclass(frozen=True, slots=True)
class Paragraphs:
    """Running text with values inside: ``{field}`` or ``{field:style}``; a newline begins a paragraph. It is shrunk to stand in
    ``lines`` lines (0: as many as it takes)."""

    text: tuple[str, ...]
    at: Point
    width: float
    style: str = "label"
    value_style: str = "value"
    indent: float = 2
    underline: bool = False
    lines: int = 0


@dataclass(frozen=True, slots=True)
class FormDate:
    """A date written into printed 年 月 日: the right ends of the three numerals are ``at`` plus ``steps``. ``numeral`` writes
    Chinese numerals, ``padded = false`` leaves out leading zeros."""

    field: str
    at: Point
    steps: tuple[float, float, float]
    style: str = "label"
    value_style: str = "value"
    numeral: bool = False
    prefix: str = ""
    padded: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """A drawn thing: emblem, qr, seal, border, watermark, portrait, signature. ``at`` is its centre, ``size`` its diameter or
    box."""

    kind: str
    at: Point = (0, 0)
    size: float = 0
    box: Rect | None = None
    pattern: str = ""
    colour: str = ""
    text: str = ""
    field: str = ""
    chance: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A rule: ``rect``, ``line`` (x0, y0, x1, y1) or ``grid`` (a rect with ``rows`` and ``columns``)."""

    kind: str
    box: Rect
    colour: str = "#333333"
    thick: float = 1.0
    dash: float = 0.0
    rows: int = 1
    columns: int = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """One printed form of a document type. ``height`` is that of the page for a width of 1000."""

    id: str
    type_id: str
    title: str
    height: float
    styles: Mapping[str, Style]
    rows: tuple[Row, ...] = ()
    texts: tuple[Text, ...] = ()
    paragraphs: tuple[Paragraphs, ...] = ()
    dates: tuple[FormDate, ...] = ()
    marks: tuple[Mark, ...] = ()
    lines: tuple[Line, ...] = ()
    paper: tuple[str, ...] = ("#ffffff",)
    firms: tuple[str, ...] = ("company",)
    value_fonts: tuple[str, ...] = ()
    label_fonts: tuple[str, ...] = ()
    industry: str = ""
    issued: tuple[int, int] = (2016, 2025)
    variant: str = ""
    longest_scope: int = 300
    jitter: float = 2.0
    traps: tuple[str, ...] = ()
    drawn_from: str = ""
    background: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """Ids of every field that the layout can print, in printed order, without repetition."""
        import re

        ids = [r.field for r in self.rows] + [t.field for t in self.texts if t.field] + [d.field for d in self.dates]
        for paragraph in self.paragraphs:
            ids += re.findall(r"\{(\w+)", "".join(paragraph.text))
        ids += [m.field for m in self.marks if m.field]
        return tuple(dict.fromkeys(ids))
