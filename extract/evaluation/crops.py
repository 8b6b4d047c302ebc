"""Cuts the region of a field out of its image, upright, as a data URI that needs no other file."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps

from certloop.extract.result import Polygon

MAX_CROP_PX = (480, 160)
MAX_PAGE_PX = (160, 160)
PADDING = 0.35
"""Of the box's shorter side, so that a cut-off neighbour shows."""

_TURNS = {1: Image.Transpose.ROTATE_90, 2: Image.Transpose.ROTATE_180, 3: Image.Transpose.ROTATE_270}


@dataclass(frozen=True, slots=True)
class Region:
    """What to cut: a polygon in pixels of a page (None: the whole page, small)."""

    box: Polygon | None = None
    page: int = 0


@dataclass(frozen=True, slots=True)
class Crop:
    """A picture as a data URI, or a note that says why there is none."""

    uri: str | None = None
    note: str = ""


def crop_all(images_dir: Path | str | None, file: str, regions: Sequence[Region]) -> list[Crop]:
    """Return one crop a region; a file is opened once. A picture that cannot be shown gives a note, never an error.

    Only files inside ``images_dir`` are opened.
    """
    if images_dir is None:
        return [Crop(note="no folder of images was given")] * len(regions)
    if not file.isprintable():  # a NUL, or no text at all
        return [Crop(note="image not found")] * len(regions)
    root = Path(images_dir).resolve()
    path = next((p for p in ((root / file).resolve(), root / Path(file).name) if p.is_file() and p.is_relative_to(root)), None)
    if path is None:
        return [Crop(note="image not found")] * len(regions)
    pages: dict[int, Image.Image | str] = {}
    crops = []
    for region in regions:
        if region.page not in pages:
            pages[region.page] = _open(path, region.page)
        page = pages[region.page]
        crops.append(Crop(note=page) if isinstance(page, str) else _cut(page, region.box))
    return crops


def _open(path: Path, page: int) -> Image.Image | str:
    try:
        with Image.open(path) as image:
            image.seek(page)
            return _rgb(ImageOps.exif_transpose(image))
    except EOFError:
        return f"the image has no page {page + 1}"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"not an image that can be shown here ({type(error).__name__})"


def _rgb(image: Image.Image) -> Image.Image:
    """Transparency becomes white and 16 bits keep their grey: a bare ``convert("RGB")`` does neither."""
    if image.mode.startswith("I;16"):
        image = image.convert("I").point(lambda grey: grey / 256).convert("L")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")


def _cut(page: Image.Image, box: Polygon | None) -> Crop:
    if box is None:
        small = page.copy()
        small.thumbnail(MAX_PAGE_PX)
        return Crop(_data_uri(small), "no box: the whole page")
    if not box or not all(math.isfinite(v) for point in box for v in point):
        return Crop(note="the box is empty")
    xs, ys = [x for x, _ in box], [y for _, y in box]
    pad = PADDING * min(max(xs) - min(xs), max(ys) - min(ys)) + 2
    left, top = max(0, math.floor(min(xs) - pad)), max(0, math.floor(min(ys) - pad))
    right, bottom = min(page.width, math.ceil(max(xs) + pad)), min(page.height, math.ceil(max(ys) + pad))
    if right <= left or bottom <= top:
        return Crop(note="the box lies outside the page")
    crop = page.crop((left, top, right, bottom))
    if turn := _TURNS.get(_quarter_turns(box)):
        crop = crop.transpose(turn)
    crop.thumbnail(MAX_CROP_PX)
    return Crop(_data_uri(crop))


def _quarter_turns(box: Polygon) -> int:
    """How often the text is turned clockwise by 90 degrees: the first side of a polygon runs along the text."""
    if len(box) < 2:
        return 0
    (x0, y0), (x1, y1) = box[0], box[1]
    return round(math.atan2(y1 - y0, x1 - x0) / (math.pi / 2)) % 4


def _data_uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
