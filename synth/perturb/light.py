"""Steps of light and colour: uneven light, shadow, glare, tone."""

from __future__ import annotations

import math

import cv2
import numpy as np

from certloop.synth.perturb.state import Params, State, pixels


def uneven_light(state: State, rng: np.random.Generator, p: Params) -> None:
    """A bright side and a dark side: a smooth ramp with a soft bump, darkest by ``strength``."""
    y, x = np.mgrid[0:24, 0:32] / np.array([24.0, 32.0])[:, None, None]
    a = rng.uniform(0, math.tau)
    ramp = (x - 0.5) * math.cos(a) + (y - 0.5) * math.sin(a)
    bump = np.exp(-((x - rng.uniform(0, 1)) ** 2 + (y - rng.uniform(0, 1)) ** 2) / 0.18)
    field = ramp / 0.7 * 0.6 + bump * 0.5
    _multiply(state, 1.06 - p["strength"] * (field.max() - field) / (field.max() - field.min()))


def shadow(state: State, rng: np.random.Generator, p: Params) -> None:
    """The soft shadow of a hand or phone falling in from one side."""
    mask = np.zeros((96, 128), np.uint8)
    side = rng.integers(0, 4)
    x, y = rng.uniform(20, 108), rng.uniform(16, 80)
    centre = [(x, -8), (x, 104), (-8, y), (136, y)][side]
    axes = (int(rng.uniform(25, 60)), int(rng.uniform(18, 50)))
    cv2.ellipse(mask, (int(centre[0]), int(centre[1])), axes, float(rng.uniform(0, 180)), 0, 360, 255, -1)
    soft = cv2.GaussianBlur(mask, (0, 0), float(rng.uniform(3, 9))).astype(np.float32) / 255
    _multiply(state, 1 - p["strength"] * soft)


def glare(state: State, rng: np.random.Generator, p: Params) -> None:
    """A light's reflection: an ellipse that burns out what it covers (it counts as cover where it is nearly white)."""
    w, h = state.size
    small = (max(16, w // 4), max(16, h // 4))
    y, x = np.mgrid[0 : small[1], 0 : small[0]].astype(np.float32)
    cx, cy = rng.uniform(0.15, 0.85) * small[0], rng.uniform(0.15, 0.85) * small[1]
    rx, ry = p["size"] * small[0] * rng.uniform(0.7, 1.6), p["size"] * small[0] * rng.uniform(0.5, 1.1)
    a = rng.uniform(0, math.pi)
    dx, dy = (x - cx) * math.cos(a) + (y - cy) * math.sin(a), -(x - cx) * math.sin(a) + (y - cy) * math.cos(a)
    spot = cv2.resize(np.exp(-((dx / rx) ** 2 + (dy / ry) ** 2) * 1.2), (w, h)) * p["strength"]
    image = state.image.astype(np.float32)
    state.image = np.clip(image + (262 - image) * spot[..., None], 0, 255).astype(np.uint8)
    state.hide(np.where(spot > 0.78, 255, 0).astype(np.uint8))


def tone(state: State, rng: np.random.Generator, p: Params) -> None:
    """Exposure and white balance: ``gain``, ``offset`` (grey levels), ``warmth`` (red up and blue down)."""
    warm = p["warmth"]
    table = np.arange(256, dtype=np.float32)
    luts = [np.clip(table * p["gain"] * (1 + t) + p["offset"], 0, 255).astype(np.uint8) for t in (warm, 0.0, -warm)]
    state.image = pixels(cv2.LUT(state.image, np.stack(luts, axis=-1)[None]))


def _multiply(state: State, field: np.ndarray) -> None:
    w, h = state.size
    full = cv2.resize(field.astype(np.float32), (w, h), interpolation=cv2.INTER_LINEAR)
    state.image = np.clip(state.image * full[..., None], 0, 255).astype(np.uint8)
