"""Steps that hide or overprint values: masks put on by a person, fingers, later stamps, watermarks of a user."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image, ImageDraw

from certloop.synth.perturb.state import Params, State
from certloop.synth.render.fonts import default_faces, open_font

_MARKS = ("仅供备案使用", "此复印件仅供投标使用", "仅供办理开户业务使用", "与原件一致", "复印无效")


def mask(state: State, rng: np.random.Generator, p: Params) -> None:
    """Cover whole values by a mosaic, a black bar or white paint: what the label then says is null."""
    repeated = {k.split("|")[0].removeprefix("-repeat:") for k in state.keys if k.startswith("-repeat:")}
    keys = sorted({k.split("|")[0] for k in state.keys if not k.startswith("-")} - repeated)
    if not keys:
        return
    chosen = set(rng.choice(keys, size=min(len(keys), int(p["fields"])), replace=False).tolist())
    hidden = np.zeros(state.image.shape[:2], np.uint8)
    for key, quad in zip(state.keys, state.quads, strict=True):
        if key.split("|")[0] not in chosen:
            continue
        (x0, y0), (x1, y1) = quad.min(axis=0).astype(int) - 2, quad.max(axis=0).astype(int) + 2
        x0, y0 = max(0, x0), max(0, y0)
        part = state.image[y0:y1, x0:x1]
        if part.size == 0:
            continue
        if p["kind"] == "mosaic":
            step = max(3, (y1 - y0) // 3)
            small = cv2.resize(part, (max(1, (x1 - x0) // step), max(1, (y1 - y0) // step)), interpolation=cv2.INTER_AREA)
            state.image[y0:y1, x0:x1] = cv2.resize(small, (part.shape[1], part.shape[0]), interpolation=cv2.INTER_NEAREST)
        else:
            part[:] = 8 if p["kind"] == "black" else 250
        hidden[y0:y1, x0:x1] = 255
    state.hide(hidden)
    state.masked |= chosen


def finger(state: State, rng: np.random.Generator, p: Params) -> None:
    """A fingertip that holds the page at one edge."""
    w, h = state.size
    left = rng.random() < 0.5
    x, y = (0 if left else w), rng.uniform(0.3, 0.9) * h
    radius = p["size"] * w
    axes = (int(radius * 1.5), int(radius * 0.55))
    layer = np.zeros((h, w), np.uint8)
    cv2.ellipse(layer, (int(x), int(y)), axes, float(rng.uniform(-25, 25)), 0, 360, 255, -1, cv2.LINE_AA)
    soft = cv2.GaussianBlur(layer, (0, 0), max(1.0, radius * 0.03)).astype(np.float32)[..., None] / 255
    distance = cv2.distanceTransform((layer > 127).astype(np.uint8), cv2.DIST_L2, 3)
    shade = 0.72 + 0.28 * np.clip(distance / (axes[1] + 1e-6), 0, 1)
    skin = np.array([222, 176, 150], np.float32) * rng.uniform(0.7, 1.05)
    state.image = (state.image * (1 - soft) + skin * shade[..., None] * soft).astype(np.uint8)
    state.hide((layer > 127).astype(np.uint8) * 255)


def note_stamp(state: State, rng: np.random.Generator, p: Params) -> None:
    """A framed rubber stamp put on a copy; its ink multiplies, so values under it stay readable."""
    w, _ = state.size
    words = str(rng.choice(_MARKS))
    size = int(w * rng.uniform(0.02, 0.034))
    font = open_font(default_faces().face_for("hei", words[0]), size)
    tile = Image.new("L", (int(size * (len(words) + 1)), int(size * 2)), 0)
    draw = ImageDraw.Draw(tile)
    draw.rectangle((1, 1, tile.width - 2, tile.height - 2), outline=255, width=max(2, size // 10))
    draw.text((size * 0.5, size), words, font=font, fill=255, anchor="lm")
    _overprint(
        state, tile.rotate(float(rng.uniform(-12, 12)), resample=Image.Resampling.BICUBIC, expand=True), rng, (210, 50, 50), 0.75
    )


def user_watermark(state: State, rng: np.random.Generator, p: Params) -> None:
    """Slanted words that a user lays over a picture (仅供…使用), half transparent."""
    w, _ = state.size
    words = str(rng.choice(_MARKS))
    size = int(w * rng.uniform(0.035, 0.06))
    font = open_font(default_faces().face_for("hei", words[0]), size)
    tile = Image.new("L", (int(size * (len(words) + 1)), int(size * 1.6)), 0)
    ImageDraw.Draw(tile).text((size * 0.5, size * 0.8), words, font=font, fill=255, anchor="lm")
    _overprint(
        state,
        tile.rotate(float(rng.uniform(-35, 35)), resample=Image.Resampling.BICUBIC, expand=True),
        rng,
        (120, 120, 120),
        float(rng.uniform(0.25, 0.5)),
    )


def _overprint(state: State, tile: Image.Image, rng: np.random.Generator, rgb: tuple[int, int, int], strength: float) -> None:
    w, h = state.size
    tile = tile.crop((0, 0, min(tile.width, w), min(tile.height, h)))
    x, y = int(rng.integers(0, max(1, w - tile.width))), int(rng.integers(0, max(1, h - tile.height)))
    alpha = np.asarray(tile, np.float32)[..., None] / 255 * strength
    part = state.image[y : y + tile.height, x : x + tile.width].astype(np.float32)
    state.image[y : y + tile.height, x : x + tile.width] = (part * (1 - alpha + alpha * np.array(rgb, np.float32) / 255)).astype(
        np.uint8
    )
