"""A page as it was seen and what is truly printed on it: enough to read its layout again under other rules, in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from certloop.extract.classify import classify
from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import Image, OcrEngine
from certloop.extract.guidance import Hint
from certloop.extract.reading.document import LayoutReading, read_layout
from certloop.extract.reading.glyphs import Row, rows_of, runs_of
from certloop.extract.reading.orient import find_upright
from certloop.templates import DocumentType


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """``lines`` are in upright pixels; ``truth`` is the printed value by field id, None where nothing is printed."""

    case_id: str
    doc_type: str
    lines: tuple[TextLine, ...]
    truth: Mapping[str, str | None]
    right: dict[tuple[int, tuple[Hint, ...]], tuple[DocumentType, frozenset[str]]] = field(
        default_factory=dict, init=False, repr=False
    )
    """What ``replay`` found out already: the fields read right under a type and hints. The type is held so that its id
    stays its own."""

    def rows(self) -> list[Row]:
        return rows_of(runs_of(self.lines))

    def to_json(self) -> dict[str, Any]:
        """Holds values: seal it like the document."""
        lines = [
            {
                "quad": [[round(float(x), 1), round(float(y), 1)] for x, y in line.quad],
                "text": line.text,
                "score": round(line.score, 4),
                "char_x": [round(x, 4) for x in line.char_x],
                "char_scores": [round(s, 3) for s in line.char_scores],
            }
            for line in self.lines
        ]
        return {"case_id": self.case_id, "doc_type": self.doc_type, "truth": dict(self.truth), "lines": lines}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        lines = tuple(
            TextLine(
                np.asarray(line["quad"], np.float32),
                line["text"],
                line["score"],
                tuple(line["char_x"]),
                tuple(line["char_scores"]),
            )
            for line in data["lines"]
        )
        return cls(data["case_id"], data["doc_type"], lines, dict(data["truth"]))


def case_of(case_id: str, image: Image, engine: OcrEngine, doc_type: str, truth: Mapping[str, str | None]) -> Case:
    """Look at an (H, W, 3) RGB page once."""
    lines: Sequence[TextLine] = engine.read(image)
    upright = find_upright(lines, image.shape[1], image.shape[0])
    return Case(case_id, doc_type, tuple(upright.lines(lines)), dict(truth))


def read_case(case: Case, doc_type: DocumentType, hints: Sequence[Hint] = ()) -> tuple[dict[str, str], LayoutReading]:
    """The values by field id that layout reading finds in the case's lines under these hints, without second looks."""
    rows = case.rows()
    layout = read_layout(rows, doc_type, _found(rows, doc_type), hints)
    return {name: draft.text for name, draft in layout.drafts.items()}, layout


def _found(rows: Sequence[Row], doc_type: DocumentType) -> Any:
    from certloop.templates import Registry

    return classify(rows, Registry({doc_type.id: doc_type}), doc_type=doc_type.id)
