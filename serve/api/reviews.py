"""Review: what waits for a person, claiming, correcting, deciding, taking back, and how far auditors can be believed."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from certloop.extract.result import FieldStatus
from certloop.serve.api.cursors import read_cursor, write_cursor
from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Body, Cursor, Limit, Number, Open
from certloop.serve.context import Service
from certloop.serve.db.access import reading
from certloop.serve.errors import CursorError, PreconditionError, PreconditionMissingError
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission
from certloop.serve.review import claims, decide, double, edits, read
from certloop.serve.review.decide import Decision, RejectReason
from certloop.serve.review.edits import MAX_COMMENT_CHARS, MAX_VALUE_CHARS, Edit
from certloop.serve.review.read import Claimed, State, Wanted
from certloop.serve.review.triage import Why

router = APIRouter(prefix="/v1", tags=["review"])
Reader = Annotated[Actor, Depends(allowed(Permission.REVIEWS_READ))]
Auditor = Annotated[Actor, Depends(allowed(Permission.REVIEWS_DECIDE))]
Learner = Annotated[Actor, Depends(allowed(Permission.LEARNING_READ))]
ID = "doc_18c0f3a2b4d5e6f708192a3b4c5d6e7f.0"
CertificateId = Annotated[str, Path(pattern=r"^doc_[0-9a-f]{32}\.[0-9]{1,4}$", examples=[ID])]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", max_length=100, description='the ETag that you saw, such as `"3"`', examples=['"3"'])
]
Comment = Annotated[
    str | None,
    Field(
        max_length=MAX_COMMENT_CHARS, description="a sentence on what should have been done; it becomes a hint for the learner"
    ),
]
TypeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,63}$")]
_TAG = re.compile(r'"([0-9]{1,9})"')

_REASON: dict[str, JsonValue] = {
    "reason": "field_unsure",
    "field": "address",
    "label": "住所",
    "message_zh": "「住所」必填项的把握不足以免审。",
    "message_en": "address: A required field is not sure enough to pass unseen.",
}
_HEAD: dict[str, JsonValue] = {
    "certificate_id": ID,
    "document_id": ID.split(".")[0],
    "doc_type": "business_licence",
    "revision": 2,
    "state": "open",
    "second_look": False,
    "priority": 5.01,
    "reasons": [_REASON],
    "created_at": "2026-03-01T08:00:00.000000+00:00",
    "age_s": 95.2,
    "claimed_by": None,
    "lease_until": None,
    "decided_by": None,
    "decided_at": None,
}
_DECISION: dict[str, JsonValue] = {
    "certificate_id": ID,
    "state": "approved",
    "revision": 4,
    "signals": ["0d5f7c3e9a1b2c4d6e8f0a1b2c3d4e5f"],
    "undo_until": "2026-03-01T08:03:00.000000+00:00",
}
_FIELD: dict[str, JsonValue] = {
    "label": "住所",
    "value": "某省某市某区样例路 1 号",
    "normalised": "某省某市某区样例路 1 号",
    "status": "read",
    "confidence": 0.83,
    "box": [[120.0, 410.0], [610.0, 410.0], [610.0, 444.0], [120.0, 444.0]],
    "page": 0,
    "validations": [],
    "kind": "text",
    "required": True,
    "probability": 0.87,
    "crop": f"/v1/certificates/{ID}/pages/0.png?field=address",
    "edited": None,
    "read_value": "某省某市某区样例路 1 号",
}


class ReasonOut(BaseModel):
    reason: Why
    field: str | None
    label: str | None
    message_zh: str
    message_en: str


class ReviewHead(BaseModel):
    """``second_look``: an approved certificate that a second auditor decides again, blindly; it changes nothing about it."""

    model_config = ConfigDict(json_schema_extra={"example": _HEAD})
    certificate_id: str
    document_id: str
    doc_type: str
    revision: int = Field(description="of the certificate; its ETag")
    state: str
    second_look: bool
    priority: float
    reasons: list[ReasonOut]
    created_at: str
    age_s: float
    claimed_by: str | None
    lease_until: str | None
    decided_by: str | None
    decided_at: str | None


class ReviewPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_HEAD], "next_cursor": None}})
    items: list[ReviewHead]
    next_cursor: str | None


class HistoryOut(BaseModel):
    seq: int
    at: str
    actor: str
    action: str
    field: str | None
    details: dict[str, Any]


class ReviewOut(ReviewHead):
    """``fields`` as they stand now; ``read_value`` is what was read, ``probability`` how likely that is right."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": _HEAD
            | {
                "title": "营业执照", "type_confidence": 0.99, "pages": [0], "quality": {"sharpness": 0.8}, "seals": [], "qr": [],
                "fields": {"address": _FIELD}, "missing": [], "validations": [], "comparisons": [], "history": [],
            }
        }
    )  # fmt: skip
    title: str | None
    type_confidence: float
    pages: list[int]
    quality: dict[str, float]
    seals: list[dict[str, Any]]
    qr: list[dict[str, Any]]
    fields: dict[str, dict[str, Any]]
    missing: list[str]
    validations: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    history: list[HistoryOut]


class SummaryOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {"open": 12, "claimed": 2, "oldest_age_s": 5400.0, "second_looks": 1, "reasons": {"field_unsure": 9}}
        }
    )
    open: int
    claimed: int
    oldest_age_s: float | None
    second_looks: int
    reasons: dict[str, int]


class ClaimIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"lease_s": 600}})
    lease_s: Number | None = Field(
        None, ge=10, le=claims.MAX_LEASE_S, allow_inf_nan=False, description="null: as the tenant's settings say"
    )


class FieldEdit(Body):
    value: str | None = Field(max_length=MAX_VALUE_CHARS, description="as printed; null where nothing can be read")
    status: FieldStatus | None = Field(
        None, description="why there is no value: blank (default), absent, unreadable, missing_page"
    )


class EditIn(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "fields": {"address": "某省某市某区样例路 7 号", "term": None, "person": {"value": None, "status": "unreadable"}},
                "comment": "你应该先查二维码",
            }
        }
    )
    fields: dict[str, FieldEdit | str | None] = Field({}, max_length=200, description="by field id")
    doc_type: TypeName | None = Field(None, description="it is another kind of certificate; fields of the same id stay")
    comment: Comment = None


class ApproveIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"comment": "住所第二行被红章遮住，请去红后再读"}})
    comment: Comment = None


class RejectIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"reason": "not_legible"}})
    reason: RejectReason
    comment: Comment = None


class DecisionOut(BaseModel):
    """``signals``: ids of what the learner was told; ``undo_until``: until when the decision can be taken back."""

    model_config = ConfigDict(json_schema_extra={"example": _DECISION})
    certificate_id: str
    state: str
    revision: int
    signals: list[str]
    undo_until: str | None


class AuditorOut(BaseModel):
    auditor: str
    agreed: int
    checked: int
    reliability: float = Field(description="posterior mean of being right on a field; 0.9 for one who was never checked")


class AuditorsOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "items": [
                    {"auditor": "usr_18c0f3a2b4d5e6f708192a3b4c5d6e7f", "agreed": 131, "checked": 134, "reliability": 0.9722}
                ]
            }
        }
    )
    items: list[AuditorOut]


_TAGGED: dict[int | str, dict[str, Any]] = {
    409: {"description": "Somebody else holds it, or it is decided"},
    412: {"description": "If-Match names another revision"},
    428: {"description": "If-Match is missing"},
}
_ETAG: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"description": "the revision, for If-Match", "schema": {"type": "string"}}}}
}


