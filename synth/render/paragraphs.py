"""Running text with filled-in values: letters, and forms that state their values in a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from PIL import ImageDraw

from certloop.synth.errors import TextFitError
from certloop.synth.layout import Paragraphs, Style
from certloop.synth.render.text import SMALLEST, Box, Pen, draw_line, step_px

_SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")
Glyph = tuple[str, str, str]


def draw_paragraphs(
    pen: Pen,
    block: Paragraphs,
    text: str,
    facts: Mapping[str, str],
    styles: Mapping[str, Style],
    shift: tuple[float, float],
) -> dict[str, tuple[str, list[Box]]]:
    """Write ``text`` into the block; return, for each field, its value and one box a line.

    Raises TextFitError (code text_does_not_fit) when it does not stand in the block's lines even when shrunk.
    """
    factor = 1.0
    lines, smaller = _break(pen, block, text, facts, styles), styles
    while block.lines and len(lines) > block.lines:
        factor -= 0.05
        if factor < SMALLEST:
            raise TextFitError(f"a paragraph of {len(text)} characters does not fit {block.lines} lines")
        smaller = {name: replace(style, size=style.size * factor) for name, style in styles.items()}
        lines = _break(pen, block, text, facts, smaller)
    found: dict[str, tuple[str, list[Box]]] = {}
    y = block.at[1] * pen.scale
    for line in lines:
        _draw(pen, line, y, smaller, block, found, shift)
        y += styles[block.style].leading * pen.size_px(styles[block.style])
    return {key: (facts[key], boxes) for key, (_, boxes) in found.items()}


def _break(
    pen: Pen, block: Paragraphs, text: str, facts: Mapping[str, str], styles: Mapping[str, Style]
) -> list[list[tuple[Glyph, float]]]:
    """Lines of glyphs with the place of each (pixels)."""
    x0, right = block.at[0] * pen.scale, (block.at[0] + block.width) * pen.scale
    lines: list[list[tuple[Glyph, float]]] = []
    for paragraph in text.split("\n"):
        x = x0 + block.indent * pen.size_px(styles[block.style])
        line: list[tuple[Glyph, float]] = []
        for glyph in _glyphs(paragraph, block, facts):
            style = styles[glyph[1]]
            step = step_px(pen, glyph[0], style)
            if line and x + step > right and glyph[0] not in "，。；：、）":
                lines.append(line)
                line, x = [], x0
            line.append((glyph, x))
            x += step
        lines.append(line)
    return lines


def _glyphs(paragraph: str, block: Paragraphs, facts: Mapping[str, str]) -> list[Glyph]:
    """Characters with the style and the field they belong to."""
    out: list[Glyph] = []
    at = 0
    for match in _SLOT.finditer(paragraph):
        out += [(c, block.style, "") for c in paragraph[at : match.start()]]
        out += [(c, match[2] or block.value_style, match[1]) for c in facts[match[1]]]
        at = match.end()
    return out + [(c, block.style, "") for c in paragraph[at:]]


def _draw(
    pen: Pen, line: list[tuple[Glyph, float]], y: float, styles: Mapping[str, Style], block: Paragraphs,
    found: dict[str, tuple[str, list[Box]]], shift: tuple[float, float],
) -> None:  # fmt: skip
    start = 0
    for end in range(1, len(line) + 1):
        if end < len(line) and line[end][0][1:] == line[start][0][1:]:
            continue
        (_, style_name, field_id), x = line[start]
        style = styles[style_name]
        part = "".join(glyph[0] for glyph, _ in line[start:end])
        dy = shift[1] * 0.5 * pen.scale if field_id else 0.0
        box = draw_line(pen, part, x, y + dy, style)
        if field_id:
            found.setdefault(field_id, ("", []))[1].append(box)
            if block.underline:
                base = y + 0.62 * pen.size_px(style)
                ImageDraw.Draw(pen.canvas).line(
                    (box[0] - 2, base, box[2] + 2, base), fill="#333333", width=max(1, round(pen.scale * 0.8))
                )
        start = end
