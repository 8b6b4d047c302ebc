"""What an evaluation found: numbers, the errors one by one, and nothing computed twice.

A report holds printed values (``errors``): it is as personal as the documents. Only the counts may be logged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from certloop.extract.evaluation.bootstrap import RESAMPLES, Interval, mean_interval, paired_interval, ratio_interval
from certloop.extract.evaluation.calibration import ConfidenceSample, ReliabilityBin, wilson_interval
from certloop.extract.evaluation.causes import Cause
from certloop.extract.evaluation.errors import EvaluationError
from certloop.extract.result import Polygon, polygon_to_json


@dataclass(frozen=True, slots=True)
class Count:
    """``ok`` of ``n``. For inventions ``ok`` counts the invented ones: there fewer is better."""

    ok: int = 0
    n: int = 0

    @property
    def rate(self) -> float | None:
        return self.ok / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the rate."""
        return wilson_interval(self.ok, self.n)

    def __add__(self, other: Count) -> Count:
        return Count(self.ok + other.ok, self.n + other.n)

    def __str__(self) -> str:
        return f"{self.ok}/{self.n}"

    def to_json(self) -> dict[str, Any]:
        low_high = None if self.interval is None else [_round(x) for x in self.interval]
        return {"ok": self.ok, "n": self.n, "rate": _round(self.rate), "wilson_95": low_high}


@dataclass(frozen=True, slots=True)
class Scores:
    """Of a document, a type or everything. The means are over documents of a known type, None when there is none."""

    strict: Count = Count()
    invented: Count = Count()
    documents: int = 0
    greedy_f1: float | None = None
    hungarian_f1: float | None = None
    reward: float | None = None

    @property
    def means(self) -> tuple[float | None, float | None, float | None]:
        """Greedy F1, Hungarian F1, reward."""
        return self.greedy_f1, self.hungarian_f1, self.reward

    def to_json(self) -> dict[str, Any]:
        return {
            "strict": self.strict.to_json(),
            "invented": self.invented.to_json(),
            "documents": self.documents,
            "greedy_f1": _round(self.greedy_f1),
            "hungarian_f1": _round(self.hungarian_f1),
            "reward": _round(self.reward),
        }


