"""Steps of lens, sensor, copier and screen: blur, noise, photocopy, scanner edge, moire, app frame, compression,
albumentations."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib import import_module
from typing import Any

import cv2
import numpy as np

from certloop.synth.errors import ProfileError
from certloop.synth.perturb.state import Params, State, pixels


def blur(state: State, rng: np.random.Generator, p: Params) -> None:
    """Defocus of ``sigma`` pixels at a long edge of 1400."""
    sigma = p["sigma"] * max(state.size) / 1400
    if sigma > 0.15:
        state.image = pixels(cv2.GaussianBlur(state.image, (0, 0), sigma))


def noise(state: State, rng: np.random.Generator, p: Params) -> None:
    """Sensor noise of ``sigma`` grey levels, part of it shared by the three channels."""
    w, h = state.size
    tile = _noise_tile()
    y, x = int(rng.integers(0, tile.shape[0] - 1)), int(rng.integers(0, tile.shape[1] - 1))
    grain = np.take(np.take(tile, np.arange(y, y + h), axis=0, mode="wrap"), np.arange(x, x + w), axis=1, mode="wrap")
    state.image = np.clip(state.image + grain * np.float32(p["sigma"]), 0, 255).astype(np.uint8)


@lru_cache(maxsize=1)
def _noise_tile() -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(20150803))
    shared = rng.normal(0, 0.8, (1031, 1021, 1))
    return np.asarray(shared + rng.normal(0, 0.6, (1031, 1021, 3)), np.float32)


def photocopy(state: State, rng: np.random.Generator, p: Params) -> None:
    """Grey toner: hard contrast, faded patches, specks. Red ink turns into middle grey, as copiers show it."""
    w, h = state.size
    grey = cv2.cvtColor(state.image, cv2.COLOR_RGB2GRAY).astype(np.float32)
    grey = 255 - np.clip((250 - grey) * p["contrast"], 0, 255)
    patches = cv2.resize(rng.random((6, 8)).astype(np.float32), (w, h), interpolation=cv2.INTER_CUBIC)
    grey = 255 - (255 - grey) * (1 - p["fade"] * np.clip(patches, 0, 1))
    specks = int(w * h * p["specks"])
    if specks:
        grey[rng.integers(0, h, specks), rng.integers(0, w, specks)] = rng.uniform(0, 160, specks)
    state.image = pixels(cv2.cvtColor(np.clip(grey, 0, 255).astype(np.uint8), cv2.COLOR_GRAY2RGB))


def scan_edge(state: State, rng: np.random.Generator, p: Params) -> None:
    """The dark line that a lid leaves along one edge of a scan."""
    w, _ = state.size
    width = max(2, int(rng.uniform(0.003, 0.012) * w))
    ramp = np.linspace(rng.uniform(0.25, 0.7), 1, width, dtype=np.float32)
    side = rng.integers(0, 4)
    image = state.image.astype(np.float32)
    if side == 0:
        image[:, :width] *= ramp[None, :, None]
    elif side == 1:
        image[:, -width:] *= ramp[None, ::-1, None]
    elif side == 2:
        image[:width] *= ramp[:, None, None]
    else:
        image[-width:] *= ramp[::-1, None, None]
    state.image = image.astype(np.uint8)


def moire(state: State, rng: np.random.Generator, p: Params) -> None:
    """The interference of a screen's pixel grid with a sensor: two slanted gratings whose colours drift."""
    w, h = state.size
    y, x = np.mgrid[0:h:2, 0:w:2].astype(np.float32)
    field = np.zeros((*y.shape, 3), np.float32)
    for channel in range(3):
        fx, fy = rng.uniform(0.02, 0.35), rng.uniform(-0.2, 0.35)
        field[..., channel] = np.sin(x * fx + y * fy + channel * 0.9) * np.sin(x * rng.uniform(0.003, 0.02) - y * fy * 0.1)
    full = cv2.resize(field, (w, h), interpolation=cv2.INTER_LINEAR)
    state.image = np.clip(state.image * (1 + p["strength"] * full), 0, 255).astype(np.uint8)


def app_frame(state: State, rng: np.random.Generator, p: Params) -> None:
    """A phone's picture viewer around the page: bars above and below; the page moves down."""
    w, h = state.size
    bar, below = int(0.09 * w), int(rng.uniform(0.03, 0.16) * w)
    colour = (0, 0, 0) if rng.random() < 0.6 else (246, 246, 246)
    framed = np.full((h + bar + below, w, 3), colour, np.uint8)
    framed[:bar] = (250, 250, 250) if rng.random() < 0.5 else (24, 24, 26)
    ink = (40, 40, 40) if framed[0, 0, 0] > 128 else (230, 230, 230)
    size = w / 1400
    cv2.putText(
        framed,
        f"{rng.integers(7, 23)}:{rng.integers(10, 59)}",
        (int(40 * size), int(58 * size)),
        cv2.FONT_HERSHEY_SIMPLEX,
        1.4 * size,
        ink,
        max(1, int(2 * size)),
        cv2.LINE_AA,
    )
    cv2.putText(
        framed,
        "4G",
        (int(w - 220 * size), int(58 * size)),
        cv2.FONT_HERSHEY_SIMPLEX,
        1.3 * size,
        ink,
        max(1, int(2 * size)),
        cv2.LINE_AA,
    )
    cv2.rectangle(framed, (int(w - 120 * size), int(32 * size)), (int(w - 50 * size), int(62 * size)), ink, max(1, int(3 * size)))
    cv2.line(framed, (int(60 * size), int(96 * size)), (int(44 * size), int(108 * size)), ink, max(1, int(4 * size)), cv2.LINE_AA)
    framed[bar : bar + h] = state.image
    state.image = framed
    if state.cover is not None:
        state.cover = np.pad(state.cover, ((bar, below), (0, 0)))
    state.quads = state.quads + np.array([0, bar])


def jpeg(state: State, rng: np.random.Generator, p: Params) -> None:
    """Remember the quality the image is saved with (it is compressed once, when it is written)."""
    state.jpeg_quality = int(p["quality"])


def albumentations_step(state: State, rng: np.random.Generator, p: Params) -> None:
    """Any pixel-level transform of albumentations 2.0.8, by name, seeded from this step's stream."""
    albumentations = _library()
    name = p["transform"]
    cls = getattr(albumentations, name, None)
    if cls is None or not issubclass(cls, albumentations.ImageOnlyTransform):
        raise ProfileError(f"albumentations has no pixel-level transform {name!r} (geometric ones would leave the boxes behind)")
    arguments = {k: v for k, v in p.items() if k not in ("transform", "step", "chance")}
    transform = albumentations.Compose([cls(p=1.0, **arguments)], seed=int(rng.integers(0, 2**31 - 1)))
    state.image = transform(image=state.image)["image"]


@lru_cache(maxsize=1)
def _library() -> Any:
    """albumentations without the torch it imports where torch is installed: half a gigabyte and two seconds a worker saved."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    absent = "torch" not in sys.modules
    if absent:
        sys.modules["torch"] = None  # type: ignore[assignment]  # the import system's own way to say: not to be had
    try:
        return import_module("albumentations")
    finally:
        if absent:
            del sys.modules["torch"]
