"""The embedded OCR engine: rapidocr's PP-OCR models, driven line by line on one thread.

What differs from rapidocr's own loop, each measured (``benchmarks/extract.py``): one thread without spinning, recognition one
line at a time at its own width instead of batches padded to the widest, detection at a bounded long edge while recognition
crops from the full page, and characters with their places, which the layout reading needs to cut label from value.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.agentrl.errors import CertloopError
from certloop.extract.engine.boxes import text_boxes
from certloop.extract.engine.lines import Quad, TextLine

Image = NDArray[np.uint8]

DETECTOR, CLASSIFIER, RECOGNISER = "PP-OCRv6_det_small.onnx", "ch_ppocr_mobile_v2.0_cls_mobile.onnx", "PP-OCRv6_rec_small.onnx"
REC_HEIGHT = 48
VOTER_ASPECT = 5.0  # lines of about this length over height are judged best: longer ones are squeezed
REC_MIN_WIDTH = 32
REC_MAX_WIDTH = 2400


class EngineError(CertloopError, RuntimeError):
    """The reading engine cannot work: a package or a model file is missing."""

    code = "engine_unavailable"


@dataclass(frozen=True, slots=True)
class OcrConfig:
    """Text is detected on the page reduced to ``detect_pixels`` (an area, so that a tall page keeps its small print), or enlarged
    to ``detect_short_edge`` px within the same area. Boxes below ``box_threshold`` and lines whose mean character probability is
    below ``min_score`` are dropped; ``voters`` lines decide whether a page stands on its head."""

    threads: int = 1
    detect_pixels: int = 1_300_000
    detect_short_edge: int = 736
    box_threshold: float = 0.5
    min_score: float = 0.5
    voters: int = 8


class OcrEngine:
    """Detection, turned-line classification and recognition. Models are loaded on first use; not thread-safe."""

    def __init__(self, config: OcrConfig | None = None) -> None:
        self.config = config or OcrConfig()

    def read(self, image: Image) -> list[TextLine]:
        """Detect and recognise every line of an (H, W, 3) RGB page; polygons are in its pixels."""
        return self.recognise(image, self.detect(image))

    def detect(self, image: Image, *, zoom: float = 1.0, enlarge: bool = True) -> list[Quad]:
        """Find text lines; each quad is (4, 2) float32, clockwise from its own top left.

        ``zoom`` multiplies the size at which the image is looked at; ``enlarge=False`` takes a small image as it is.
        """
        height, width = image.shape[:2]
        budget = math.sqrt(self.config.detect_pixels / (height * width))
        scale = min(1.0, budget)
        if enlarge and min(height, width) * scale < self.config.detect_short_edge:
            scale = min(self.config.detect_short_edge / min(height, width), max(budget, scale))
        scale *= zoom
        size = (max(32, round(width * scale / 32) * 32), max(32, round(height * scale / 32) * 32))
        resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        tensor = np.ascontiguousarray(resized[:, :, ::-1].transpose(2, 0, 1)[None], dtype=np.float32)
        tensor *= 2 / 255.0
        tensor -= 1.0
        probabilities = _run(self._detector, tensor)
        boxes = text_boxes(probabilities[0, 0], (height, width), threshold=self.config.box_threshold)
        return [_ordered(box) for box in boxes]

    def recognise(self, image: Image, quads: list[Quad]) -> list[TextLine]:
        """Read the text inside each quad; quads that hold nothing readable are left out."""
        crops = [crop(image, quad) for quad in quads]
        flipped = self._upside_down(quads, crops)
        lines = []
        for quad, patch, turned in zip(quads, crops, flipped, strict=True):
            if turned:
                patch, quad = np.ascontiguousarray(patch[::-1, ::-1]), np.roll(quad, 2, axis=0)
            line = self.recognise_crop(patch, quad)
            if line.text.strip() and line.score >= self.config.min_score:
                lines.append(line)
        return lines

    def recognise_crop(self, patch: Image, quad: Quad) -> TextLine:
        """Read one upright (h, w, 3) crop of a single line."""
        height, width = patch.shape[:2]
        target = min(REC_MAX_WIDTH, max(REC_MIN_WIDTH, math.ceil(REC_HEIGHT * width / max(1, height))))
        resized = cv2.resize(patch, (target, REC_HEIGHT))
        tensor = np.ascontiguousarray(resized[:, :, ::-1].transpose(2, 0, 1)[None], dtype=np.float32)
        tensor *= 2 / 255.0
        tensor -= 1.0
        scores_TV = _run(self._recogniser, tensor)[0]
        return self._decode(scores_TV, quad)

    def _decode(self, scores_TV: NDArray[np.float32], quad: Quad) -> TextLine:
        """Greedy CTC: best symbol per step, repeats merged, blanks (index 0) dropped."""
        best = scores_TV.argmax(axis=1)
        probability = scores_TV[np.arange(len(best)), best]
        characters, places, sums = [], [], []
        start = 0
        for step in range(1, len(best) + 1):
            if step < len(best) and best[step] == best[start]:
                continue
            if best[start] != 0:
                characters.append(self._alphabet[best[start]])
                places.append((start + step) / 2 / len(best))
                sums.append(float(probability[start:step].max()))
            start = step
        text = "".join(characters)
        return TextLine(quad, text, float(np.mean(sums)) if sums else 0.0, tuple(places), tuple(sums))

    def _upside_down(self, quads: Sequence[Quad], crops: Sequence[Image]) -> list[bool]:
        """Which crops stand on their head.

        The lines of a page agree, so a dozen of them vote, lying and standing ones apart: a short line on its own (08, 80) cannot
        be told from its reversal.
        """
        standing = [bool(abs(q[1, 1] - q[0, 1]) > abs(q[1, 0] - q[0, 0])) for q in quads]
        turned = dict.fromkeys((False, True), False)
        for group in (False, True):
            members = [c for c, s in zip(crops, standing, strict=True) if s is group and c.shape[1] > 2 * c.shape[0]]
            voters = sorted(members, key=lambda c: abs(c.shape[1] / c.shape[0] - VOTER_ASPECT))[: self.config.voters]
            if voters:
                turned[group] = float(np.mean(self._turned(voters))) > 0.5
        return [turned[s] for s in standing]

    def _turned(self, crops: Sequence[Image]) -> NDArray[np.float32]:
        """Probability per crop that it stands on its head (inputs of 48x192, padded on the right)."""
        batch = np.zeros((len(crops), 3, 48, 192), np.float32)
        for row, patch in enumerate(crops):
            width = min(192, math.ceil(48 * patch.shape[1] / patch.shape[0]))
            batch[row, :, :, :width] = cv2.resize(patch, (width, 48))[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1.0
        return _run(self._classifier, batch)[:, 1]

    def _session(self, model: str) -> Any:
        onnxruntime = quiet_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = self.config.threads
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = True
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(str(model_path(model)), options, providers=["CPUExecutionProvider"])

    @cached_property
    def _detector(self) -> Any:
        return self._session(DETECTOR)

    @cached_property
    def _classifier(self) -> Any:
        return self._session(CLASSIFIER)

    @cached_property
    def _recogniser(self) -> Any:
        return self._session(RECOGNISER)

    @cached_property
    def _alphabet(self) -> list[str]:
        symbols = self._recogniser.get_modelmeta().custom_metadata_map["character"].splitlines()
        return ["", *symbols, " "]


def quiet_onnxruntime() -> Any:
    """Import onnxruntime with its telemetry off: by default it keeps an event queue in the home folder and reports it.

    The variable counts only when it is set before the first import.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


