"""Which way is up: the page's turn is read off the direction of its text lines, so no pixel is ever rotated for layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.lines import TextLine, map_points


@dataclass(frozen=True, slots=True)
class Upright:
    """``degrees`` clockwise that the page must be turned to stand upright, and the (2, 3) map from page to upright pixels."""

    degrees: float
    matrix: NDArray[np.float64]

    def lines(self, lines: Sequence[TextLine]) -> list[TextLine]:
        return [line.mapped(self.matrix) for line in lines]

    def back(self, points: NDArray[np.floating]) -> NDArray[np.float32]:
        """Map (N, 2) upright points to page pixels."""
        return map_points(points, self.inverse)

    @property
    def inverse(self) -> NDArray[np.float64]:
        """The (3, 3) map from upright to page pixels."""
        inverted: NDArray[np.float64] = np.linalg.inv(np.vstack([self.matrix, [0.0, 0.0, 1.0]]))
        return inverted


def find_upright(lines: Sequence[TextLine], width: int, height: int) -> Upright:
    """Take the direction that carries the most text (weighted by characters and score), in steps of 90 degrees first, then
    the weighted median of the small angles around it."""
    if not lines:
        return Upright(0.0, _rotation(0.0, width, height))
    angles = np.array([_angle(line) for line in lines])
    weights = np.array([max(0, len(line.text) - 1) ** 1.2 * line.score + 1e-3 for line in lines])
    quarter = max((0.0, 90.0, 180.0, 270.0), key=lambda q: float(weights[np.abs(_wrap(angles - q)) < 40].sum()))
    near = np.abs(_wrap(angles - quarter)) < 20
    small = _weighted_median(_wrap(angles[near] - quarter), weights[near]) if near.any() else 0.0
    turn = -(quarter + small)
    return Upright(float(turn % 360), _rotation(turn, width, height))


def _angle(line: TextLine) -> float:
    """Direction of the text in degrees, clockwise from left-to-right (y points down)."""
    dx, dy = line.quad[1] - line.quad[0] + line.quad[2] - line.quad[3]
    return math.degrees(math.atan2(float(dy), float(dx)))


def _wrap(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    return (degrees + 180.0) % 360.0 - 180.0


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _rotation(degrees: float, width: int, height: int) -> NDArray[np.float64]:
    """Rotate clockwise by ``degrees`` about the origin and shift so that the page's corners stay at positive coordinates."""
    angle = math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    matrix = np.array([[cos, -sin], [sin, cos]])
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64) @ matrix.T
    return np.concatenate([matrix, -corners.min(axis=0)[:, None]], axis=1)