@router.get("/reviews", summary="What waits for a person")
def list_reviews(
    service: Open,
    actor: Reader,
    state: State = State.OPEN,
    doc_type: Annotated[str | None, Query(pattern=r"^[a-z][a-z0-9_]{1,63}$")] = None,
    reason: Annotated[Why | None, Query(description="only with this reason")] = None,
    claimed: Annotated[Claimed | None, Query(description="held by me, by others, or by nobody")] = None,
    min_age_s: Annotated[float, Query(ge=0, le=1e9, allow_inf_nan=False, description="waiting for so long at least")] = 0.0,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ReviewPage:
    """The heaviest reason first, then the oldest. Open reviews include second looks at what others approved."""
    wanted = Wanted(state, doc_type, reason, claimed, min_age_s)
    name = f"reviews {state.value} {doc_type} {reason} {claimed}"
    after = None if cursor is None else _position(read_cursor(cursor, actor.tenant, name, 3))
    rows = read.listing(service, actor, wanted, limit=limit + 1, after=after)
    more = None
    if len(rows) > limit:
        priority, created_at, certificate_id = rows[limit - 1].position
        more = write_cursor(actor.tenant, name, repr(float(priority)), created_at, certificate_id)
    return ReviewPage(items=[ReviewHead.model_validate(row.body) for row in rows[:limit]], next_cursor=more)


@router.get("/reviews/summary", summary="The queue in numbers")
def get_summary(service: Open, actor: Reader) -> SummaryOut:
    """How many certificates wait, for how long, and why."""
    return SummaryOut.model_validate(read.summary(service, actor))


@router.get("/reviews/{certificate_id}", summary="One review", responses=_ETAG)
def get_review(service: Open, actor: Reader, certificate_id: CertificateId, response: Response) -> ReviewOut:
    """Fields with their places and checks, what was declared, history. A second look shows nothing of the first decision."""
    return _out(service, actor, certificate_id, response)


@router.patch("/reviews/{certificate_id}", summary="Correct fields", responses=_ETAG | _TAGGED)
def edit_review(
    service: Open, actor: Auditor, certificate_id: CertificateId, body: EditIn, response: Response, if_match: IfMatch = None
) -> ReviewOut:
    """Corrections are checked at once; the answer shows the checks. Whoever corrects holds the review from then on."""
    wanted = {name: Edit(v.value, v.status) if isinstance(v, FieldEdit) else Edit(v) for name, v in body.fields.items()}
    edits.edit(service, actor, certificate_id, revision_of(if_match), wanted, doc_type=body.doc_type, comment=body.comment)
    return _out(service, actor, certificate_id, response)


@router.post("/reviews/{certificate_id}/claim", summary="Hold a review", responses=_ETAG | {409: _TAGGED[409]})
def claim_review(
    service: Open, actor: Auditor, certificate_id: CertificateId, response: Response, body: ClaimIn | None = None
) -> ReviewOut:
    """Nobody else can take, change or decide it until the lease ends. Claim again to renew."""
    claims.claim(service, actor, certificate_id, None if body is None else body.lease_s)
    return _out(service, actor, certificate_id, response)


@router.post("/reviews/{certificate_id}/release", summary="Give a review back", responses=_ETAG | {409: _TAGGED[409]})
def release_review(service: Open, actor: Auditor, certificate_id: CertificateId, response: Response) -> ReviewOut:
    """Corrections made so far stay. An admin may give back what somebody else holds."""
    claims.release(service, actor, certificate_id)
    return _out(service, actor, certificate_id, response)


@router.post("/reviews/{certificate_id}/approve", summary="Approve", responses=_TAGGED)
def approve_review(
    service: Open, actor: Auditor, certificate_id: CertificateId, body: ApproveIn | None = None, if_match: IfMatch = None
) -> DecisionOut:
    """The certificate is right as it stands now. What was kept counts for the reader, what was corrected against it."""
    comment = None if body is None else body.comment
    return _decision(decide.approve(service, actor, certificate_id, revision_of(if_match), comment=comment))


@router.post("/reviews/{certificate_id}/reject", summary="Reject", responses=_TAGGED)
def reject_review(
    service: Open, actor: Auditor, certificate_id: CertificateId, body: RejectIn, if_match: IfMatch = None
) -> DecisionOut:
    """Only `misread`, `wrong_type` and `not_a_certificate` count against the reader: a bad paper is not its fault."""
    return _decision(decide.reject(service, actor, certificate_id, revision_of(if_match), body.reason, comment=body.comment))


@router.post("/reviews/{certificate_id}/undo", summary="Take a decision back", responses={409: {"description": "Too late"}})
def undo_review(service: Open, actor: Auditor, certificate_id: CertificateId) -> DecisionOut:
    """One's own decision, within a minute. Nothing is deleted: what was said is withdrawn by what is said now."""
    return _decision(decide.undo(service, actor, certificate_id))


@router.get("/auditors", summary="How far auditors can be believed")
def list_auditors(service: Open, actor: Learner) -> AuditorsOut:
    """From certificates that a second auditor decided blindly. Rewards weigh auditors by it."""
    with reading(service, actor.tenant) as connection:
        known = double.auditor_records(connection, actor.tenant)
    return AuditorsOut(
        items=[
            AuditorOut(auditor=name, agreed=r.agreed, checked=r.checked, reliability=round(r.reliability, 4))
            for name, r in sorted(known.items())
        ]
    )


def revision_of(if_match: str | None) -> int:
    """The revision that the caller saw. Raises PreconditionMissingError, PreconditionError for a tag that is none of ours."""
    if if_match is None or if_match.strip() in ("", "*"):
        raise PreconditionMissingError("send If-Match with the ETag of the review that you saw")
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None:
        raise PreconditionError("this If-Match is no ETag of a review; read it again")
    return int(tag[1])


def _out(service: Service, actor: Actor, certificate_id: str, response: Response) -> ReviewOut:
    out = ReviewOut.model_validate(read.view(service, actor, certificate_id))
    response.headers["ETag"] = f'"{out.revision}"'
    return out


def _decision(made: Decision) -> DecisionOut:
    return DecisionOut(
        certificate_id=made.certificate_id,
        state=made.state,
        revision=made.revision,
        signals=list(made.signals),
        undo_until=made.undo_until,
    )


def _position(parts: tuple[str, ...]) -> tuple[float, str, str]:
    try:
        priority = float(parts[0])
    except ValueError:
        priority = math.nan
    if not math.isfinite(priority):
        raise CursorError("this cursor was changed; begin without one")
    return priority, parts[1], parts[2]
