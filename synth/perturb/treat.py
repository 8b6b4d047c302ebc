"""Treats a page by a profile and says, for each field, whether a person could still read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from certloop.synth.perturb.profiles import STEPS, Profile, draw_params
from certloop.synth.perturb.state import Pixels, Points, State, pixels
from certloop.synth.seeds import pixels_rng

_COVERED_UNREADABLE = 0.12
_SMALLEST_TEXT_PX = 7.0


@dataclass(slots=True)
class Treated:
    """``quads`` (N, 4, 2) follow the input's order, ``readable`` is readable, hard or unreadable by key."""

    image: Pixels
    quads: Points
    readable: dict[str, str]
    done: list[dict[str, Any]]
    rotate_cw: int
    jpeg_quality: int | None


def treat(image: Pixels, quads: Points, keys: Sequence[str], profile: Profile, seed: int) -> Treated:
    """Run ``profile`` on an RGB image with tracked boxes; a key that starts with ``-`` is tracked and never masked."""
    state = State(image.copy(), np.asarray(quads, np.float64), tuple(keys))
    for index, step in enumerate(profile.steps):
        rng = pixels_rng(seed, profile.name, index, step["step"])
        if rng.random() >= step.get("chance", 1.0):
            continue
        params = draw_params(step, rng)
        STEPS[step["step"]][0](state, rng, params)
        state.done.append({"step": step["step"], **{k: round(v, 4) if isinstance(v, float) else v for k, v in params.items()}})
    return Treated(state.image, state.quads, _readability(state), state.done, state.rotate_cw, state.jpeg_quality)


def _readability(state: State) -> dict[str, str]:
    """Worst line of each key: covered, cut off, too small or without contrast is unreadable."""
    order: Mapping[str, int] = {"readable": 0, "hard": 1, "unreadable": 2}
    grey = pixels(cv2.cvtColor(state.image, cv2.COLOR_RGB2GRAY))
    out: dict[str, str] = {}
    for key, quad in zip(state.keys, state.quads, strict=True):
        name = key.split("|")[0]
        verdict = "unreadable" if name in state.masked else _line_verdict(grey, state.cover, quad)
        if order[verdict] >= order.get(out.get(name, "readable"), 0):
            out[name] = verdict
    return out


def _line_verdict(grey: Pixels, cover: Pixels | None, quad: np.ndarray) -> str:
    h, w = grey.shape
    if (quad < -1.5).any() or (quad[:, 0] > w + 1.5).any() or (quad[:, 1] > h + 1.5).any():
        return "unreadable"
    height = float(np.linalg.norm(quad[3] - quad[0]) + np.linalg.norm(quad[2] - quad[1])) / 2
    x0, y0 = np.maximum(0, quad.min(axis=0).astype(int))
    x1, y1 = np.ceil(quad.max(axis=0)).astype(int)
    part = grey[y0:y1, x0:x1]
    if part.size < 4 or height < _SMALLEST_TEXT_PX:
        return "unreadable"
    low, high = np.percentile(part, (4, 92))
    covered = 0.0 if cover is None else float((cover[y0:y1, x0:x1] > 0).mean())
    if covered > _COVERED_UNREADABLE or high - low < 14:
        return "unreadable"
    return "hard" if covered > 0.02 or height < 13 or high - low < 40 else "readable"
