"""Pages with boxes for a person's glance: coloured outlines on the print, and beside it a panel that names them.

Nothing is written over the print: a box carries only its small number, the panel next to the page holds number, label, value,
confidence and what the validators said, in the box's colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files

from PIL import Image, ImageDraw, ImageFont

from certloop.extract.ingest import Page
from certloop.extract.result import Document, FieldResult, FieldStatus, Polygon, Result

Color = tuple[int, int, int]

GREEN: Color = (22, 128, 61)
AMBER: Color = (190, 110, 0)
RED: Color = (200, 30, 30)
GREY: Color = (110, 110, 110)
BLUE: Color = (30, 90, 200)
INK: Color = (25, 25, 25)
PAPER: Color = (250, 250, 248)

LOW_CONFIDENCE = 0.8
MAX_PAGE_EDGE = 2000  # px; larger pages are scaled down for the picture
LEGEND = (
    (GREEN, "read, checks pass"),
    (AMBER, f"read, confidence < {LOW_CONFIDENCE} or soft check fails"),
    (RED, "hard check fails or unreadable"),
    (GREY, "no value"),
    (BLUE, "seal / QR"),
)


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the panel. ``number`` is drawn at the box too (None: nothing to point at)."""

    text: str
    color: Color
    number: int | None = None
    polygon: Polygon | None = None
    heading: bool = False


def annotate(result: Result, pages: Sequence[Page], titles: Mapping[str, str] | None = None) -> list[Image.Image]:
    """One RGB picture per page of ``pages``: the page on the left, its fields on the right. Boxes are those of ``result``;
    ``titles`` names document types by id, for documents without a printed title."""
    return [_draw(page, list(_rows(result, page.index, titles or {}, first=page is pages[0]))) for page in pages]


def color_of(field: FieldResult) -> Color:
    """What a field's box says at a glance."""
    if field.status is FieldStatus.UNREADABLE or any(v.failed and v.severity.value == "hard" for v in field.validations):
        return RED
    if field.status is not FieldStatus.READ:
        return GREY
    doubtful = field.confidence < LOW_CONFIDENCE or any(v.failed for v in field.validations)
    return AMBER if doubtful else GREEN


def _rows(result: Result, page: int, titles: Mapping[str, str], *, first: bool) -> Iterator[_Row]:
    if result.error is not None:
        yield _Row(f"{result.error['code']}: {result.error['message']}", RED)
    numbers = iter(range(1, 10_000))
    for order, document in enumerate(result.documents, start=1):
        if page not in document.pages:
            continue
        title = document.title or titles.get(document.doc_type, document.doc_type)
        if document.doc_type == "unknown":
            title = "no known certificate type"
        yield _Row(
            f"{order}. {title}  [{document.doc_type} {document.type_confidence:.2f}]", INK, heading=True, polygon=document.box
        )
        yield from _field_rows(document, page, numbers, first=first)
        if document.missing and page == document.pages[0]:
            labels = [document.fields[name].label if name in document.fields else name for name in document.missing]
            yield _Row(f"missing: {', '.join(labels)}", AMBER)
        for verdict in document.validations:
            if verdict.failed:
                yield _Row(f"× {verdict.message_zh}", RED if verdict.severity.value == "hard" else AMBER)
        for seal in document.seals:
            if seal.page == page:
                yield _Row(f"seal: {seal.color} {seal.shape} {seal.text or ''}".rstrip(), BLUE, next(numbers), seal.box)
        for code in document.qr:
            if code.page == page:
                yield _Row(f"QR: {code.payload}", BLUE, next(numbers), code.box)
        if flags := [f"{name} {value:.2f}" for name, value in document.quality.items() if value >= 0.5]:
            yield _Row(f"quality: {', '.join(flags)}", GREY)


