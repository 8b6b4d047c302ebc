"""Draws one page: a layout filled with facts, and the box of everything it printed."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from PIL import Image, ImageDraw

from certloop.synth.errors import GlyphMissingError
from certloop.synth.fields import Fact, print_fact
from certloop.synth.layout import FormDate, Layout, Paragraphs, Row, Style, Text
from certloop.synth.render.fonts import Faces, default_faces
from certloop.synth.render.marks import draw_ground, draw_marks
from certloop.synth.render.paragraphs import draw_paragraphs
from certloop.synth.render.text import Box, Pen, draw_line, draw_lines, draw_spread, fit, wrap
from certloop.synth.seeds import pixels_rng, values_rng


@dataclass(frozen=True, slots=True)
class Item:
    """Something printed: ``role`` is label, value, title, text, seal, qr, emblem, signature; ``boxes`` are x0, y0, x1, y1 in
    pixels, one a line."""

    role: str
    text: str
    boxes: tuple[Box, ...]
    field: str = ""
    region: str = "print"


@dataclass(slots=True)
class Page:
    """A rendered page. ``values`` holds what each printed field says (None: printed without a value)."""

    image: Image.Image
    layout: Layout
    items: list[Item] = field(default_factory=list)
    values: dict[str, str | None] = field(default_factory=dict)
    wordings: dict[str, str] = field(default_factory=dict)
    regions: dict[str, str] = field(default_factory=dict)
    qr_payload: str = ""
    traps: list[str] = field(default_factory=list)

    def add(self, item: Item) -> None:
        self.items.append(item)

    def print_value(
        self, field_id: str, value: str | None, boxes: tuple[Box, ...], *, region: str = "print", label: str = ""
    ) -> None:
        """Record the first printing of a field; later repetitions stand beside it under the role ``repeat``."""
        if field_id not in self.values:
            self.values[field_id] = value
            self.regions[field_id] = region
            self.wordings[field_id] = label
            if value is not None:
                self.add(Item("value", value, boxes, field_id, region))
        elif value is not None:
            self.add(Item("repeat", value, boxes, field_id, region))


@dataclass(frozen=True, slots=True)
class Job:
    """What one page is drawn from. ``width_px`` sets the resolution, ``seed`` every choice of printing."""

    layout: Layout
    facts: Mapping[str, Fact]
    seed: int
    width_px: int = 1400
    faces: Faces = field(default_factory=default_faces)


def draw_page(job: Job) -> Page:
    """Render ``job``. Raises TextFitError, GlyphMissingError or FontMissingError rather than drawing something wrong."""
    layout = job.layout
    rng = values_rng(job.seed, "print")
    scale = job.width_px / 1000
    ground = _ground(layout, job.width_px, rng.randrange(3), job.faces)
    page = Page(ground.copy(), layout, traps=list(layout.traps))
    pen = Pen(page.image, scale, job.faces)
    styles = _styles(layout, rng)
    shift = (rng.gauss(0, layout.jitter * 0.6), rng.gauss(0, layout.jitter * 0.6))
    writer = _Writer(job, page, pen, styles, rng, shift, tidy=rng.random() < 0.6)
    for text in layout.texts:
        writer.text(text)
    for row in layout.rows:
        writer.row(row)
    for date_row in layout.dates:
        writer.form_date(date_row)
    for paragraphs in layout.paragraphs:
        writer.paragraphs(paragraphs)
    draw_marks(pen, page, job.facts, rng, pixels_rng(job.seed, "marks"))
    return page


@dataclass(slots=True)
class _Writer:
    """The printing of one page: what the form's printer set and what the office's printer filled in, a little off."""

    job: Job
    page: Page
    pen: Pen
    styles: Mapping[str, Style]
    rng: Random
    shift: tuple[float, float]
    tidy: bool

    def row(self, row: Row) -> None:
        if self.rng.random() < row.optional or row.field not in self.job.facts:
            return
        scale, label_style = self.pen.scale, self.styles[row.label_style]
        x, y = row.at[0] * scale, row.at[1] * scale
        label = self.rng.choice(row.labels) if row.labels else ""
        right = self._label(row, label, x, y, label_style) if label else x
        value = self._value(row)
        style = self.styles[row.value_style]
        if value is None:
            self.page.print_value(row.field, None, (), label=label)
            return
        vx, vy = (row.value[0] * scale, row.value[1] * scale) if row.value else (right + 0.35 * label_style.size * scale, y)
        vx, vy = vx + self.shift[0] * scale, vy + (self.shift[1] + self.rng.gauss(0, self.job.layout.jitter * 0.12)) * scale
        style, region = self._hand(row, value, style)
        style, lines = fit(self.pen, value, style, row.width * scale, row.lines, tidy=self.tidy)
        boxes = draw_lines(self.pen, lines, vx, vy, style, align=row.align)
        if row.underline:
            base = y + 0.62 * label_style.size * scale
            left = (row.value[0] * scale) if row.value else right
            ImageDraw.Draw(self.page.image).line(
                (left, base, left + row.underline * scale, base), fill="#444444", width=max(1, round(scale))
            )
        self.page.print_value(row.field, value.replace("\n", ""), tuple(boxes), region=region, label=label.replace("\n", ""))
        if row.after:
            draw_line(self.pen, row.after, boxes[-1][2] + 0.3 * style.size * scale, vy, label_style)

    def _hand(self, row: Row, value: str, style: Style) -> tuple[Style, str]:
        """The style and region of a value that a person may have written in."""
        if not row.handwritten or self.rng.random() >= row.handwritten:
            return style, "print"
        font, ink = self.rng.choice(("hand", "hand_running")), self.rng.choice(("#1c1c24", "#1e2a66"))
        try:
            self.pen.faces.runs(font, value)
        except GlyphMissingError:
            return style, "print"
        return replace(style, font=font, colour=ink, size=style.size * 1.15, weight=0.0), "hand"

    def _label(self, row: Row, label: str, x: float, y: float, style: Style) -> float:
        first, _, second = label.partition("\n")
        boxes = []
        if row.spread:
            boxes.append(draw_spread(self.pen, first, x, y, row.spread * self.pen.scale, style))
            right = x + row.spread * self.pen.scale
        else:
            boxes.append(draw_line(self.pen, first, x, y, style))
            right = boxes[0][2]
        if row.suffix:
            right = draw_line(self.pen, row.suffix, right, y, style)[2]
        if second:
            small = replace(style, size=style.size * 0.82)
            boxes.append(
                draw_spread(
                    self.pen, second, x, y + style.size * 1.05 * self.pen.scale, max(row.spread, 1) * self.pen.scale, small
                )
            )
        self.page.add(Item("label", label.replace("\n", ""), tuple(boxes), row.field))
        return right

    def _value(self, row: Row) -> str | None:
        if row.blank and self.rng.random() < row.blank:
            return None
        style = values_rng(self.job.seed, "prints", *row.prints).choice(row.prints) if row.prints else ""
        return row.prefix + print_fact(self.job.facts[row.field], style, values_rng(self.job.seed, "words", row.field))

    def text(self, text: Text) -> None:
        if self.rng.random() < text.optional:
            return
        scale, style = self.pen.scale, self.styles[text.style]
        words = self.rng.choice(text.text)
        x, y = text.at[0] * scale, text.at[1] * scale
        if text.spread:
            left = x - text.spread * scale / 2 if text.align == "center" else x
            boxes = [draw_spread(self.pen, words, left, y, text.spread * scale, style)]
        else:
            lines = wrap(self.pen, words, style, text.width * scale, tidy=True) if text.width else words.split("\n")
            boxes = draw_lines(self.pen, lines, x, y, style, align=text.align)
        if text.field:
            value = re.sub(r"[^\u4e00-\u9fff]", "", words)
            self.page.print_value(text.field, value, tuple(boxes))
        else:
            self.page.add(Item(text.role, words, tuple(boxes)))

    def form_date(self, row: FormDate) -> None:
        fact = self.job.facts.get(row.field)
        if fact is None:
            return
        printed = print_fact(fact, "numeral" if row.numeral else "padded" if row.padded else "plain", self.rng)
        scale, label_style, style = self.pen.scale, self.styles[row.style], self.styles[row.value_style]
        x, y = row.at[0] * scale, row.at[1] * scale
        parts = re.findall(r"[^年月日]+", printed)
        boxes = []
        if row.prefix:
            draw_line(self.pen, row.prefix, x - label_style.size * scale * (len(row.prefix) + 0.6), y, label_style)
        for part, word, step in zip(parts, "年月日", row.steps, strict=True):
            right = x + step * scale
            size = self.pen.size_px(label_style)
            lines = draw_lines(
                self.pen,
                [part],
                right - size * 0.35 + self.shift[0] * 0.5 * scale,
                y + self.shift[1] * 0.7 * scale,
                style,
                align="right",
            )
            word_box = draw_line(self.pen, word, right, y, label_style)
            boxes += [(lines[0][0], min(lines[0][1], word_box[1]), word_box[2], max(lines[0][3], word_box[3]))]
        whole = (boxes[0][0], min(b[1] for b in boxes), boxes[-1][2], max(b[3] for b in boxes))
        self.page.print_value(row.field, printed, (whole,))

    def paragraphs(self, block: Paragraphs) -> None:
        facts = {
            k: print_fact(v, "to:padded" if not isinstance(v, str) and hasattr(v, "start") else "", self.rng)
            for k, v in self.job.facts.items()
        }
        printed = draw_paragraphs(self.pen, block, self.rng.choice(block.text), facts, self.styles, self.shift)
        for field_id, (value, boxes) in printed.items():
            self.page.print_value(field_id, value, tuple(boxes))


def _styles(layout: Layout, rng: Random) -> dict[str, Style]:
    """The layout's styles with what differs from office to office: the faces of values and labels, the size of values."""
    styles = dict(layout.styles)
    value_font, label_font = (rng.choice(fonts) if fonts else "" for fonts in (layout.value_fonts, layout.label_fonts))
    size = rng.uniform(*_VALUE_SIZE)
    for name, style in layout.styles.items():
        if name.startswith("value"):
            styles[name] = replace(style, font=value_font or style.font, size=style.size * size)
        elif label_font and name in _LABEL_STYLES:
            styles[name] = replace(style, font=label_font)
    return styles


_GROUNDS: OrderedDict[tuple[str, str, float, int, int], Image.Image] = OrderedDict()
_GROUNDS_KEPT = 16
_VALUE_SIZE = (0.9, 1.04)
_LABEL_STYLES = ("label", "small", "office")


def _ground(layout: Layout, width_px: int, variant: int, faces: Faces) -> Image.Image:
    """Paper, watermark, borders and rules: the same for every page of a layout, so drawn once per size and kept for the next."""
    key = (layout.type_id, layout.id, layout.height, width_px, variant)
    if key not in _GROUNDS:
        size = (width_px, round(layout.height * width_px / 1000))
        if layout.background:
            with Image.open(layout.background) as picture:
                image = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        else:
            image = Image.new("RGB", size, layout.paper[variant % len(layout.paper)])
        draw_ground(Pen(image, width_px / 1000, faces), layout, variant)
        _GROUNDS[key] = image
        if len(_GROUNDS) > _GROUNDS_KEPT:
            _GROUNDS.popitem(last=False)
    return _GROUNDS[key]