def model_path(name: str) -> Path:
    """Where rapidocr's wheel keeps a model file (found without importing rapidocr)."""
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or not spec.submodule_search_locations:
        raise EngineError("rapidocr is not installed; reinstall certloop (pip install certloop)")
    path = Path(spec.submodule_search_locations[0]) / "models" / name
    if not path.exists():
        raise EngineError(f"the OCR model {name} is missing from the rapidocr package; reinstall rapidocr")
    return path


def _run(session: Any, tensor: NDArray[np.float32]) -> NDArray[np.float32]:
    (output,) = session.run(None, {session.get_inputs()[0].name: tensor})
    return output  # type: ignore[no-any-return]


def crop(image: Image, quad: Quad) -> Image:
    """Cut one line out of the page, straightened; a line that stands upright on its short side is laid down."""
    width = max(1, round(max(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[2] - quad[3]))))
    height = max(1, round(max(np.linalg.norm(quad[0] - quad[3]), np.linalg.norm(quad[1] - quad[2]))))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(np.ascontiguousarray(quad, np.float32), target)
    patch = cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(patch, np.uint8)


def _ordered(quad: Quad) -> Quad:
    """Order a detection so that its long side is the text's direction, however it is tilted.

    Lines lie left to right; those at least 1.5 times as high as wide stand, top to bottom. Whether text really runs that way is
    decided for the whole page.
    """
    width, height = np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[0] - quad[3])
    standing = height >= 1.5 * width
    if standing:
        quad = np.roll(quad, -1, axis=0)
    dx, dy = quad[1] - quad[0]
    backwards = dy < 0 if abs(dy) > abs(dx) else dx < 0
    return np.roll(quad, 2, axis=0) if backwards else quad
