"""Writing: measuring, wrapping, letter-spacing, gradients. Every function returns the boxes of what it drew, in pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from PIL import Image, ImageColor, ImageDraw, ImageFont

from certloop.synth.errors import TextFitError
from certloop.synth.layout import Style
from certloop.synth.render.fonts import Faces, advance, open_font

Box = tuple[float, float, float, float]
SMALLEST = 0.55
_NO_START = frozenset("，。；：、）)】》』”！？,.;:】")
_GRADIENTS = {
    "gold": ("#8a6a1e", "#d9b640", "#f0d060", "#b08a2c", "#7a5a18"),
    "bronze": ("#b87a28", "#c98a35", "#b06a20"),
    "dark_gold": ("#2e2a1c", "#5a4c1e", "#9a8430", "#3a3420", "#2a2618"),
    "foil": ("#3a2f22", "#4a4030", "#e8d24a", "#f2e27a", "#d2b838"),
}


@dataclass(frozen=True, slots=True)
class Pen:
    """What writes: a canvas, its scale (pixels per layout unit) and the faces."""

    canvas: Image.Image
    scale: float
    faces: Faces

    def size_px(self, style: Style) -> float:
        return max(5.0, round(style.size * self.scale * 2) / 2)


def step_px(pen: Pen, char: str, style: Style) -> float:
    """How far one character of ``style`` moves on, in pixels: its stretched width and the letter-spacing."""
    size = pen.size_px(style)
    return advance(pen.faces.face_for(style.font, char), size, char) * style.stretch + style.spacing * size


def measure(pen: Pen, text: str, style: Style) -> float:
    """Width of ``text`` in pixels."""
    return sum(step_px(pen, char, style) for char in text)


def wrap(pen: Pen, text: str, style: Style, width_px: float, *, tidy: bool = True, first_indent: float = 0.0) -> list[str]:
    """Break ``text`` by width. ``tidy`` keeps closing punctuation off line starts (printers of forms often do not)."""
    lines: list[str] = []
    for part in text.split("\n"):
        line, used = "", first_indent if not lines else 0.0
        for char in part:
            step = step_px(pen, char, style)
            if line and used + step > width_px + 0.5:
                if tidy and char in _NO_START and len(line) > 1:
                    lines.append(line[:-1])
                    line, used = line[-1], step_px(pen, line[-1], style)
                else:
                    lines.append(line)
                    line, used = "", 0.0
            line += char
            used += step
        lines.append(line)
    return lines


def fit(pen: Pen, text: str, style: Style, width_px: float, max_lines: int, *, tidy: bool = True) -> tuple[Style, list[str]]:
    """Shrink until ``text`` stands in ``max_lines`` lines. Raises TextFitError (code text_does_not_fit) below SMALLEST of the
    size."""
    factor = 1.0
    while factor >= SMALLEST:
        smaller = replace(style, size=style.size * factor, spacing=style.spacing if factor == 1 else 0.0)
        lines = wrap(pen, text, smaller, width_px, tidy=tidy)
        if len(lines) <= max(max_lines, int(max_lines / factor) if max_lines > 2 else max_lines):
            return smaller, lines
        factor -= 0.05
    raise TextFitError(
        f"a text of {len(text)} characters does not fit {max_lines} lines of {width_px:.0f} px in {style.font} {style.size:g}"
    )


def draw_line(pen: Pen, text: str, x: float, middle: float, style: Style) -> Box:
    """Write one line from ``x``, vertically centred on ``middle`` (pixels)."""
    size = pen.size_px(style)
    baseline = middle + 0.37 * size
    draw = ImageDraw.Draw(pen.canvas)
    stroke = style.weight * size
    plain = style.colour not in _GRADIENTS and style.stretch == 1
    start = x
    pieces = [(path, part) for path, part in pen.faces.runs(style.font, text)]
    if style.spacing:
        pieces = [(path, char) for path, part in pieces for char in part]
    for path, part in pieces:
        font = open_font(path, size)
        if not plain:
            _draw_masked(pen, part, x, baseline, font, stroke, style)
        elif part.strip():
            draw.text(
                (x, baseline), part, font=font, fill=style.colour, anchor="ls", stroke_width=stroke, stroke_fill=style.colour
            )
        width = advance(path, size, part) if len(part) == 1 else font.getlength(part)
        x += width * style.stretch + style.spacing * size * len(part)
    return (start, middle - size * 0.52, x - style.spacing * size, middle + size * 0.52)


def draw_spread(pen: Pen, text: str, x: float, middle: float, width_px: float, style: Style) -> Box:
    """Write ``text`` with its characters spread over ``width_px``, as printed labels are; too long a text is squeezed."""
    natural = measure(pen, text, replace(style, spacing=0.0))
    if natural > width_px * 1.02:
        style = replace(style, size=style.size * max(0.72, width_px / natural), spacing=0.0)
        return draw_line(pen, text, x, middle, style)
    if len(text) < 2:
        return draw_line(pen, text, x, middle, style)
    gap = (width_px - natural) / (len(text) - 1)
    size = pen.size_px(style)
    return draw_line(pen, text, x, middle, replace(style, spacing=gap / size))


def draw_lines(
    pen: Pen, lines: list[str], x: float, middle: float, style: Style, *, align: str = "left", width_px: float = 0
) -> list[Box]:
    """Write ``lines`` downwards from ``middle``; ``align`` is left, center (on x) or right (ending at x)."""
    boxes = []
    step = style.leading * pen.size_px(style)
    for i, line in enumerate(lines):
        left = x
        if align != "left":
            width = measure(pen, line, style) - style.spacing * pen.size_px(style)
            left = x - width / 2 if align == "center" else x - width
        boxes.append(draw_line(pen, line, left, middle + i * step, style))
    return boxes


def _draw_masked(
    pen: Pen, text: str, x: float, baseline: float, font: ImageFont.FreeTypeFont, stroke: float, style: Style
) -> None:
    """Write ``text`` narrowed or widened, or filled with a gradient."""
    left, top, right, bottom = font.getbbox(text, anchor="ls", stroke_width=stroke)
    if right <= left or bottom <= top:
        return
    mask = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2), 0)
    ImageDraw.Draw(mask).text((-left + 1, -top + 1), text, font=font, fill=255, anchor="ls", stroke_width=stroke)
    width, height = max(1, round(mask.width * style.stretch)), mask.height
    if width != mask.width:
        mask = mask.resize((width, height), Image.Resampling.BILINEAR)
    place = (int(x + left * style.stretch) - 1, int(baseline + top) - 1)
    if style.colour in _GRADIENTS:
        ramp = _ramp(style.colour, pen.canvas.width).crop((int(x), 0, int(x) + width, 1)).resize((width, height))
        pen.canvas.paste(ramp, place, mask)
    else:
        pen.canvas.paste(style.colour, (*place, place[0] + width, place[1] + height), mask)


@lru_cache(maxsize=16)
def _ramp(name: str, width: int) -> Image.Image:
    stops = [ImageColor.getrgb(c)[:3] for c in _GRADIENTS[name]]
    strip = Image.new("RGB", (len(stops), 1))
    strip.putdata(stops)
    return strip.resize((width, 1), Image.Resampling.BILINEAR)
