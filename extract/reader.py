"""The embedded reader as a policy: think over the lines (layout, what is missing or unsure), look again, answer.

Tools change lines, never values, and the layout is read anew after each round, so a better look at a label, a value or a date
under a seal all work the same way. A call that failed is tried again a few times in an episode; then that look is done without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certloop.agentrl.env import Action as Call
from certloop.agentrl.env import Decision, ErrorKind, View
from certloop.agentrl.trajectory import Step
from certloop.extract.classify import UNKNOWN, Classification, classify
from certloop.extract.config import ExtractConfig
from certloop.extract.covers import with_covers
from certloop.extract.engine.lines import TextLine, map_points
from certloop.extract.environment import DocumentEnvironment
from certloop.extract.guidance import Hint
from certloop.extract.planning import Action, plan
from certloop.extract.reading.document import LayoutReading, read_layout
from certloop.extract.reading.glyphs import rows_of, runs_of
from certloop.extract.reading.orient import Upright
from certloop.extract.result import Seal
from certloop.extract.seal_values import with_seal_values
from certloop.extract.signatures import with_marks
from certloop.extract.surroundings import Surroundings, with_ring_text
from certloop.templates import DocumentType, Registry, squash

SURE_RING = 0.9
RETRIES = 6
PASSING = frozenset({ErrorKind.TIMEOUT, ErrorKind.RATE_LIMIT, ErrorKind.MALFORMED})
"""Failures that may be over the next time."""


@dataclass(slots=True)
class Reader:
    """Reads one document. ``wanted`` names its type (None: it is found), ``budget`` bounds the looks after the first. After the
    episode ``found``, ``layout`` and ``covered`` are what was read."""

    environment: DocumentEnvironment
    registry: Registry
    config: ExtractConfig
    upright: Upright
    around: Surroundings
    wanted: str | None
    found: Classification = field(default_factory=lambda: Classification(UNKNOWN, 0.0, None, ()))
    layout: LayoutReading | None = None
    covered: frozenset[str] = frozenset()
    budget: int = 0
    error: Exception | None = None
    _retries: int = RETRIES
    _round: _Round = field(default_factory=lambda: _Round())
    _tried: set[str] = field(default_factory=set)
    _last: tuple[str, ...] = ()

    def decide(self, view: View) -> Decision:
        """The policy of ``agentrl.env``: one look, or the answer. What breaks here is kept in ``error`` for the caller."""
        try:
            return self._decide(view)
        except Exception as error:
            self.error = error
            raise

    def _decide(self, view: View) -> Decision:
        last = view.history[-1] if view.history else None
        if last is None:
            return Decision("read the page", Call("ocr"))
        assert last.action is not None and last.tool_result is not None, "every step before an answer is a call"
        if not last.tool_result.ok:
            if last.tool_result.error_kind in PASSING and self._retries > 0:
                self._retries -= 1
                return Decision(f"{last.tool_result.error_kind}: try again", last.action)
            if last.action.tool == "ocr":
                return Decision("the page cannot be read", refused=True)
        return self._go_on(last)

    def _go_on(self, last: Step) -> Decision:
        """After a call: take in what it gave; then the next look of the round, a new round, or the end."""
        assert last.action is not None and last.tool_result is not None
        tool, payload = last.action.tool, last.tool_result.payload
        if tool in ("qr_decode", "validate"):
            return self._answer_after(tool)
        altered = last.tool_result.ok and self.environment.believe(payload)
        if tool == "ocr":
            self.found, self.layout = self._think(self.environment.lines)
            self._round = _Round(self._plan())
        else:
            self._settle(altered)
        while True:
            if (look := self._next_look()) is not None:
                return Decision(look.thought, self._call(look))
            if not self._round.changed:
                return self._answer_after(None)
            _, self.layout = self._think(self.environment.lines, self.found.type_id)
            self._round = _Round(self._plan())

    def _settle(self, altered: bool) -> None:
        look = self._round.current
        if look is None or not altered:
            return
        self._round.changed = True
        if look.tool != "reread":
            self._round.settled.add(look.field)  # think again before looking a third time
        if look.tool == "strip":
            self._tried.add(f"inked {look.field}")  # the strip was already read without the ink

    def _next_look(self) -> Action | None:
        while self._round.queue and self.budget > 0:
            look = self._round.queue.pop(0)
            if look.field not in self._round.settled:
                self._tried.add(look.key)
                self.budget -= 1
                self._round.current = look
                return look
        return None

    def _plan(self) -> list[Action]:
        if self.layout is None or self.found.type_id == UNKNOWN or self.budget <= 0:
            return []
        doc_type = self.registry.get(self.found.type_id)
        looks = plan(doc_type, self.layout, self._ink(), self._hints(doc_type, self.layout.text))
        return [look for look in looks if look.key not in self._tried]

    def _call(self, look: Action) -> Call:
        args: dict[str, Any] = {"field": look.field}
        if look.tool == "reread":
            args["lines"] = [int(index) for index in look.lines(self.environment.lines)]
            if look.inked:
                args["inked"] = True
        elif look.tool != "look_again":
            args["region"] = [[float(x), float(y)] for x, y in self.upright.back(look.region)]
            args |= {"wanted": look.wanted} if look.tool == "strip" else {"em_px": float(look.em)}
        return Call(look.tool, args)

    def _answer_after(self, tool: str | None) -> Decision:
        """The last calls before the answer: the page's QR codes if it has any, then the rules."""
        if tool is None:
            self._finish()
            if self.environment.qr:
                return Decision("the page has a QR code", Call("qr_decode"))
        values = self._values()
        if tool != "validate" and values:
            return Decision("do the values hold?", Call("validate", {"doc_type": self.found.type_id, "values": values}))
        return Decision("nothing more to look at", answer=json.dumps(self.answer(), ensure_ascii=False))

    def _finish(self) -> None:
        if self.layout is None:
            return
        doc_type = self.registry.get(self.found.type_id)
        layout = with_seal_values(self.layout, doc_type, self._seals(doc_type, self.layout), self.upright)
        layout = with_marks(layout, doc_type, self.environment.image, self.around.seals, self.upright)
        if self.around.masked is not None and self.around.masked.covers:
            layout, self.covered = with_covers(layout, self.around.masked, self.upright)
        self.layout = layout

    def _values(self) -> dict[str, str]:
        drafts: Mapping[str, Any] = {} if self.layout is None else self.layout.drafts
        return {name: draft.text for name, draft in drafts.items() if not draft.masked}

    def answer(self) -> dict[str, str | None]:
        """What is printed, by printed label; null where a label stands beside nothing that can be read."""
        if self.layout is None or self.found.type_id == UNKNOWN:
            return {}
        values, out = self._values(), {}
        for spec in self.registry.get(self.found.type_id).fields.values():
            if spec.id in values or spec.id in self.layout.drafts or spec.id in self.layout.cells:
                out[spec.label] = values.get(spec.id)
        return out

    def _seals(self, doc_type: DocumentType, layout: LayoutReading) -> list[Seal]:
        """The page's seals; where the authority is printed nowhere else, uncertain rings are read again with all patience."""
        if "authority" not in doc_type.fields or "authority" in layout.drafts:
            return list(self.around.seals)
        doubtful = [s for s in self.around.seals if s.text_confidence < SURE_RING]
        image, engine = self.environment.image, self.environment.engine
        again = {id(s): with_ring_text(image, s, engine, thorough=True) for s in doubtful}
        return [again.get(id(s), s) for s in self.around.seals]

    def _ink(self) -> list[NDArray[np.float32]]:
        """The page's coloured seals as polygons in upright pixels."""
        return [map_points(np.asarray(s.box, np.float32), self.upright.matrix) for s in self.around.seals if s.color == "red"]

    def _think(self, lines: Sequence[TextLine], type_id: str | None = None) -> tuple[Classification, LayoutReading | None]:
        rows = rows_of(runs_of(self.upright.lines(lines)))
        found = classify(rows, self.registry, doc_type=type_id or self.wanted)
        if found.type_id == UNKNOWN:
            return found, None
        doc_type = self.registry.get(found.type_id)
        return found, read_layout(rows, doc_type, found, self._hints(doc_type, "".join(row.text for row in rows)))

    def _hints(self, doc_type: DocumentType, text: str) -> Sequence[Hint]:
        return self.config.guidance.for_page(doc_type.id, squash(text)) if self.config.guidance.hints else ()


@dataclass(slots=True)
class _Round:
    """The looks of one plan: those still to come, the one under way, the fields that need no other, whether lines changed."""

    queue: list[Action] = field(default_factory=list)
    current: Action | None = None
    settled: set[str] = field(default_factory=set)
    changed: bool = False
