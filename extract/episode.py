"""The episode of one page: observe (OCR), think (read the layout, see what is missing or unsure), act (a tool), observe again.

The page's lines are the episode's state. Tools change lines, never values, and the layout is read anew after each round, so a
better look at a label, a value or a date under a seal all work the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certloop.extract import tools
from certloop.extract.classify import UNKNOWN, Classification, classify
from certloop.extract.config import ExtractConfig
from certloop.extract.covers import with_covers
from certloop.extract.engine.lines import TextLine, map_points
from certloop.extract.engine.ocr import Image, OcrEngine
from certloop.extract.guidance import Hint
from certloop.extract.planning import Action, plan
from certloop.extract.reading.document import LayoutReading, read_layout
from certloop.extract.reading.glyphs import rows_of, runs_of
from certloop.extract.reading.orient import Upright, find_upright
from certloop.extract.result import Seal
from certloop.extract.seal_values import with_seal_values
from certloop.extract.signatures import with_marks
from certloop.extract.split import split_lines
from certloop.extract.surroundings import Surroundings, look_around, with_ring_text, without_seal_text
from certloop.templates import DocumentType, Registry, squash

SURE_RING = 0.9


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call of an episode, as it goes into the trajectory: why, what, and what it gave."""

    thought: str
    tool: str
    args: Mapping[str, Any]
    ok: bool
    result: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"thought": self.thought, "tool": self.tool, "args": dict(self.args), "ok": self.ok, "result": dict(self.result)}


@dataclass(slots=True)
class DocumentReading:
    """One document of a page when its episode has ended. ``lines`` are in page pixels, ``layout`` in upright pixels."""

    doc_type: DocumentType | None
    found: Classification
    layout: LayoutReading | None
    upright: Upright
    lines: list[TextLine]
    steps: list[Step] = field(default_factory=list)
    covered: frozenset[str] = frozenset()


def read_page(
    image: Image, engine: OcrEngine, registry: Registry, config: ExtractConfig, *, doc_type: str | None = None
) -> tuple[list[DocumentReading], Surroundings]:
    """Read every document on an (H, W, 3) RGB page, and what stands beside the fields."""
    height, width = image.shape[:2]
    lines = engine.read(image)
    around = look_around(image, lines, engine)
    lines = without_seal_text(image, lines, around.seals)
    first = Step("read the page", "ocr", {}, bool(lines), {"lines": len(lines)})
    upright = find_upright(lines, width, height)
    parts = split_lines(upright.lines(lines), registry) if doc_type is None else [upright.lines(lines)]
    readings = []
    for part in parts:
        reading = _Episode(image, engine, registry, config, upright, doc_type, around, len(parts) > 1).run(part)
        reading.steps.insert(0, first)
        readings.append(reading)
    return readings, around


class _Episode:
    def __init__(
        self,
        image: Image,
        engine: OcrEngine,
        registry: Registry,
        config: ExtractConfig,
        upright: Upright,
        doc_type: str | None,
        around: Surroundings,
        shared: bool,
    ) -> None:
        self.image, self.engine, self.registry, self.config = image, engine, registry, config
        self.upright, self.wanted, self.around = upright, doc_type, around
        self.shared = shared
        self.ground: tuple[float, float, float, float] | None = None
        self.steps: list[Step] = []
        self.budget = config.second_reads

    def run(self, upright_lines: Sequence[TextLine]) -> DocumentReading:
        lines = [line.mapped(self.upright.inverse) for line in upright_lines]
        if self.shared:
            corners = np.concatenate([line.quad for line in lines])
            self.ground = (*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())
        found, layout = self._think(lines)
        if found.type_id == UNKNOWN or layout is None:
            return DocumentReading(None, found, None, self.upright, lines, self.steps)
        doc_type = self.registry.get(found.type_id)
        tried: set[str] = set()
        covered: frozenset[str] = frozenset()
        while layout is not None and self.budget > 0:
            actions = [a for a in plan(doc_type, layout, self._ink(), self._hints(doc_type, layout.text)) if a.key not in tried]
            if not actions:
                break
            changed = False
            settled: set[str] = set()
            for action in actions:
                if self.budget <= 0 or action.field in settled:
                    continue
                tried.add(action.key)
                self.budget -= 1
                lines, altered = self._act(action, lines)
                changed = changed or altered
                if altered and action.tool != "reread":
                    settled.add(action.field)  # think again before looking a third time
                if action.tool == "strip" and altered:
                    tried.add(f"inked {action.field}")  # the strip was already read without the ink
            if not changed:
                break
            _, layout = self._think(lines, doc_type.id)
        if layout is not None:
            layout = with_seal_values(layout, doc_type, self._seals(doc_type, layout), self.upright)
            layout = with_marks(layout, doc_type, self.image, self.around.seals, self.upright)
            if self.around.masked is not None and self.around.masked.covers:
                layout, covered = with_covers(layout, self.around.masked, self.upright)
        return DocumentReading(doc_type, found, layout, self.upright, lines, self.steps, covered)

    def _seals(self, doc_type: DocumentType, layout: LayoutReading) -> list[Seal]:
        """The page's seals; where the authority is printed nowhere else, uncertain rings are read again with all patience."""
        if "authority" not in doc_type.fields or "authority" in layout.drafts:
            return list(self.around.seals)
        doubtful = [s for s in self.around.seals if s.text_confidence < SURE_RING]
        again = {id(s): with_ring_text(self.image, s, self.engine, thorough=True) for s in doubtful}
        return [again.get(id(s), s) for s in self.around.seals]

    def _ink(self) -> list[NDArray[np.float32]]:
        """The page's coloured seals as polygons in upright pixels."""
        return [map_points(np.asarray(s.box, np.float32), self.upright.matrix) for s in self.around.seals if s.color == "red"]

    def _act(self, action: Action, lines: list[TextLine]) -> tuple[list[TextLine], bool]:
        if action.tool == "reread":
            seen = tools.reread(self.image, lines, action.lines(lines), self.engine, inked=action.inked)
        elif action.tool == "look_again":
            seen = tools.look_again(self.image, lines, self.engine)
        elif action.tool == "strip" and action.wanted is not None:
            seen = tools.read_strip(self.image, lines, self.upright.back(action.region), self.engine, action.wanted)
        else:
            region = self.upright.back(action.region)
            seen = tools.zoom(self.image, lines, region, self.engine, em_px=action.em, red_ink=action.tool == "red_ink")
        self.steps.append(Step(action.thought, action.tool, action.args(), True, {"changed": seen.changed}))
        known = set(map(id, lines))
        return [line for line in seen.lines if id(line) in known or self._on_my_ground(line)], seen.changed

    def _on_my_ground(self, line: TextLine) -> bool:
        """Whether a line that a tool found lies on this document and not on its neighbour's part of the page."""
        if self.ground is None:
            return True
        left, top, right, bottom = self.ground
        x, y = line.quad.mean(axis=0)
        return bool(left <= x <= right and top <= y <= bottom)

    def _think(self, lines: Sequence[TextLine], type_id: str | None = None) -> tuple[Classification, LayoutReading | None]:
        rows = rows_of(runs_of(self.upright.lines(lines)))
        found = classify(rows, self.registry, doc_type=type_id or self.wanted)
        if found.type_id == UNKNOWN:
            return found, None
        doc_type = self.registry.get(found.type_id)
        return found, read_layout(rows, doc_type, found, self._hints(doc_type, "".join(row.text for row in rows)))

    def _hints(self, doc_type: DocumentType, text: str) -> Sequence[Hint]:
        return self.config.guidance.for_page(doc_type.id, squash(text)) if self.config.guidance.hints else ()
