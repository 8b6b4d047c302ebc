"""Whether a certificate needs a person, and why: each reason is a word, a field, and a sentence in Chinese and in English."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from certloop.extract.result import Document, FieldResult, FieldStatus
from certloop.serve.confidence.calibration import Calibration
from certloop.serve.dossier.compare import Comparison, Match
from certloop.templates import DocumentType
from certloop.validators import Severity


class Why(StrEnum):
    """In the order of how much they weigh."""

    TYPE_UNKNOWN = "type_unknown"
    HARD_RULE_FAILED = "hard_rule_failed"
    QR_DISAGREES = "qr_disagrees"
    DECLARED_DIFFERS = "declared_differs"
    DOSSIER_DISAGREES = "dossier_disagrees"
    DECLARED_UNREADABLE = "declared_unreadable"
    REQUIRED_MISSING = "required_missing"
    FIELD_UNSURE = "field_unsure"
    SAMPLED = "sampled"
    DOUBLE_CHECK = "double_check"


SENTENCES: Mapping[Why, tuple[str, str]] = {
    Why.TYPE_UNKNOWN: ("未能识别证照类型，请人工判断。", "The kind of certificate was not recognised."),
    Why.HARD_RULE_FAILED: ("校验码不成立：可能读错，也可能原件印错。", "A check digit does not hold: misread, or misprinted."),
    Why.QR_DISAGREES: ("二维码中的号码与印刷的号码不一致。", "The QR code holds another number than is printed."),
    Why.DECLARED_DIFFERS: ("与申报的内容不一致。", "It differs from what was declared."),
    Why.DOSSIER_DISAGREES: ("与同一供应商的其他证件不一致。", "It disagrees with another certificate of the same supplier."),
    Why.DECLARED_UNREADABLE: ("申报的内容在证照上无法核实。", "What was declared cannot be found on the print."),
    Why.REQUIRED_MISSING: ("必填项没有读出。", "A required field was not read."),
    Why.FIELD_UNSURE: ("必填项的把握不足以免审。", "A required field is not sure enough to pass unseen."),
    Why.SAMPLED: ("抽样复核，用于核实免审的准确率。", "Drawn at random, to measure what passes unseen."),
    Why.DOUBLE_CHECK: ("抽样由第二位审核员独立复核。", "Drawn at random for a second, independent auditor."),
}
_WEIGHT = {why: float(len(Why) - position) for position, why in enumerate(Why)}


@dataclass(frozen=True, slots=True)
class Reason:
    """``field`` is a field id, None where the whole certificate is meant."""

    why: Why
    field: str | None = None
    label: str | None = None

    def to_json(self) -> dict[str, Any]:
        zh, en = SENTENCES[self.why]
        place_zh, place_en = (f"「{self.label}」", f"{self.field}: ") if self.field else ("", "")
        return {
            "reason": self.why.value,
            "field": self.field,
            "label": self.label,
            "message_zh": f"{place_zh}{zh}",
            "message_en": f"{place_en}{en}",
        }


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """How much a tenant leaves to the machine.

    ``accepted_error`` is the share of errors that the tenant accepts among fields that nobody looked at; ``sample_share`` of the
    certificates that would pass are reviewed all the same, ``double_share`` of the decided ones by a second auditor.
    ``all_fields`` asks sureness of optional fields, too. Leases and the time for undoing are in seconds.
    """

    accepted_error: float = 0.02
    sample_share: float = 0.02
    double_share: float = 0.05
    all_fields: bool = False
    lease_s: float = 600.0
    undo_s: float = 60.0
    seed: str = "certloop"


DEFAULT_POLICY = ReviewPolicy()


def triage(
    document: Document,
    policy: ReviewPolicy,
    *,
    doc_type: DocumentType | None,
    calibration: Calibration,
    certificate_id: str,
    comparisons: Sequence[Comparison] = (),
) -> tuple[Reason, ...]:
    """Why this certificate needs a person; empty when it may pass. The heaviest reason comes first.

    ``comparisons`` are those of audit mode (``serve.dossier.compare``). Sampling is by hash of ``policy.seed`` and
    ``certificate_id``, so that a repeated call gives the same answer.
    """
    if doc_type is None:
        return (Reason(Why.TYPE_UNKNOWN),)
    reasons = [_about(Why.REQUIRED_MISSING, name, doc_type) for name in document.missing]
    for name, read in document.fields.items():
        if any(v.failed and v.severity is Severity.HARD for v in read.validations):
            reasons.append(_about(Why.HARD_RULE_FAILED, name, doc_type))
    if any(code.agrees is False for code in document.qr):
        reasons.append(_about(Why.QR_DISAGREES, "credit_code", doc_type))
    for declared in comparisons:
        if declared.match is not Match.MATCH:
            why = Why.DECLARED_DIFFERS if declared.match is Match.DIFFERS else Why.DECLARED_UNREADABLE
            reasons.append(_about(why, declared.field, doc_type))
    unsure = unsure_fields(document.fields, policy, doc_type, calibration)
    reasons += [_about(Why.FIELD_UNSURE, name, doc_type) for name in unsure]
    if not reasons and drawn(policy.seed, "sample", certificate_id, policy.sample_share):
        reasons.append(Reason(Why.SAMPLED))
    return tuple(sorted(dict.fromkeys(reasons), key=lambda reason: -_WEIGHT[reason.why]))


def unsure_fields(
    fields: Mapping[str, FieldResult], policy: ReviewPolicy, doc_type: DocumentType, calibration: Calibration
) -> tuple[str, ...]:
    """The read fields that must be sure and are not: required ones and those of which one is enough, or all."""
    wanted = {*doc_type.required, *(name for group in doc_type.one_of for name in group)}
    threshold = calibration.threshold(policy.accepted_error)
    return tuple(
        name
        for name, read in fields.items()
        if read.status is FieldStatus.READ
        and (policy.all_fields or name in wanted)
        and (spec := doc_type.fields.get(name)) is not None
        and (threshold is None or calibration.probability(spec.kind.value, read.confidence) < threshold)
    )


def priority_of(reasons: Iterable[Reason]) -> float:
    """The heaviest reason counts; more of them break ties."""
    weights = sorted((_WEIGHT[reason.why] for reason in reasons), reverse=True)
    return (weights[0] + min(len(weights), 99) / 100) if weights else 0.0


def drawn(seed: str, purpose: str, key: str, share: float) -> bool:
    """Whether ``key`` falls into a share of all keys, decided by hash."""
    digest = hashlib.sha256(f"{seed}\x1f{purpose}\x1f{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2.0**64


def _about(why: Why, name: str, doc_type: DocumentType) -> Reason:
    spec = doc_type.fields.get(name)
    return Reason(why, name, spec.label if spec else None)
