"""A model behind the engines' contract: OCR finds the documents, their types and places; the model reads the values.

Each document's upright view goes to the model with the type's own prompt. What it answers is read tolerantly and marked
(``answer_parser``), placed on the page by OCR (``grounding``) and checked by the same rules as any other reading. Nothing is
filled in from OCR where the model gave no answer: that document says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from certloop.agentrl.trajectory.schema import Outcome
from certloop.extract.answer import answer_documents, missing_fields, qr_agrees, to_user
from certloop.extract.confidence import under_rules
from certloop.extract.config import ExtractConfig
from certloop.extract.engine.answer_parser import Answer, Mark, read_answer
from certloop.extract.engine.contract import AnswerModel, Finish, HoldsAdapters, Image, ModelAnswer, Question, Reading
from certloop.extract.engine.errors import ModelError
from certloop.extract.engine.grounding import locate
from certloop.extract.engine.guidance_text import guidance_lines
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.engine.prompt import prompt_text, prompt_version
from certloop.extract.engine.view import ViewError, page_view
from certloop.extract.episode import DocumentReading, read_page
from certloop.extract.guidance import Adapter, Guidance
from certloop.extract.ingest import Page
from certloop.extract.result import Document, FieldResult, FieldStatus, Generation
from certloop.templates import DocumentType, FieldSpec, Registry, squash
from certloop.validators import check_document, normalise, validate

_NOT_AS_ASKED = frozenset({Mark.DUPLICATE_KEYS, Mark.NOT_FINITE, Mark.NOT_TEXT, Mark.LENIENT, Mark.WRAPPED})
UNTOLD = 0.9  # what a value without log-probabilities is taken for before anything else is known
UNPLACED = 0.5  # a value that OCR sees nowhere keeps this share of its certainty


class ModelReader:
    """Reads pages with an ``AnswerModel``; ``adapter`` names the adapter that answers (None: the model's own)."""

    def __init__(
        self, model: AnswerModel, ocr: OcrEngine, registry: Registry, config: ExtractConfig, *, adapter: str | None = None
    ) -> None:
        self.model, self._ocr, self._registry, self._adapter = model, ocr, registry, adapter
        self._config = replace(config, second_reads=0)

    def read(self, pages: Sequence[Page], doc_type: str | None, guidance: Guidance) -> Reading:
        if guidance.adapter is not None:
            name = self._loaded(guidance.adapter)
            return self.with_adapter(name).read(pages, doc_type, replace(guidance, adapter=None))
        documents: list[Document] = []
        warnings: list[Mapping[str, str]] = []
        failures: list[ModelError] = []
        for page in pages:
            try:
                reading = self._read_page(page, doc_type, guidance)
            except ModelError as error:
                failures.append(error)
                warnings.append({"page": str(page.index), **error.to_json()})
                continue
            except ViewError as error:
                warnings.append({"page": str(page.index), **error.to_json()})
                continue
            documents += reading.documents
            warnings += reading.warnings
        if failures and len(failures) == len(pages):
            raise failures[0]
        return Reading(tuple(documents), tuple(warnings))

    def close(self) -> None:
        self.model.close()

    def with_adapter(self, adapter: str | None) -> ModelReader:
        """The same model answering through another loaded adapter: baseline and canary share one set of weights."""
        return ModelReader(self.model, self._ocr, self._registry, self._config, adapter=adapter)

    def _loaded(self, adapter: Adapter) -> str:
        """A model in this process loads what it does not have yet; a server was given it before. Raises AdapterRefusedError."""
        if isinstance(self.model, HoldsAdapters) and adapter.name not in self.model.adapters:
            self.model.load_adapter(adapter.name, Path(adapter.folder))
        return adapter.name

    def _read_page(self, page: Page, doc_type: str | None, guidance: Guidance) -> Reading:
        config = replace(self._config, guidance=guidance)
        readings, around = read_page(page.image, self._ocr, self._registry, config, doc_type=doc_type)
        documents = answer_documents(page, readings, around)
        asked = [index for index, reading in enumerate(readings) if reading.doc_type is not None]
        questions = [self._question(page, readings[i], guidance, alone=len(readings) == 1) for i in asked]
        warnings: list[Mapping[str, str]] = []
        for index, question, written in zip(asked, questions, self.model.answer(questions) if questions else [], strict=True):
            answer = read_answer(written.text)
            documents[index] = _document(documents[index], readings[index], page, question, written, answer)
            warnings += _warnings(page, written, answer)
        return Reading(tuple(documents), tuple(warnings))

    def _question(self, page: Page, reading: DocumentReading, guidance: Guidance, *, alone: bool) -> Question:
        doc_type = reading.doc_type
        assert doc_type is not None
        text = reading.layout.text if reading.layout else ""
        image = page.image if alone else _cut_out(page.image, reading)
        turns = round(reading.upright.degrees / 90) % 4
        view = page_view(image, self.model.view, quarter_turns=turns)
        prompt = prompt_text(doc_type.prompt, guidance_lines(guidance, doc_type, text))
        labels = tuple(spec.label for spec in doc_type.fields.values())
        return Question((view,), prompt, labels, self._adapter)


def _cut_out(image: Image, reading: DocumentReading) -> Image:
    """One document of a page that holds several: the ground of its lines, with a margin."""
    corners = np.concatenate([line.quad for line in reading.lines])
    margin = 1.5 * float(np.median([line.thickness for line in reading.lines]))
    left, top = corners.min(axis=0) - margin
    right, bottom = corners.max(axis=0) + margin
    height, width = image.shape[:2]
    part = image[max(0, int(top)) : min(height, math.ceil(bottom)), max(0, int(left)) : min(width, math.ceil(right))]
    return np.ascontiguousarray(part)


def _document(
    base: Document, reading: DocumentReading, page: Page, question: Question, written: ModelAnswer, answer: Answer
) -> Document:
    """The document as the model read it; what stands beside the fields (seals, QR codes, quality) stays OCR's."""
    doc_type = reading.doc_type
    assert doc_type is not None
    given = _by_field(answer, doc_type)
    fields = {
        spec.id: _field(spec, base.fields[spec.id], given.get(spec.id), reading, page, written, answer)
        for spec in doc_type.fields.values()
    }
    values = {key: found.value for key, found in fields.items()}
    mark = fields.get("copy")
    return replace(
        base,
        fields=fields,
        copy=mark.value if mark else None,
        qr=tuple(replace(code, agrees=qr_agrees(code, values)) for code in base.qr),
        validations=check_document(doc_type.id, values, [code.payload for code in base.qr]),
        missing=missing_fields(doc_type, fields),
        steps=(*base.steps, _step(question, written, answer, len(given), doc_type)),
        generations=(_generation(doc_type, written, answer),),
    )


@dataclass(frozen=True, slots=True)
class _Given:
    """What the answer says about one field, and under which key."""

    key: str
    value: str | None


def _by_field(answer: Answer, doc_type: DocumentType) -> dict[str, _Given]:
    """Answers by field id. Printed aliases are taken for their field; of two keys of one field the first with a value counts."""
    ids = {spec.label: spec.id for spec in doc_type.fields.values()}
    canonical = doc_type.canonical_labels()
    out: dict[str, _Given] = {}
    for key, value in answer.fields.items():
        label = canonical.get(squash(key))
        if label is None:
            continue
        text = value.strip() if value is not None else None
        if ids[label] not in out or (out[ids[label]].value is None and text):
            out[ids[label]] = _Given(key, text or None)
    return out


def _field(
    spec: FieldSpec,
    seen: FieldResult,
    given: _Given | None,
    reading: DocumentReading,
    page: Page,
    written: ModelAnswer,
    answer: Answer,
) -> FieldResult:
    if given is None:
        lost = FieldStatus.ABSENT if answer.complete else FieldStatus.UNREADABLE
        return FieldResult(spec.label, None, status=lost)
    if given.value is None:
        blank = seen.status in (FieldStatus.BLANK, FieldStatus.ABSENT)
        status = FieldStatus.BLANK if blank else FieldStatus.UNREADABLE
        return FieldResult(spec.label, None, status=status, box=seen.box, page=seen.page)
    verdicts = tuple(v for kind in spec.validator_kinds for v in validate(kind, given.value))
    place = locate(given.value, reading.layout, spec.id) if reading.layout is not None else None
    sure = _certainty(written, answer.value_spans[given.key])
    if place is None:
        sure *= UNPLACED
    elif place.agreement > 0.999:
        sure = 1 - (1 - sure) * (1 - place.score)  # two readers agree
    else:
        sure *= UNPLACED + (1 - UNPLACED) * place.agreement
    return FieldResult(
        spec.label,
        given.value,
        normalised=normalise(spec.validator_kinds[0], given.value),
        status=FieldStatus.READ,
        confidence=max(0.0, min(1.0, under_rules(sure, verdicts))),
        box=None if place is None else to_user(reading.upright.back(place.quad), page),
        page=page.index,
        validations=verdicts,
        suggestion=next((v.suggestion for v in verdicts if v.suggestion), None),
    )


def _certainty(written: ModelAnswer, span: tuple[int, int]) -> float:
    """The model's own certainty about the characters of one value: the mean of its geometric mean and its weakest token."""
    pairs = zip(written.offsets, written.logprobs, strict=False)
    inside = [p for (start, end), p in pairs if start < span[1] and end > span[0] and end > start]
    if not inside:
        return UNTOLD
    return (math.exp(sum(inside) / len(inside)) + math.exp(min(inside))) / 2


def _generation(doc_type: DocumentType, written: ModelAnswer, answer: Answer) -> Generation:
    """``final_json`` is kept as written only where it is the answer as it was asked for: by canonical label, and nothing else."""
    told = bool(written.token_ids) and len(written.logprobs) == len(written.token_ids)
    labels = {spec.label for spec in doc_type.fields.values()}
    exact = answer.json_text is not None and answer.complete and not answer.marks & _NOT_AS_ASKED and set(answer.fields) <= labels
    offsets: tuple[tuple[int, int], ...] = ()
    if exact and told and len(written.offsets) == len(written.token_ids):
        first, last = answer.span
        offsets = tuple(
            (max(a, first) - first, min(b, last) - first) if a < last and b > first else (0, 0) for a, b in written.offsets
        )
    outcome = answer.outcome
    if written.finish is not Finish.STOP and outcome is Outcome.CLEAN:
        outcome = Outcome.TRUNCATED
    return Generation(
        model=written.model,
        adapter=written.adapter,
        prompt_version=prompt_version(doc_type.prompt),
        outcome=outcome.value,
        final_json=answer.json_text if exact else None,
        prompt_ids=written.prompt_ids if told else (),
        token_ids=written.token_ids if told else (),
        logprobs=written.logprobs if told else (),
        token_offsets=offsets,
        temperature=written.temperature,
    )


def _step(question: Question, written: ModelAnswer, answer: Answer, known: int, doc_type: DocumentType) -> Mapping[str, Any]:
    """The model's part of the episode: its reasoning as the thought, what it was asked and what became of the answer."""
    height, width = question.images[0].shape[:2]
    args = {
        "model": written.model,
        "adapter": written.adapter,
        "prompt": prompt_version(doc_type.prompt),
        "guided": question.prompt != doc_type.prompt,
        "image": [width, height],
        "temperature": written.temperature,
        "constraint": written.constraint,
    }
    result = {
        "finish": written.finish.value,
        "outcome": answer.outcome.value,
        "marks": sorted(answer.marks),
        "fields": known,
        "unknown_keys": len(answer.fields) - known,
        "tokens": len(written.token_ids) or written.usage.get("completion_tokens", 0),
    }
    ok = answer.json_text is not None
    step = {"thought": answer.thought, "tool": "ask_model", "args": args, "ok": ok, "result": result}
    return step if ok else step | {"error_kind": "no_answer"}


def _warnings(page: Page, written: ModelAnswer, answer: Answer) -> list[Mapping[str, str]]:
    if answer.complete:
        return []
    where = {"page": str(page.index)}
    if answer.json_text is None:
        why = " (stopped in a repetition loop)" if written.finish is Finish.LOOP or Mark.LOOP in answer.marks else ""
        return [where | {"code": "answer_malformed", "message": f"the model's answer holds no JSON object{why}"}]
    why = "stopped in a repetition loop" if written.finish is Finish.LOOP else "cut or broken"
    message = f"the model's answer was {why}; {len(answer.fields)} fields could be saved of it"
    return [where | {"code": "answer_truncated", "message": message}]
