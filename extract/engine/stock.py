"""rapidocr exactly as it ships: the yardstick of the benchmark, and proof that the reading does not depend on our own loop."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import OcrEngine, quiet_onnxruntime


class StockOcrEngine(OcrEngine):
    """``read`` is rapidocr's own; single crops for second reads go through the parent."""

    def read(self, image: NDArray[np.uint8]) -> list[TextLine]:
        output = self._rapidocr(np.ascontiguousarray(image[:, :, ::-1]), return_word_box=True, return_single_char_box=True)
        if output.boxes is None:
            return []
        return [
            self._line(np.asarray(quad, np.float32), text, float(score), words)
            for quad, text, score, words in zip(output.boxes, output.txts, output.scores, output.word_results, strict=True)
        ]

    @staticmethod
    def _line(quad: NDArray[np.float32], text: str, score: float, words: Any) -> TextLine:
        width = np.linalg.norm(quad[1] - quad[0])
        height = np.linalg.norm(quad[3] - quad[0])
        if height >= 1.5 * width:
            quad = np.roll(quad, -1, axis=0)
        direction = (quad[1] - quad[0]) / max(1e-6, float(np.linalg.norm(quad[1] - quad[0])) ** 2)
        places, scores, kept = [], [], []
        for character, sure, box in words:
            centre = np.asarray(box, np.float32).mean(axis=0)
            kept.append(character)
            places.append(float(np.clip((centre - quad[0]) @ direction, 0, 1)))
            scores.append(float(sure))
        if "".join(kept) != text.replace(" ", ""):
            kept = [c for c in text if c != " "]
            places = [(i + 0.5) / len(kept) for i in range(len(kept))]
            scores = [score] * len(kept)
        return TextLine(quad, "".join(kept), score, tuple(places), tuple(scores))

    @cached_property
    def _rapidocr(self) -> Any:
        quiet_onnxruntime()
        from rapidocr import RapidOCR

        return RapidOCR(params={"Global.log_level": "critical"})
