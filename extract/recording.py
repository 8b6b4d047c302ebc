"""From a result to the store: every document that was read leaves a trajectory with its pages, steps, answer and checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop import CertloopError, __version__

if TYPE_CHECKING:
    from certloop.agentrl.signals.schema import Signal
    from certloop.agentrl.store import Store
    from certloop.agentrl.trajectory import Consent, Outcome, Provenance, Sampled, Trajectory
    from certloop.extract.ingest import Decoder, IngestLimits, Page
    from certloop.extract.result import Document, Result
    from certloop.templates import Registry

NAMING_KINDS = frozenset({"text", "uscc", "regno15", "id_number", "licence_no", "digits"})
MIN_SUBJECT = 2


@dataclass(frozen=True, slots=True)
class Terms:
    """Whose documents these are, and what they may be used for; ``actor`` stands in the audit trail."""

    tenant: str
    consent: Consent
    purpose: str
    actor: str


class Recorder:
    """Writes results into a store. Pages are stored as they were read (upright pixels as PNG, no camera or place data)."""

    def __init__(self, store: Store, terms: Terms, registry: Registry, limits: IngestLimits, decoder: Decoder) -> None:
        self._store, self._terms, self._registry = store, terms, registry
        self._limits, self._decoder = limits, decoder

    def record(self, source: Path | bytes, result: Result) -> Result:
        """Store each document of ``result`` and return it with the trajectory ids.

        What the store refuses is an error of this file alone: documents stay as they were read, the status becomes partial and
        ``error`` says why; a document without ``trajectory_id`` was not stored.
        """
        from certloop.extract.ingest import ingest
        from certloop.extract.result import FileStatus

        if not result.documents:
            return result
        documents = list(result.documents)
        try:
            pages = {page.index: page for page in ingest(source, self._limits, decoder=self._decoder).pages}
            for index, document in enumerate(documents):
                documents[index] = replace(document, trajectory_id=self._store_document(document, pages))
        except CertloopError as error:
            return replace(result, documents=tuple(documents), status=FileStatus.PARTIAL, error=error.to_json())
        return replace(result, documents=tuple(documents))

    def _store_document(self, document: Document, pages: dict[int, Page]) -> str:
        from certloop.agentrl.store import record_result

        traj_id, told = episode_id(document), episode_of(document)
        terms = self._terms
        return record_result(
            self._store,
            provenance=_provenance(document, told, terms.tenant, terms.consent, terms.purpose),
            doc_type=document.doc_type,
            final=told.final,
            outcome=told.outcome,
            sampled=told.sampled,
            steps=document.steps,
            images=[png(pages[index]) for index in document.pages if index in pages],
            actor=terms.actor,
            subjects=subjects_of(document, self._registry),
            signals=check_signals(document, traj_id),
            created_at=read_at(document),
            traj_id=traj_id,
        )


def trajectory_of(document: Document, *, tenant: str = "local", image_sha256: Sequence[str] = ()) -> Trajectory | None:
    """The episode that read a document, as a trajectory; None where its steps are not there (a result read back from JSON).

    It is built from what the episode left behind, without looking at the page again. ``image_sha256`` are the pages' blobs where
    somebody stored them. Consent is none until somebody says otherwise.
    """
    from certloop.agentrl.trajectory import Consent
    from certloop.agentrl.trajectory.bridge import trajectory_from_steps

    at = read_at(document)
    if at is None:
        return None
    told = episode_of(document)
    return trajectory_from_steps(
        document.steps,
        provenance=_provenance(document, told, tenant, Consent.NONE, ""),
        traj_id=document.trajectory_id or episode_id(document),
        doc_type=document.doc_type,
        created_at=at.isoformat(timespec="microseconds"),
        final=told.final,
        image_sha256=image_sha256,
        outcome=told.outcome,
        sampled=told.sampled,
    )


def read_at(document: Document) -> datetime | None:
    """When the episode began."""
    at = document.steps[0].get("at") if document.steps else None
    return None if at is None else datetime.fromisoformat(at)


def episode_id(document: Document) -> str:
    """The id of the episode that read a document: the same whenever it is asked for, sorted by time like every id of the store;
    no value goes into it."""
    at = read_at(document)
    if at is None:
        from certloop.agentrl.store.events import new_id

        return new_id()
    told: list[Any] = [document.doc_type, document.pages, document.box, sorted(document.quality.items())]
    told.append([step.get("latency_ms") for step in document.steps])
    return f"{round(at.timestamp() * 1e6) * 1000:016x}{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]}"


def _provenance(document: Document, told: Episode, tenant: str, consent: Consent, purpose: str) -> Provenance:
    from certloop.agentrl.trajectory.bridge import Provenance

    return Provenance(
        tenant,
        consent,
        purpose,
        policy_version=document.release,
        harness_version=__version__,
        prompt_version=told.prompt_version,
        type_version=document.type_version,
    )


@dataclass(frozen=True, slots=True)
class Episode:
    """What a trajectory keeps of how a document was answered. ``final`` is the JSON as a model wrote it, where it wrote exactly
    what it was asked for, else the answer by label; ``outcome`` None leaves it to whether there is an answer."""

    final: Mapping[str, str | None] | str | None
    outcome: Outcome | None = None
    sampled: Sampled | None = None
    prompt_version: str = ""


def episode_of(document: Document) -> Episode:
    """An OCR reading has its answer only; a model's also has its tokens, as sampled, one turn a page it was asked about."""
    from certloop.agentrl.trajectory import Outcome, Role, Sampled, Sampling, Turn, build_tokens

    if not document.generations:
        seen = not document.steps or any(step["ok"] for step in document.steps)
        return Episode(answer_of(document)) if seen else Episode(None, Outcome.REFUSED)
    written = document.generations
    last = written[-1]
    outcome = next((Outcome(g.outcome) for g in written if g.outcome != Outcome.CLEAN), Outcome.CLEAN)
    said = any(field.value is not None for field in document.fields.values()) or outcome is Outcome.CLEAN
    exact = len(written) == 1 and last.final_json is not None
    final: Mapping[str, str | None] | str | None = last.final_json if exact else answer_of(document) if said else None
    sampled = None
    if all(g.token_ids for g in written):
        turns = [turn for g in written for turn in (Turn(Role.USER, g.prompt_ids), Turn(Role.ASSISTANT, g.token_ids, g.logprobs))]
        sampled = Sampled(build_tokens(turns), last.token_offsets if exact else (), Sampling(last.temperature))
    return Episode(final, outcome, sampled, last.prompt_version)


