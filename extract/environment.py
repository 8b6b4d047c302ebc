"""The environment of one document on a page: its tools, and the task of reading it (``agentrl.env``).

The page's lines are the state. A tool looks at the image and answers with the lines as they stand then: their numbers in order
and the texts of those that are new. Geometry and certainty of a line stay here, under its number; what a policy believes of it
is what the answer says, so an answer that was lost or changed on the way is lost or changed for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from certloop.agentrl.env import Args, Grade, Task, Tool, ToolFailure
from certloop.agentrl.rewards import f1_power_reward
from certloop.extract import tools
from certloop.extract.engine.lines import Quad, TextLine
from certloop.extract.engine.ocr import Image, OcrEngine
from certloop.extract.marks.qr import codes_in_payload
from certloop.extract.planning import WANTED
from certloop.extract.repairs import repair_test
from certloop.extract.result import QrCode
from certloop.templates import DocumentType, Registry
from certloop.validators import validate

ANSWER = "emit_json"
LOOKS = ("reread", "zoom", "red_ink", "strip", "look_again")
GENERAL = "Read every field of the document and answer as one flat JSON object, printed label to printed value."

Region = tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]


class Nothing(Args):
    """No arguments."""


class Reread(Args):
    """Lines by their place in the list; ``inked``: a seal lies over them."""

    field: str
    lines: tuple[int, ...]
    inked: bool = False


class Zoom(Args):
    """A region by its corners in page pixels, in reading order, and the height of its characters in pixels."""

    field: str
    region: Region
    em_px: float


class Strip(Args):
    """A region to be read as one line that must hold a ``date`` or a ``number``."""

    field: str
    region: Region
    wanted: Literal["date", "number"]


class LookAgain(Args):
    field: str


class Values(Args):
    """Values of a document type by field id."""

    doc_type: str
    values: dict[str, str]


class Lines(BaseModel):
    """``lines`` and ``texts`` are left out where a look changed nothing."""

    changed: bool
    lines: list[int] = []
    texts: dict[str, str] = {}


class DocumentEnvironment:
    """What can be done to one document of an (H, W, 3) RGB page. One episode long.

    ``lines`` are those that the reader holds for true now (page pixels): looks are relative to them. ``ground`` is the document's
    part of a page that holds several (left, top, right, bottom): lines found elsewhere belong to a neighbour. ``errors`` are the
    exceptions that tools raised, in order.
    """

    def __init__(
        self,
        image: Image,
        engine: OcrEngine,
        registry: Registry,
        first: Sequence[TextLine],
        qr: Sequence[QrCode] = (),
        ground: tuple[float, float, float, float] | None = None,
    ) -> None:
        self.image, self.engine, self.registry = image, engine, registry
        self.qr, self.ground = tuple(qr), ground
        self.lines: list[TextLine] = []
        self.errors: list[Exception] = []
        self._first = list(first)
        self._known: list[TextLine] = []
        self._numbers: dict[int, int] = {}

    def make_tools(self) -> Sequence[Tool]:
        """``ocr`` gives the first look at the whole page again: it was taken before the page was split into documents."""
        looks: tuple[tuple[str, type[Args], Callable[[Any], tools.Observation], str], ...] = (
            ("ocr", Nothing, lambda a: tools.Observation(tuple(self._first), True), "read all lines of the document"),
            ("reread", Reread, self._reread, "read single lines again, without the red ink on them"),
            ("zoom", Zoom, self._zoom, "detect and read again inside of a region, enlarged"),
            ("red_ink", Zoom, self._red_ink, "as zoom, seen through the red ink"),
            ("strip", Strip, self._strip, "read a strip of the page as one line"),
            ("look_again", LookAgain, self._look_again, "detect on the whole page at another size"),
        )
        return (
            *(Tool(name, args, self._seen(run), about, returns=Lines) for name, args, run, about in looks),
            Tool("qr_decode", Nothing, self._guarded(self._qr_decode), "what the QR codes of the page say"),
            Tool("validate", Values, self._guarded(self._validate), "which rules the values break"),
        )

    def believe(self, payload: Mapping[str, Any]) -> bool:
        """Take a look's answer for true; returns whether it says anything new. Numbers that nobody gave out are passed over."""
        if not payload["changed"]:
            return False
        texts, lines = payload.get("texts", {}), {}
        for number in payload.get("lines", ()):
            if 0 <= number < len(self._known):
                line = self._known[number]
                lines[number] = _saying(line, texts.get(str(number), line.text))
        self.lines = list(lines.values())
        return True

    def _seen(self, look: Callable[[Any], tools.Observation]) -> Callable[[Any], dict[str, Any]]:
        def run(args: Any) -> dict[str, Any]:
            seen, held = look(args), set(map(id, self.lines))
            lines = [line for line in seen.lines if id(line) in held or self._on_my_ground(line)]
            if not seen.changed:
                return {"changed": False}
            numbers = [self._number(line) for line in lines]
            fresh = {str(n): line.text for n, line in zip(numbers, lines, strict=True) if id(line) not in held}
            return {"changed": True, "lines": numbers, "texts": fresh}

        return self._guarded(run)

    def _guarded(self, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A tool that breaks is an observation for the policy, and kept for whoever started the episode."""

        def guarded(args: Any) -> Any:
            try:
                return run(args)
            except ToolFailure:
                raise
            except Exception as error:
                self.errors.append(error)
                raise

        return guarded

    def _number(self, line: TextLine) -> int:
        if id(line) not in self._numbers:
            self._numbers[id(line)] = len(self._known)
            self._known.append(line)  # held here, so that its id stays its own
        return self._numbers[id(line)]

    def _on_my_ground(self, line: TextLine) -> bool:
        if self.ground is None:
            return True
        left, top, right, bottom = self.ground
        x, y = line.quad.mean(axis=0)
        return bool(left <= x <= right and top <= y <= bottom)

    def _reread(self, args: Reread) -> tools.Observation:
        indices = [i for i in args.lines if 0 <= i < len(self.lines)]
        return tools.reread(self.image, self.lines, indices, self.engine, inked=args.inked)

    def _zoom(self, args: Zoom) -> tools.Observation:
        return tools.zoom(self.image, self.lines, _quad(args.region), self.engine, em_px=args.em_px)

    def _red_ink(self, args: Zoom) -> tools.Observation:
        return tools.zoom(self.image, self.lines, _quad(args.region), self.engine, em_px=args.em_px, red_ink=True)

    def _strip(self, args: Strip) -> tools.Observation:
        return tools.read_strip(self.image, self.lines, _quad(args.region), self.engine, WANTED[args.wanted])

    def _qr_decode(self, args: Nothing) -> dict[str, Any]:
        return {"codes": [codes_in_payload(code.payload) for code in self.qr]}

    def _validate(self, args: Values) -> dict[str, Any]:
        doc_type = self.registry.types.get(args.doc_type)
        if doc_type is None:
            raise ToolFailure("unknown_type")
        return {"failed": verdicts(doc_type, args.values)}

    def _look_again(self, args: LookAgain) -> tools.Observation:
        return tools.look_again(self.image, self.lines, self.engine)


def document_task(
    environment: DocumentEnvironment,
    *,
    task_id: str = "document",
    doc_type: DocumentType | None = None,
    truth: Mapping[str, str | None] | None = None,
    golden: Sequence[str] = (),
) -> Task:
    """The task of reading one document. With ``truth`` (printed values by label, of ``doc_type``) an answer is graded by F1⁴
    (METHODS §2) and its path by ``golden``, the path that whoever made the page knows to be right."""
    return Task(
        task_id=task_id,
        kind=doc_type.id if doc_type is not None else "unknown",
        prompt=doc_type.prompt if doc_type is not None else GENERAL,
        golden_paths=golden_paths(golden) if truth is not None else (),
        make_tools=environment.make_tools,
        grade=None if truth is None else _grader(truth, doc_type),
        answer_as=ANSWER,
    )


def golden_paths(golden: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The paths of this reader that amount to a general golden path (METHODS §1.3): pages are turned upright unasked, and a zoom
    with its second ocr is any one of the looks."""
    general = tuple(name for name in golden if name != "rotate")
    for place in range(len(general) - 1):
        if general[place : place + 2] == ("zoom", "ocr"):
            return tuple((*general[:place], look, *general[place + 2 :]) for look in LOOKS)
    return (general,)


def verdicts(doc_type: DocumentType, values: Mapping[str, str]) -> list[dict[str, Any]]:
    """The fields whose values break rules, and which."""
    broken = []
    for name, value in values.items():
        if name in doc_type.fields:
            failed = [v.rule for kind in doc_type.fields[name].validator_kinds for v in validate(kind, value) if v.failed]
            if failed:
                broken.append({"field": name, "rules": sorted(set(failed))})
    return broken


def _grader(truth: Mapping[str, str | None], doc_type: DocumentType | None) -> Callable[[str], Grade | None]:
    canonical = doc_type.canonical_labels() if doc_type is not None else None
    repaired = repair_test([doc_type]) if doc_type is not None else None

    def grade(answer: str) -> Grade | None:
        got = f1_power_reward(truth, answer, canonical=canonical, repaired=repaired)
        return None if got.matching is None else Grade(got.reward, got.strict)

    return grade


def _quad(region: Region) -> Quad:
    return np.array(region, np.float32)


def _saying(line: TextLine, text: str) -> TextLine:
    """The line with another text; where its characters stand is only known while there are as many."""
    if text == line.text:
        return line
    if len(text) == len(line.text):
        return replace(line, text=text)
    places = tuple((i + 0.5) / len(text) for i in range(len(text)))
    return TextLine(line.quad, text, line.score, places, (line.score,) * len(text))
