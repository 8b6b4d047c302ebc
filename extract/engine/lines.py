"""Text lines as the OCR engine sees them: text, score, and where every character stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Quad = NDArray[np.float32]  # (4, 2) pixels: top left, top right, bottom right, bottom left of the text itself


@dataclass(frozen=True, slots=True, eq=False)
class TextLine:
    """One recognised line. ``quad`` is (4, 2) in page pixels; ``char_x`` are the characters' centres along the line in
    [0, 1] of its length; ``char_scores`` are the recogniser's probabilities."""

    quad: Quad
    text: str
    score: float
    char_x: tuple[float, ...] = ()
    char_scores: tuple[float, ...] = ()

    @property
    def left(self) -> float:
        return float(self.quad[:, 0].min())

    @property
    def right(self) -> float:
        return float(self.quad[:, 0].max())

    @property
    def top(self) -> float:
        return float(self.quad[:, 1].min())

    @property
    def bottom(self) -> float:
        return float(self.quad[:, 1].max())

    @property
    def length(self) -> float:
        """Length along the text in pixels."""
        return float(np.linalg.norm(self.quad[1] - self.quad[0]))

    @property
    def thickness(self) -> float:
        """Height across the text in pixels."""
        return float(np.linalg.norm(self.quad[3] - self.quad[0]))

    def mapped(self, matrix: NDArray[np.float64]) -> TextLine:
        """The same line in other coordinates; ``matrix`` is a (2, 3) affine or (3, 3) projective map."""
        return TextLine(map_points(self.quad, matrix), self.text, self.score, self.char_x, self.char_scores)


def map_points(points: NDArray[np.floating], matrix: NDArray[np.float64]) -> NDArray[np.float32]:
    """Map (N, 2) points by a (2, 3) affine or (3, 3) projective matrix."""
    homogeneous = np.concatenate([np.asarray(points, np.float64), np.ones((len(points), 1))], axis=1) @ matrix.T
    if matrix.shape[0] == 3:
        homogeneous = homogeneous[:, :2] / homogeneous[:, 2:3]
    return homogeneous.astype(np.float32)