def answer_of(document: Document) -> dict[str, str | None]:
    """The answer as a model would write it to the type's prompt: printed values by label, null where the print cannot be read or
    nothing stands, nothing for what the form does not have."""
    from certloop.extract.result import FieldStatus

    printed = (FieldStatus.READ, FieldStatus.BLANK, FieldStatus.UNREADABLE)
    return {field.label: field.value for field in document.fields.values() if field.status in printed}


def subjects_of(document: Document, registry: Registry) -> tuple[str, ...]:
    """Names and numbers by which somebody may ask for erasure: every short value read, except dates, amounts and choices."""
    doc_type = registry.types.get(document.doc_type)
    if doc_type is None:
        return ()
    kinds = {spec.id: spec.kind.value for spec in doc_type.fields.values()}
    values = (field.value for key, field in document.fields.items() if kinds.get(key) in NAMING_KINDS)
    return tuple(dict.fromkeys(value for value in values if value is not None and len(value.strip()) >= MIN_SUBJECT))


def check_signals(document: Document, traj_id: str) -> list[Signal]:
    """One signal per field that fails a hard rule. It counts for nothing until a second look or an auditor agrees: the paper
    itself may be misprinted. Second looks are a number in a QR code and, beside a model's answer, what OCR reads in that field.
    The hint names field and rule, never a value; the span is where a model wrote that field."""
    from certloop.agentrl.rewards.text import fold
    from certloop.agentrl.signals.emit import Origin, SecondRead, validator_signals
    from certloop.agentrl.store.events import now
    from certloop.agentrl.trajectory.spans import field_token_span
    from certloop.extract.marks.qr import codes_in_payload

    origin = Origin(traj_id, f"validators {__version__}", now())
    signals: list[Signal] = []
    encoded = [codes_in_payload(code.payload) for code in document.qr]
    written = trajectory_of(document) if document.generations else None
    seen, broken = _read_by_ocr(document)
    for name, field in document.fields.items():
        rules = [v.rule for v in field.validations if v.failed and v.severity.value == "hard"]
        texts = {found[name] for found in encoded if name in ("credit_code", "registration_no") and name in found}
        second = [SecondRead("qr", text) for text in sorted(texts)] if field.value is not None else []
        if rules and name in seen and (name not in broken or fold(seen[name]) == fold(field.value or "")):
            second.append(SecondRead("ocr", seen[name]))  # OCR misreads, too: what breaks a rule itself contradicts nobody
        signals += validator_signals(
            origin,
            field.label,
            field.value,
            hard_fail=bool(rules),
            message=f"{where_to_look(field.label)}（未通过校验：{', '.join(rules)}）",
            second_reads=second,
            span=field_token_span(written, field.label) if written is not None and (rules or second) else None,
        )
    return signals


def _read_by_ocr(document: Document) -> tuple[Mapping[str, str], frozenset[str]]:
    """What OCR read on its own, by field id, before a model answered, and which of these values break a rule: the arguments and
    the result of the last time that the rules were asked."""
    asked = [step for step in document.steps if step["tool"] == "validate" and step["ok"]] if document.generations else []
    if not asked:
        return {}, frozenset()
    return asked[-1]["args"]["values"], frozenset(row["field"] for row in asked[-1]["result"]["failed"])


def where_to_look(label: str) -> str:
    """The hint of a field that was read wrongly: where to look again, never what is printed there."""
    return f"字段「{label}」读错了，请放大该字段，逐字照印刷内容重读。"


def png(page: Page) -> bytes:
    """The page's pixels, exactly; fast rather than small."""
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(page.image).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