@dataclass(frozen=True, slots=True)
class FieldScores:
    """One canonical label, over all types."""

    strict: Count = Count()
    invented: Count = Count()
    causes: Mapping[Cause, int] = field(default_factory=dict)

    @property
    def causes_text(self) -> str:
        return ", ".join(f"{cause.value} {n}" for cause, n in self.causes.items())

    def to_json(self) -> dict[str, Any]:
        causes = {cause.value: n for cause, n in self.causes.items()}
        return {"strict": self.strict.to_json(), "invented": self.invented.to_json(), "causes": causes}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that is not right. ``document`` counts from 0 in its file; box and page are those of the answer, if any."""

    file: str
    document: int
    doc_type: str
    field: str
    expected: str | None
    got: str | None
    cause: Cause
    similarity: float
    confidence: float | None = None
    box: Polygon | None = None
    page: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "document": self.document,
            "doc_type": self.doc_type,
            "field": self.field,
            "expected": self.expected,
            "got": self.got,
            "cause": self.cause.value,
            "similarity": _round(self.similarity),
            "confidence": _round(self.confidence),
            "box": polygon_to_json(self.box),
            "page": self.page,
        }


@dataclass(frozen=True, slots=True)
class DocumentScore:
    """One scored document: what intervals and paired comparisons are made of. ``strict`` counts its printed fields."""

    file: str
    document: int
    doc_type: str
    strict: Count
    f1: float
    reward: float


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """Of a model's answers, where one read: how many were asked for, held a whole JSON object, and were exactly what was
    asked for (no mark of ``extract.engine.answer_parser``); ``marks`` counts what was not, ``tokens`` what was sampled."""

    asked: int = 0
    valid: Count = Count()
    strict: Count = Count()
    marks: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "asked": self.asked,
            "valid": self.valid.to_json(),
            "strict": self.strict.to_json(),
            "marks": dict(self.marks),
            "tokens": self.tokens,
        }


@dataclass(frozen=True, slots=True)
class FileCounts:
    """``missing``: labelled without a result; ``unlabelled``: a result without a label (not scored)."""

    labelled: int = 0
    missing: int = 0
    failed: int = 0
    unlabelled: int = 0


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """How many certificates the files hold and were found to hold; ``files`` counts the files where both numbers are equal."""

    expected: int = 0
    found: int = 0
    files: Count = Count()


@dataclass(frozen=True, slots=True)
class Report:
    """The whole evaluation. ``types`` counts known types that were named rightly, ``unknown`` files of other types that were
    answered as unknown; ``confusion`` maps (true type, given type) to documents; ``skipped`` labels to how often they were not
    scored because they are on the skip list or no field of the type. ``samples`` are what a calibration is fitted on."""

    overall: Scores
    codes: Count
    unknown: Count
    types: Count
    files: FileCounts
    documents: DocumentCounts
    by_type: Mapping[str, Scores]
    by_field: Mapping[str, FieldScores]
    confusion: Mapping[tuple[str, str], int]
    causes: Mapping[Cause, int]
    reliability: tuple[ReliabilityBin, ...]
    ece: float | None
    errors: tuple[FieldError, ...]
    skipped: Mapping[str, int]
    samples: tuple[ConfidenceSample, ...] = ()
    scored: tuple[DocumentScore, ...] = ()
    answers: AnswerCounts = AnswerCounts()

    def intervals(self, doc_type: str | None = None, *, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Interval]:
        """Strict rate, F1 and reward with 95 % intervals by bootstrap over documents, of one type or of all."""
        chosen = [d for d in self.scored if doc_type in (None, d.doc_type)]
        strict = [float(d.strict.ok) for d in chosen], [float(d.strict.n) for d in chosen]
        return {
            "strict": ratio_interval(*strict, seed=seed, resamples=resamples),
            "f1": mean_interval([d.f1 for d in chosen], seed=seed, resamples=resamples),
            "reward": mean_interval([d.reward for d in chosen], seed=seed, resamples=resamples),
        }

    def against(self, before: Report, *, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Interval]:
        """How much better this reading is than another of the same labels, document by document.

        Raises EvaluationError when the two did not score the same documents.
        """
        theirs = {(d.file, d.document): d for d in before.scored}
        if len(theirs) != len(self.scored) or any((d.file, d.document) not in theirs for d in self.scored):
            raise EvaluationError("the two readings did not score the same documents; evaluate both with the same labels")
        pairs = [(d, theirs[d.file, d.document]) for d in self.scored]
        return {
            name: paired_interval([take(a) for a, _ in pairs], [take(b) for _, b in pairs], seed=seed, resamples=resamples)
            for name, take in (("strict", _strict_rate), ("f1", _f1), ("reward", _reward))
        }

    def summary(self) -> str:
        """Return the one line of the development pack's scorer, with Wilson's 95 % interval."""
        strict = self.overall.strict
        rate = "-" if strict.rate is None else f"{strict.rate:.3f}"
        low_high = "" if strict.interval is None else f" [{strict.interval[0]:.3f}, {strict.interval[1]:.3f}]"
        return (
            f"strict exact {strict} = {rate}{low_high}; codes {self.codes}; invented {self.overall.invented}; "
            f"unknown types {self.unknown}"
        )

    def to_table(self, *, width: int = 120) -> str:
        """Return the report as text for a terminal, ``width`` columns wide, without the errors one by one."""
        from certloop.extract.evaluation.table import render_table

        return render_table(self, width=width)

    def to_json(self, *, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Any]:
        """Return everything but ``samples`` as values that ``json.dumps`` takes; ``seed`` draws the bootstrap's samples."""
        groups = (None, *self.by_type)
        bootstrap = {
            group or "all": {k: v.to_json() for k, v in self.intervals(group, seed=seed, resamples=resamples).items()}
            for group in groups
        }
        return {
            "overall": self.overall.to_json(),
            "bootstrap_95": {"seed": seed, "resamples": resamples, "by_document": bootstrap},
            "answers": self.answers.to_json(),
            "codes": self.codes.to_json(),
            "unknown_types": self.unknown.to_json(),
            "types": self.types.to_json(),
            "files": {
                "labelled": self.files.labelled,
                "missing": self.files.missing,
                "failed": self.files.failed,
                "unlabelled": self.files.unlabelled,
            },
            "documents": {
                "expected": self.documents.expected,
                "found": self.documents.found,
                "files": self.documents.files.to_json(),
            },
            "by_type": {name: scores.to_json() for name, scores in self.by_type.items()},
            "by_field": {name: scores.to_json() for name, scores in self.by_field.items()},
            "confusion": [{"expected": a, "got": b, "n": n} for (a, b), n in self.confusion.items()],
            "causes": {cause.value: n for cause, n in self.causes.items()},
            "confidence": {
                "ece": _round(self.ece),
                "bins": [
                    {"low": b.low, "high": b.high, "n": b.n, "confidence": _round(b.confidence), "accuracy": _round(b.accuracy)}
                    for b in self.reliability
                ],
            },
            "errors": [error.to_json() for error in self.errors],
            "skipped": dict(self.skipped),
        }


def _strict_rate(document: DocumentScore) -> float:
    return document.strict.rate if document.strict.rate is not None else 1.0


def _f1(document: DocumentScore) -> float:
    return document.f1


def _reward(document: DocumentScore) -> float:
    return document.reward


def mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
