"""A decision as signals on the trajectory (DESIGN §3, METHODS §1.5 and §5): what was kept, what was changed, what should have
been done. Fields go by their printed label, as in the stored answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from certloop.agentrl.signals import (
    Origin,
    Reason,
    Scope,
    Signal,
    Source,
    business_signal,
    classify_message,
    field_named,
    review_signals,
    without_answer,
)
from certloop.agentrl.trajectory import Trajectory, field_token_span
from certloop.extract.recording import where_to_look
from certloop.serve.review.certificate import FieldJson, Fields, by_label
from certloop.templates import DocumentType

FIRST_PASS = "first_pass"  # noqa: S105 - approved without an edit


def approval_signals(
    origin: Origin, read: Fields, final: Fields, *, trajectory: Trajectory | None = None, doc_type: str | None = None
) -> list[Signal]:
    """The signals of an approval of ``final`` where ``read`` was read.

    Each changed field gets -1 and a hint where to look, each kept one +1, the whole the F1 of what was read against what was
    approved. A kept field that fails a hard rule is verbatim and the paper misprinted: +1, and flagged. The edits' ``evidence``
    is the approved truth (``approved_answer`` puts it together); ``doc_type`` stands in it where a person changed the type. One
    business outcome says whether the first pass was right.
    """
    by_name = {str(field["label"]): field for field in final.values()}
    out = []
    for signal in review_signals(origin, by_label(read), by_label(final), locate=where_to_look, trajectory=trajectory):
        field = by_name.get(signal.field or "")
        if signal.reason == Reason.EDIT and field is not None:
            printed = field["value"] is None and field["status"] in ("blank", "unreadable")
            extra = {"status": field["status"]} | ({"printed": True} if printed else {})
            signal = replace(signal, evidence={**signal.evidence, **extra})
        elif signal.scope is Scope.FIELD and field is not None and fails_hard(field):
            signal = replace(signal, reason=Reason.PRINT_IS_WRONG)
        elif signal.scope is Scope.TRAJECTORY and doc_type is not None:
            signal = replace(signal, evidence={**signal.evidence, "doc_type": doc_type})
        out.append(signal)
    edited = any(signal.reason == Reason.EDIT for signal in out)
    return [*out, business_signal(origin, FIRST_PASS, good=not edited)]


def comment_signals(
    origins: Iterable[tuple[Origin, str]],
    *,
    doc_type: DocumentType | None,
    edited: Sequence[str] = (),
    trajectory: Trajectory | None = None,
) -> list[Signal]:
    """Sentences that say what should have been done, as hints (without the answer): on the field that they name if that was
    wrong, else on the first step. A sentence without advice says nothing to the learner."""
    out = []
    for origin, text in origins:
        found = classify_message(text)
        if found is None or found.value >= 0 or found.hint is None:
            continue
        named = field_named(text, labels_of(doc_type)) if doc_type is not None else None
        on_field = named if named in edited else None
        out.append(
            Signal(
                traj_id=origin.traj_id,
                source=Source.AUDITOR,
                scope=Scope.FIELD if on_field else Scope.STEP,
                value=-1.0,
                confidence=found.confidence,
                reason=Reason.NEXT_MESSAGE,
                actor=origin.actor,
                at=origin.at,
                field=on_field,
                step=None if on_field else 0,
                span=field_token_span(trajectory, on_field) if trajectory is not None and on_field else None,
                hint=without_answer(found.hint),
                evidence={"rule": found.rule, "hint_with_answer": found.hint},
            )
        )
    return out


def edited_labels(read: Fields, final: Fields) -> tuple[str, ...]:
    before, after = by_label(read), by_label(final)
    return tuple(label for label in dict.fromkeys((*before, *after)) if before.get(label) != after.get(label))


def labels_of(doc_type: DocumentType) -> Mapping[str, tuple[str, ...]]:
    """Every name by which people call a field: its printed labels, and these without 至, 限, 日期 or 编号 at the end."""
    endings = ("至", "限", "日期", "编号")
    out = {}
    for spec in doc_type.fields.values():
        short = [label.removesuffix(ending) for label in spec.labels for ending in endings if label.endswith(ending)]
        out[spec.label] = (*spec.labels, *(name for name in dict.fromkeys(short) if len(name) > 2))
    return out


def fails_hard(field: FieldJson) -> bool:
    return any(v["outcome"] == "fail" and v["severity"] == "hard" for v in field["validations"])
