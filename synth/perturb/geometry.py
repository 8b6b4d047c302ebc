"""Steps that move pixels: curl, folds, placing on a ground in perspective, shrinking, turning. Boxes follow each of them
exactly."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.synth.perturb.ground import make_ground
from certloop.synth.perturb.state import Params, Pixels, Points, State, pixels

_FLAT_GROUNDS = ("white", "black")  # a scanner's lid, a screen: nothing throws a shadow


def curl(state: State, rng: np.random.Generator, p: Params) -> None:
    """Bend the paper: rows shift along a smooth curve of x, columns along one of y (fractions of the width)."""
    w, h = state.size
    a, b = p["amount"] * w, p["amount"] * w * rng.uniform(-0.5, 0.5)
    phase, waves = rng.uniform(0, math.tau), rng.uniform(0.5, 1.3)
    columns = a * np.sin(np.arange(w) / w * math.tau * waves + phase)
    rows = b * np.sin(np.arange(h) / h * math.tau * rng.uniform(0.4, 1.0) + rng.uniform(0, math.tau))
    _shift(state, columns, rows)
    shade = 1 + 0.05 * np.gradient(columns) / max(1e-6, np.abs(np.gradient(columns)).max())
    state.image = np.clip(state.image * shade[None, :, None], 0, 255).astype(np.uint8)


def fold(state: State, rng: np.random.Generator, p: Params) -> None:
    """Creases of folded paper: slopes change at one or two lines, each with a light and a dark side."""
    w, h = state.size
    depth = p["depth"] * w
    at_x, at_y = rng.uniform(0.3, 0.7) * w, rng.uniform(0.3, 0.7) * h
    columns = depth * (1 - np.abs(np.arange(w) - at_x) / max(at_x, w - at_x))
    rows = depth * rng.uniform(-0.6, 0.6) * (1 - np.abs(np.arange(h) - at_y) / max(at_y, h - at_y))
    _shift(state, columns, rows)
    light = np.ones((h, w), np.float32)
    for axis, at, size in ((1, at_x, w), (0, at_y, h)):
        t = (np.arange(size) - at) / (0.006 * size)
        crease = 1 - 0.16 * np.exp(-((t - 1) ** 2)) + 0.10 * np.exp(-((t + 1) ** 2))
        light *= crease[None, :] if axis == 1 else crease[:, None]
    state.image = np.clip(state.image * light[..., None], 0, 255).astype(np.uint8)


def crumple(state: State, rng: np.random.Generator, p: Params) -> None:
    """Paper that was crumpled and smoothed: small random shifts (``depth``, fraction of the width), creases lit from one side."""
    w, h = state.size
    cells = (int(rng.integers(5, 9)), int(rng.integers(7, 12)))
    shifts = [_smooth(rng.uniform(-1, 1, cells), (w, h)) * p["depth"] * w for _ in range(2)]
    xs, ys = np.meshgrid(np.arange(w, dtype=np.float32), np.arange(h, dtype=np.float32))
    source = (xs + shifts[0], ys + shifts[1])
    state.image = pixels(cv2.remap(state.image, *source, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))
    if state.cover is not None:
        state.cover = pixels(cv2.remap(state.cover, *source, cv2.INTER_NEAREST))
    state.quads = _moved_back(state.quads, shifts)
    light = 1 + p["shade"] * _smooth(_creases((max(16, w // 4), max(16, h // 4)), rng), (w, h))
    state.image = np.clip(state.image * light[..., None], 0, 255).astype(np.uint8)


def _creases(size: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """A light field in about [-1, 1]: straight creases, bright on one side and dark on the other, fading away from them."""
    w, h = size
    y, x = np.mgrid[0:h, 0:w] / float(w)
    field = np.zeros((h, w))
    for _ in range(int(rng.integers(10, 22))):
        a = rng.uniform(0, math.pi)
        cx, cy = rng.uniform(0, 1), rng.uniform(0, h / w)
        across = (x - cx) * math.cos(a) + (y - cy) * math.sin(a)
        along = -(x - cx) * math.sin(a) + (y - cy) * math.cos(a)
        reach, length = rng.uniform(0.02, 0.09), rng.uniform(0.1, 0.45)
        field += rng.uniform(-1, 1) * np.tanh(across / 0.003) * np.exp(-np.abs(across) / reach - (along / length) ** 2)
    return np.clip(field, -1.3, 1.3)


def place(state: State, rng: np.random.Generator, p: Params) -> None:
    """Put the page on a ground, tilted and in perspective; ``margin`` is the ground around it (negative: the page is cut)."""
    w, h = state.size
    pad = p["margin"]
    ground = make_ground(str(p["ground"]), (w, h), rng)
    a = math.radians(p["tilt_deg"])
    corners = np.array([(0, 0), (w, 0), (w, h), (0, h)], np.float64)
    centred = corners - (w / 2, h / 2)
    turned = centred @ np.array([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]])
    turned += rng.uniform(-1, 1, (4, 2)) * p["perspective"] * np.array([w, h]) * 0.5
    span = np.abs(turned).max(axis=0) * 2
    scale = min(w * (1 - 2 * pad) / span[0], h * (1 - 2 * pad) / span[1])
    low, high = turned.min(axis=0), turned.max(axis=0)
    free = np.maximum(0, np.array([w, h]) - (high - low) * scale) / 2
    middle = np.array([w / 2, h / 2]) - (low + high) / 2 * scale + rng.uniform(-1, 1, 2) * free * 0.8
    target = turned * scale + middle
    matrix = cv2.getPerspectiveTransform(corners.astype(np.float32), target.astype(np.float32))
    if p["ground"] not in _FLAT_GROUNDS:
        ground = _shaded(ground, target, rng)
    border = cv2.BORDER_TRANSPARENT
    state.image = pixels(cv2.warpPerspective(state.image, matrix, (w, h), dst=ground, flags=cv2.INTER_LINEAR, borderMode=border))
    if state.cover is not None:
        state.cover = pixels(cv2.warpPerspective(state.cover, matrix, (w, h), flags=cv2.INTER_NEAREST))
    state.quads = project(matrix, state.quads)


def _shaded(ground: Pixels, page: Points, rng: np.random.Generator) -> Pixels:
    """``ground`` with the soft shadow of a sheet that lies on it, drawn small: it is soft anyway."""
    h, w = ground.shape[:2]
    small = np.zeros((max(8, h // 8), max(8, w // 8)), np.uint8)
    lift = rng.uniform(-1, 1, 2) * 0.008 * w
    cv2.fillPoly(small, [np.asarray((page + lift) / 8, np.int32)], (255,), cv2.LINE_AA)
    soft = cv2.GaussianBlur(small, (0, 0), float(rng.uniform(0.8, 2.2))).astype(np.float32) / 255
    light = cv2.resize(1 - np.float32(rng.uniform(0.2, 0.5)) * soft, (w, h), interpolation=cv2.INTER_LINEAR)
    return pixels(ground * light[..., None])


def shrink(state: State, rng: np.random.Generator, p: Params) -> None:
    """Lower the resolution to a long edge of ``long_edge`` pixels (never enlarges)."""
    w, h = state.size
    factor = min(1.0, p["long_edge"] / max(w, h))
    size = (max(1, round(w * factor)), max(1, round(h * factor)))
    state.image = pixels(cv2.resize(state.image, size, interpolation=cv2.INTER_AREA))
    if state.cover is not None:
        state.cover = pixels(cv2.resize(state.cover, size, interpolation=cv2.INTER_NEAREST))
    state.quads = state.quads * np.array([size[0] / w, size[1] / h])


def turn(state: State, rng: np.random.Generator, p: Params) -> None:
    """Turn by quarter turns clockwise; ``rotate_cw`` is what brings the page upright again."""
    degrees = int(p["degrees"]) % 360
    w, h = state.size
    if not degrees:
        return
    code = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}[degrees]
    state.image = pixels(cv2.rotate(state.image, code))
    if state.cover is not None:
        state.cover = pixels(cv2.rotate(state.cover, code))
    x, y = state.quads[..., 0], state.quads[..., 1]
    moved = {90: (h - y, x), 180: (w - x, h - y), 270: (y, w - x)}[degrees]
    state.quads = np.stack(moved, axis=-1)
    state.rotate_cw = (state.rotate_cw + 360 - degrees) % 360


def project(matrix: np.ndarray, points: Points) -> Points:
    """Apply a 3x3 projective matrix to points of any leading shape."""
    flat = np.concatenate([points.reshape(-1, 2), np.ones((points.size // 2, 1))], axis=1) @ np.asarray(matrix, np.float64).T
    return (flat[:, :2] / flat[:, 2:]).reshape(points.shape)


def _smooth(cells: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float32]:
    """A coarse grid as a smooth field of ``size`` (width, height)."""
    return np.asarray(cv2.resize(cells.astype(np.float32), size, interpolation=cv2.INTER_CUBIC), np.float32)


def _moved_back(points: Points, shifts: list[NDArray[np.float32]]) -> Points:
    """Where points go when each pixel is taken from itself plus ``shifts``: a fixed point, found in a few rounds."""
    moved = points.copy()
    for _ in range(8):
        moved = points - np.stack([_sampled(shift, moved) for shift in shifts], axis=-1)
    return moved


def _sampled(field: NDArray[np.float32], points: Points) -> NDArray[np.float64]:
    """Values of ``field`` at points (N, 4, 2), bilinear, clamped at the edges."""
    flat = np.ascontiguousarray(points.reshape(1, -1, 2), np.float32)
    values = cv2.remap(field, flat[..., 0], flat[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(values, np.float64).reshape(points.shape[:-1])


def _shift(state: State, columns: np.ndarray, rows: np.ndarray) -> None:
    """Move (x, y) to (x + rows[y'], y' = y + columns[x]): exactly invertible, so image and boxes agree."""
    w, h = state.size
    xs, ys = np.meshgrid(np.arange(w, dtype=np.float32), np.arange(h, dtype=np.float32))
    source_x = xs - rows.astype(np.float32)[:, None]
    source_y = ys - np.interp(source_x, np.arange(w), columns).astype(np.float32)
    state.image = pixels(cv2.remap(state.image, source_x, source_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))
    if state.cover is not None:
        state.cover = pixels(cv2.remap(state.cover, source_x, source_y, cv2.INTER_NEAREST))
    x, y = state.quads[..., 0], state.quads[..., 1]
    moved_y = y + np.interp(x, np.arange(w), columns)
    state.quads = np.stack([x + np.interp(moved_y, np.arange(h), rows), moved_y], axis=-1)
