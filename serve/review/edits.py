"""Corrections: what a person says is printed. Each is validated and normalised at once, and never repaired."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certloop.extract.result import FieldResult, FieldStatus
from certloop.serve.db.access import writing
from certloop.serve.errors import RequestError
from certloop.serve.people.roles import Permission
from certloop.serve.review import certificate as certs
from certloop.serve.review import history
from certloop.serve.review.certificate import Certificate, FieldJson, Fields
from certloop.serve.review.claims import Review, hold
from certloop.serve.review.history import Action
from certloop.templates import DocumentType, FieldSpec
from certloop.validators import normalise, validate

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

MAX_VALUE_CHARS = 16384
MAX_COMMENT_CHARS = 2000
WITHOUT_VALUE = (FieldStatus.BLANK, FieldStatus.ABSENT, FieldStatus.UNREADABLE, FieldStatus.MISSING_PAGE)


@dataclass(frozen=True, slots=True)
class Edit:
    """What is printed: a value, or None with why there is none (``blank`` unless said otherwise)."""

    value: str | None
    status: FieldStatus | None = None


def edit(
    service: Service,
    actor: Actor,
    certificate_id: str,
    revision: int,
    edits: Mapping[str, Edit],
    *,
    doc_type: str | None = None,
    comment: str | None = None,
) -> int:
    """Correct fields of a certificate under review and return its new revision; the editor holds the review from now on.

    ``edits`` are by field id. ``doc_type`` says that it is another kind of certificate: fields of the same id stay. ``comment``
    is a sentence on what should have been done ("你应该先查二维码"); it becomes a hint when the review is decided.
    Raises NotFoundError, ClaimedError, ConflictError, PreconditionError (another revision), RequestError, UnknownTypeError.
    """
    actor.require(Permission.REVIEWS_DECIDE)
    with writing(service, actor.tenant) as connection:
        certificate = certs.load(connection, actor.tenant, certificate_id)
        review = hold(service, connection, actor, certificate_id)
        certs.check_revision(certificate, revision)
        now, second = service.now(), review.state != "open"
        if second and doc_type is not None:
            raise RequestError("the second look keeps the type of the certificate", [{"loc": ["doc_type"], "message": "refused"}])
        kind = service.registry.types.get(certificate.doc_type) if doc_type is None else service.registry.get(doc_type)
        fields = working_fields(connection, review, certificate, kind)
        document = certs.as_read(connection, certificate)
        read: Fields = document["fields"]
        changed: dict[str, FieldJson] = dict(fields)
        if kind is not None and kind.id != certificate.doc_type:
            changed = retyped(kind, {**read, **fields})
        if kind is not None and kind.id != document["doc_type"]:
            read = {}  # what somebody says of a form that was read as another one is never "as it was read"
        by = {"by": actor.actor_id, "at": now}
        note = _Notes(connection, actor, certificate_id, now, second)
        for name, wanted in edits.items():
            old, new = changed.get(name), corrected(_spec(kind, name), changed.get(name), wanted, read.get(name), by)
            if old is None or (old["value"], old["status"]) != (new["value"], new["status"]):
                note(Action.EDITED, name, old=old and old["value"], new=new["value"], status=new["status"])
            changed[name] = new
        if doc_type is not None and doc_type != certificate.doc_type:
            note(Action.EDITED, None, old_type=certificate.doc_type, new_type=doc_type)
        if comment is not None:
            note(Action.COMMENTED, None, comment=checked_comment(comment))
        return certs.save(connection, certificate, at=now, fields=None if second else changed, doc_type=doc_type)


def corrected(
    spec: FieldSpec, before: FieldJson | None, wanted: Edit, read: FieldJson | None, by: Mapping[str, str]
) -> dict[str, Any]:
    """The field after an edit, with its checks; back at what was read, it is as it was read."""
    status = _status(spec, wanted)
    if read is not None and (wanted.value, status.value) == (read["value"], read["status"]):
        return dict(read)
    result = _with_checks(spec, wanted.value, status, 1.0)
    place = {"box": before["box"], "page": before["page"]} if before is not None else {}
    return result.to_json() | place | {"edited": dict(by)}


def retyped(doc_type: DocumentType, fields: Fields) -> dict[str, FieldJson]:
    """The fields as those of another type: what has the same id stays and is checked by that type's rules, the rest is absent."""
    return {name: _rechecked(spec, fields.get(name)) for name, spec in doc_type.fields.items()}


def _rechecked(spec: FieldSpec, field: FieldJson | None) -> FieldJson:
    if field is None:
        return FieldResult(spec.label, None, status=FieldStatus.ABSENT).to_json()
    result = _with_checks(spec, field["value"], FieldStatus(field["status"]), field["confidence"]).to_json()
    kept = {name: field[name] for name in ("box", "page", "edited") if name in field}
    return result | kept