def _field_rows(document: Document, page: int, numbers: Iterator[int], *, first: bool) -> Iterator[_Row]:
    """Fields whose value stands on this page; fields without a place are listed once, on the file's first page."""
    for field in document.fields.values():
        here = field.page == page if field.page is not None else first
        if not here or field.status is FieldStatus.ABSENT:
            continue
        number = next(numbers) if field.box is not None else None
        if field.value is None:
            yield _Row(f"{field.label}: ({field.status.value})", color_of(field), number, field.box)
            continue
        failed = "".join(f" × {v.message_zh}" for v in field.validations if v.failed)
        yield _Row(f"{field.label}: {field.value}  [{field.confidence:.2f}]{failed}", color_of(field), number, field.box)


def _draw(page: Page, rows: Sequence[_Row]) -> Image.Image:
    picture = Image.fromarray(page.image).convert("RGB")
    picture.thumbnail((MAX_PAGE_EDGE, MAX_PAGE_EDGE))
    scale = picture.width / page.width  # user pixels -> picture pixels
    size = max(15, min(26, picture.height // 55))
    _draw_boxes(picture, rows, scale, size)
    panel = _panel(rows, width=max(440, int(0.62 * picture.width)), min_height=picture.height, size=size)
    sheet = Image.new("RGB", (picture.width + panel.width, max(picture.height, panel.height)), PAPER)
    sheet.paste(picture, (0, 0))
    sheet.paste(panel, (picture.width, 0))
    return sheet


def _draw_boxes(picture: Image.Image, rows: Iterable[_Row], scale: float, size: int) -> None:
    draw = ImageDraw.Draw(picture)
    font = _font(max(12, int(size * 0.8)))
    for row in rows:
        if row.polygon is None:
            continue
        points = [(x * scale, y * scale) for x, y in row.polygon]
        draw.line([*points, points[0]], fill=row.color, width=1 if row.heading else max(2, size // 8), joint="curve")
        if row.number is None:
            continue
        text = str(row.number)
        left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
        width, height = right - left + 6, bottom - top + 6
        x = min(max(p[0] for p in points) + 2, picture.width - width)  # right of the value, where paper is mostly empty
        y = min(max(0.0, min(p[1] for p in points)), picture.height - height)
        draw.rectangle((x, y, x + width, y + height), fill=row.color)
        draw.text((x + 3 - left, y + 3 - top), text, font=font, fill="white")


def _panel(rows: Sequence[_Row], *, width: int, min_height: int, size: int) -> Image.Image:
    font, margin, step = _font(size), size, int(size * 1.45)
    badge = int(size * 2.0)
    laid_out = [(row, _wrap(row.text, font, width - 2 * margin - (0 if row.heading else badge))) for row in rows]
    legend_size = max(12, int(size * 0.75))
    legend_height = int(legend_size * 1.5) * len(LEGEND) + margin
    height = 2 * margin + sum(step * len(lines) + step // 3 for _, lines in laid_out) + legend_height
    panel = Image.new("RGB", (width, max(height, min_height)), PAPER)
    draw = ImageDraw.Draw(panel)
    y = margin
    for row, lines in laid_out:
        x = margin if row.heading else margin + badge
        if row.number is not None:
            draw.rectangle((margin, y + 2, margin + badge - 8, y + step - 4), fill=row.color)
            draw.text((margin + (badge - 8) // 2, y + step // 2 - 1), str(row.number), font=font, fill="white", anchor="mm")
        for line in lines:
            draw.text((x, y), line, font=font, fill=row.color)
            y += step
        y += step // 3
    _draw_legend(draw, margin, panel.height - legend_height, legend_size)
    return panel


def _draw_legend(draw: ImageDraw.ImageDraw, x: int, y: int, size: int) -> None:
    font = _font(size)
    for color, text in LEGEND:
        draw.rectangle((x, y + 3, x + size, y + size), fill=color)
        draw.text((x + 2 * size, y - 1), text, font=font, fill=GREY)
        y += int(size * 1.5)


def _wrap(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """Chinese breaks anywhere: fill each line character by character."""
    lines, line = [], ""
    for char in text.replace("\n", " "):
        if line and font.getlength(line + char) > width:
            lines.append(line)
            line = ""
        line += char
    return [*lines, line]


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.FreeTypeFont:
    with as_file(files("pylopdf_fonts_zh_cn") / "NotoSansSC-Regular.otf") as path:
        return ImageFont.truetype(str(path), size)
