"""What reading a file gives back: the contract of every consumer (command line, API, store, evaluation).

Coordinates are pixels of the page *as the user gave it* (after the EXIF orientation, before any turning by the reader),
origin at the top left. A polygon is a tuple of ``(x, y)`` points, clockwise from the text's own top-left corner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from certloop.validators.outcome import Verdict

if TYPE_CHECKING:
    from certloop.agentrl.trajectory import Trajectory
    from certloop.extract.engine.lines import TextLine

Polygon = tuple[tuple[float, float], ...]


class FieldStatus(StrEnum):
    """``blank``: the label is printed and nothing stands there; ``absent``: this form has no such field."""

    READ = "read"
    BLANK = "blank"
    ABSENT = "absent"
    UNREADABLE = "unreadable"
    MISSING_PAGE = "missing_page"


class FileStatus(StrEnum):
    """``ok``: every page was read; ``partial``: some pages failed, or a document is incomplete; ``failed``: no page was read."""

    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FieldResult:
    """One field. ``value`` is the print, verbatim; ``normalised`` its canonical form (ISO date, yuan amount, NFKC code)."""

    label: str
    value: str | None
    normalised: Any = None
    status: FieldStatus = FieldStatus.ABSENT
    confidence: float = 0.0
    box: Polygon | None = None
    page: int | None = None
    validations: tuple[Verdict, ...] = ()
    suggestion: str | None = None

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "label": self.label,
            "value": self.value,
            "normalised": self.normalised,
            "status": self.status.value,
            "confidence": round(self.confidence, 4),
            "box": polygon_to_json(self.box),
            "page": self.page,
            "validations": [v.to_json() for v in self.validations],
        }
        if self.suggestion is not None:
            out["suggestion"] = self.suggestion
        return out


@dataclass(frozen=True, slots=True)
class Seal:
    """A stamp on the page. ``shape`` is round, oval, square or unknown; ``text`` is the ring text where it could be read."""

    box: Polygon
    color: str
    shape: str
    confidence: float
    text: str | None = None
    page: int = 0
    text_confidence: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "box": polygon_to_json(self.box),
            "color": self.color,
            "shape": self.shape,
            "text": self.text,
            "text_confidence": round(self.text_confidence, 4),
            "confidence": round(self.confidence, 4),
            "page": self.page,
        }


@dataclass(frozen=True, slots=True)
class QrCode:
    """A decoded QR code. ``agrees`` says whether the codes in its payload equal the printed ones (None: nothing to compare)."""

    payload: str
    box: Polygon
    agrees: bool | None = None
    page: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"payload": self.payload, "box": polygon_to_json(self.box), "agrees": self.agrees, "page": self.page}


@dataclass(frozen=True, slots=True)
class Generation:
    """How a model wrote an answer: what a trajectory keeps beside the fields. An engine without tokens leaves none.

    ``token_ids`` are the sampled tokens and ``logprobs`` theirs (empty where a server does not tell), ``prompt_ids`` the ids
    before them. ``final_json`` is the JSON as it was written, ``token_offsets`` the characters of it that each sampled token
    covers; ``outcome`` is a word of ``agentrl.trajectory.Outcome``. At temperature 0 the log-probabilities are those of
    temperature 1.
    """

    model: str
    prompt_version: str
    outcome: str
    final_json: str | None = None
    adapter: str | None = None
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    token_offsets: tuple[tuple[int, int], ...] = ()
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class Document:
    """One certificate found in a file. ``doc_type`` is a template id or ``"unknown"``.

    ``missing`` are the required fields for which no value was read, whatever the reason: a person should look at them.
    ``steps`` are the tool calls of the episode that read it, with times (and are not compared: no two readings take as long).
    ``generations`` are what a model engine wrote for it, one a page it was asked about. ``seen`` are the text lines of its page
    in upright pixels: what a correction is learned from. Neither is part of its JSON.
    """

    doc_type: str
    type_confidence: float
    fields: Mapping[str, FieldResult] = field(default_factory=dict)
    title: str | None = None
    type_version: str | None = None
    pages: tuple[int, ...] = (0,)
    box: Polygon | None = None
    rotation: float = 0.0
    copy: str | None = None
    quality: Mapping[str, float] = field(default_factory=dict)
    seals: tuple[Seal, ...] = ()
    qr: tuple[QrCode, ...] = ()
    validations: tuple[Verdict, ...] = ()
    release: str = "embedded"
    trajectory_id: str | None = None
    missing: tuple[str, ...] = ()
    steps: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    generations: tuple[Generation, ...] = ()
    seen: tuple[TextLine, ...] = field(default=(), compare=False, repr=False)

    @property
    def trajectory(self) -> Trajectory | None:
        """The episode that read this document (``agentrl``), built when asked for; None for a result read back from JSON.

        ``trajectory_id`` is set once it is in a store.
        """
        from certloop.extract.recording import trajectory_of

        return trajectory_of(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "doc_type": self.doc_type,
            "type_confidence": round(self.type_confidence, 4),
            "type_version": self.type_version,
            "title": self.title,
            "copy": self.copy,
            "pages": list(self.pages),
            "box": polygon_to_json(self.box),
            "rotation": round(self.rotation, 2),
            "fields": {k: v.to_json() for k, v in self.fields.items()},
            "missing": list(self.missing),
            "validations": [v.to_json() for v in self.validations],
            "quality": {k: round(v, 4) for k, v in self.quality.items()},
            "seals": [s.to_json() for s in self.seals],
            "qr": [q.to_json() for q in self.qr],
            "release": self.release,
            "trajectory_id": self.trajectory_id,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """Everything one file gave. ``error`` is set when ``status`` is failed; ``warnings`` list pages that failed alone."""

    file: str
    status: FileStatus
    documents: tuple[Document, ...] = ()
    error: Mapping[str, str] | None = None
    warnings: tuple[Mapping[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"file": self.file, "status": self.status.value}
        if self.error is not None:
            out["error"] = dict(self.error)
        if self.warnings:
            out["warnings"] = [dict(w) for w in self.warnings]
        out["documents"] = [d.to_json() for d in self.documents]
        return out


def polygon_to_json(polygon: Polygon | None) -> list[list[float]] | None:
    return None if polygon is None else [[round(float(x), 1), round(float(y), 1)] for x, y in polygon]
