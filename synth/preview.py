"""A contact sheet: samples side by side with the boxes of their values, to look at before training on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from certloop.synth.label import Sample, make_sample
from certloop.synth.layout import load_layouts
from certloop.synth.perturb import load_profile
from certloop.synth.render.fonts import default_faces, open_font
from certloop.synth.sample import Recipe
from certloop.synth.seeds import stream_seed

_COLOURS = {"readable": (0, 150, 0), "hard": (235, 140, 0), "unreadable": (220, 0, 200), "blank": (60, 90, 230)}


def preview(
    type_id: str,
    *,
    profile: str = "photo",
    count: int = 12,
    seed: int = 0,
    tile_px: int = 640,
    columns: int = 3,
    search_path: Iterable[Path | str] = (),
) -> Image.Image:
    """Draw ``count`` samples of ``type_id``, walking through its layouts. Raises what ``make_sample`` raises."""
    folders = tuple(str(p) for p in search_path)
    ids = [layout.id for layout in load_layouts(type_id, folders)]
    loaded = load_profile(profile)
    samples = [
        make_sample(Recipe(type_id, stream_seed(seed, "preview", i), layouts=(ids[i % len(ids)],), search_path=folders), loaded)
        for i in range(count)
    ]
    return contact_sheet(samples, tile_px=tile_px, columns=columns)


def contact_sheet(samples: Sequence[Sample], *, tile_px: int = 640, columns: int = 3) -> Image.Image:
    """Lay ``samples`` out with boxes: green readable, orange hard, magenta unreadable, grey labels, red seals."""
    caption = 22
    rows = (len(samples) + columns - 1) // columns
    sheet = Image.new("RGB", (columns * tile_px, rows * (tile_px + caption)), (70, 70, 74))
    draw = ImageDraw.Draw(sheet)
    font = open_font(default_faces().face_for("hei", "a"), 15)
    for number, sample in enumerate(samples):
        x, y = number % columns * tile_px, number // columns * (tile_px + caption)
        tile = _with_boxes(sample)
        tile.thumbnail((tile_px, tile_px))
        sheet.paste(tile, (x, y + caption))
        label = sample.label
        draw.text(
            (x + 4, y + 3),
            f"{label['layout']}  {label['profile']}  turn {label['rotate_cw_after_exif']}",
            font=font,
            fill=(255, 255, 255),
        )
    return sheet


def _with_boxes(sample: Sample) -> Image.Image:
    image = Image.fromarray(sample.image).convert("RGB")
    draw = ImageDraw.Draw(image)
    width = max(1, image.width // 600)
    for polygons in sample.label["labels"].values():
        for polygon in polygons:
            draw.polygon([tuple(p) for p in polygon], outline=(130, 130, 130), width=1)
    for seal in sample.label["seals"]:
        draw.polygon([tuple(p) for p in seal["polygon"]], outline=(220, 30, 30), width=width)
    for box in sample.label["boxes"].values():
        for polygon in box["lines"]:
            draw.polygon([tuple(p) for p in polygon], outline=_COLOURS[box["readable"]], width=width)
    return image
