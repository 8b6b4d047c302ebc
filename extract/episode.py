"""The episode of one page: look at it, split it into documents, and run the environment's loop on each (``agentrl.env``).

``environment.py`` holds what can be done, ``reader.py`` who decides it; the loop, its limits, its faults and its steps are those
of every other task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from certloop.agentrl.env import EpisodeConfig, FaultSource, Limits, no_faults, run_episode
from certloop.agentrl.trajectory import Outcome, Provenance
from certloop.agentrl.trajectory import Step as LoopStep
from certloop.extract.classify import Classification
from certloop.extract.config import ExtractConfig
from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import Image, OcrEngine
from certloop.extract.environment import DocumentEnvironment, document_task
from certloop.extract.reader import RETRIES, Reader
from certloop.extract.reading.document import LayoutReading
from certloop.extract.reading.orient import Upright, find_upright
from certloop.extract.split import split_lines
from certloop.extract.surroundings import Surroundings, look_around, without_seal_text
from certloop.templates import DocumentType, Registry

LAST_CALLS = 4  # the first look, the QR codes, the rules, the answer
NOBODY = Provenance("local")


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call of an episode, as it goes into the trajectory: why, what, when, and what it gave."""

    thought: str
    tool: str
    args: Mapping[str, Any]
    ok: bool
    result: Mapping[str, Any]
    error_kind: str | None = None
    latency_ms: float = 0.0
    at: str | None = None

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "thought": self.thought, "tool": self.tool, "args": dict(self.args), "ok": self.ok, "result": dict(self.result),
            "latency_ms": round(self.latency_ms, 3),
        }  # fmt: skip
        extra = {"error_kind": self.error_kind, "at": self.at}
        return out | {key: value for key, value in extra.items() if value is not None}


@dataclass(slots=True)
class DocumentReading:
    """One document of a page when its episode has ended. ``lines`` are in page pixels, ``layout`` in upright pixels; ``answer``
    is the answer as it was written."""

    doc_type: DocumentType | None
    found: Classification
    layout: LayoutReading | None
    upright: Upright
    lines: list[TextLine]
    steps: list[Step] = field(default_factory=list)
    covered: frozenset[str] = frozenset()
    outcome: Outcome = Outcome.CLEAN
    answer: str | None = None


def read_page(
    image: Image,
    engine: OcrEngine,
    registry: Registry,
    config: ExtractConfig,
    *,
    doc_type: str | None = None,
    faults: FaultSource = no_faults,
    around: Surroundings | None = None,
) -> tuple[list[DocumentReading], Surroundings]:
    """Read every document on an (H, W, 3) RGB page, and what stands beside the fields.

    ``faults`` break tool calls (for tests and training): they are lived with. What breaks by itself is raised. ``around`` is what
    an earlier reading of the same page found beside the fields: no guidance changes it.
    """
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    readers, around = open_page(image, engine, registry, config, doc_type=doc_type, around=around)
    return [_run(reader, at, faults) for reader in readers], around


def open_page(
    image: Image,
    engine: OcrEngine,
    registry: Registry,
    config: ExtractConfig,
    *,
    doc_type: str | None = None,
    around: Surroundings | None = None,
) -> tuple[list[Reader], Surroundings]:
    """Look at a page for the first time and split it: a reader with its environment for each document, none of them run yet."""
    height, width = image.shape[:2]
    lines = engine.read(image)
    around = around or look_around(image, lines, engine)
    lines = without_seal_text(image, lines, around.seals)
    upright = find_upright(lines, width, height)
    parts = split_lines(upright.lines(lines), registry) if doc_type is None else [upright.lines(lines)]
    readers = []
    for part in parts:
        first = [line.mapped(upright.inverse) for line in part]
        ground = _ground(first) if len(parts) > 1 else None
        environment = DocumentEnvironment(image, engine, registry, first, around.qr, ground)
        readers.append(Reader(environment, registry, config, upright, around, doc_type, budget=config.second_reads))
    return readers, around


def episode_limits(reader: Reader) -> Limits:
    """So many steps that the reader's own budget ends an episode, not the loop's."""
    return Limits(steps=reader.budget + RETRIES + LAST_CALLS)


def _run(reader: Reader, at: str, faults: FaultSource) -> DocumentReading:
    config = EpisodeConfig(NOBODY, episode_limits(reader))
    task = document_task(reader.environment)
    trajectory = run_episode(task, reader, config, traj_id="episode", created_at=at, faults=faults).trajectory
    broken = reader.error or next(iter(reader.environment.errors), None)
    if broken is not None:
        raise broken
    known = reader.layout is not None
    return DocumentReading(
        reader.registry.get(reader.found.type_id) if known else None,
        reader.found,
        reader.layout,
        reader.upright,
        reader.environment.lines,
        [step for t, s in enumerate(trajectory.steps) if (step := _step(s, at if t == 0 else None)) is not None],
        reader.covered,
        trajectory.outcome,
        trajectory.final_json,
    )


def _step(step: LoopStep, at: str | None) -> Step | None:
    """The call of a step; the step that answers has none."""
    if step.action is None or step.tool_result is None:
        return None
    result = step.tool_result
    payload = result.payload if isinstance(result.payload, Mapping) else {}
    return Step(step.thought, step.action.tool, step.action.args, result.ok, payload, result.error_kind, result.latency_ms, at)


def _ground(lines: Sequence[TextLine]) -> tuple[float, float, float, float]:
    corners = np.concatenate([line.quad for line in lines])
    left, top = corners.min(axis=0).tolist()
    right, bottom = corners.max(axis=0).tolist()
    return left, top, right, bottom