def unsaid(doc_type: DocumentType, fields: Fields) -> tuple[str, ...]:
    """Of a certificate that was taken for another type: the required fields that have no value and of which nobody said why; of a
    group of which one is enough the first."""

    def said(name: str) -> bool:
        field = fields.get(name)
        return field is not None and (field["value"] is not None or "edited" in field)

    groups = [(name,) for name in doc_type.required] + list(doc_type.one_of)
    return tuple(group[0] for group in groups if not any(map(said, group)))


def working_fields(connection: Connection, review: Review, certificate: Certificate, kind: DocumentType | None) -> Fields:
    """What the holder of a review works on. A second look begins with what was read and sees only its own corrections."""
    if review.state == "open":
        return certificate.fields
    document = certs.as_read(connection, certificate)
    read: Fields = document["fields"]
    same = kind is None or kind.id == document["doc_type"]
    fields = dict(read) if same or kind is None else retyped(kind, read)
    read = read if same else {}
    for entry in own_entries(history.entries(connection, certificate.tenant, certificate.certificate_id), review):
        if entry.action is Action.EDITED and entry.field is not None and kind is not None:
            wanted = Edit(entry.details["new"], FieldStatus(entry.details["status"]))
            by = {"by": entry.actor, "at": entry.at}
            fields[entry.field] = corrected(kind.fields[entry.field], fields.get(entry.field), wanted, read.get(entry.field), by)
    return fields


def own_entries(entries: Iterable[history.Entry], review: Review) -> list[history.Entry]:
    """Of a second look: what its holder did."""
    return [entry for entry in entries if entry.details.get("second") and entry.actor == review.claimed_by]


def checked_comment(comment: str) -> str:
    text = comment.strip()
    if not text or len(text) > MAX_COMMENT_CHARS or _unprintable(text):
        raise RequestError(
            f"a comment is 1 to {MAX_COMMENT_CHARS} printable characters", [{"loc": ["comment"], "message": "not a comment"}]
        )
    return text


def _with_checks(spec: FieldSpec, value: str | None, status: FieldStatus, confidence: float) -> FieldResult:
    verdicts = tuple(v for kind in spec.validator_kinds for v in validate(kind, value)) if value is not None else ()
    return FieldResult(
        spec.label,
        value,
        normalised=normalise(spec.validator_kinds[0], value) if value is not None else None,
        status=status,
        confidence=confidence,
        validations=verdicts,
        suggestion=next((v.suggestion for v in verdicts if v.suggestion), None),
    )


def _status(spec: FieldSpec, wanted: Edit) -> FieldStatus:
    value, place = wanted.value, [{"loc": ["fields", spec.id], "message": "value and status do not go together"}]
    if value is None:
        status = wanted.status or FieldStatus.BLANK
        if status not in WITHOUT_VALUE:
            raise RequestError(f"{spec.id}: without a value the status is one of {', '.join(WITHOUT_VALUE)}", place)
        return status
    if wanted.status not in (None, FieldStatus.READ):
        raise RequestError(f"{spec.id}: a field with a value has the status read", place)
    if not value.strip() or len(value) > MAX_VALUE_CHARS or _unprintable(value):
        place = [{"loc": ["fields", spec.id], "message": "not a printed value"}]
        raise RequestError(f"{spec.id}: a value is 1 to {MAX_VALUE_CHARS} printable characters; null where nothing stands", place)
    return FieldStatus.READ


def _unprintable(text: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in text)


def _spec(kind: DocumentType | None, name: str) -> FieldSpec:
    spec = kind.fields.get(name) if kind is not None else None
    if kind is None:
        raise RequestError(
            "the type of this certificate is unknown; say doc_type first", [{"loc": ["doc_type"], "message": "missing"}]
        )
    if spec is None:
        raise RequestError(
            f"{kind.id} has no such field; its fields are {', '.join(kind.fields)}",
            [{"loc": ["fields", name[:64]], "message": "unknown field"}],
        )
    return spec


class _Notes:
    """Writes history rows of one edit."""

    def __init__(self, connection: Connection, actor: Actor, certificate_id: str, at: str, second: bool) -> None:
        self._connection, self._actor, self._id, self._at = connection, actor, certificate_id, at
        self._more = {"second": True} if second else {}

    def __call__(self, action: Action, field: str | None, **details: Any) -> None:
        history.append(
            self._connection, self._actor.tenant, self._id, at=self._at, actor=self._actor.actor_id, action=action, field=field,
            details=details | self._more,
        )  # fmt: skip
