"""What was read, as it stands now: auditors' edits included, with what the caller declared beside it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from certloop.agentrl.store import NotFoundError
from certloop.extract.stored import document_from_json, result_from_json
from certloop.serve.db.access import reading, unseal_json
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.errors import NotReadyError
from certloop.serve.people.roles import Permission
from certloop.serve.work.batches import document_ids
from certloop.serve.work.documents import row_of
from certloop.serve.work.record import EXPECTED, FIELDS, FILE_NAME, RESULT
from certloop.serve.work.states import OPEN
from certloop.serve.work.verdict import comparisons_for

if TYPE_CHECKING:
    from certloop.extract.result import Result
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

RETRY_S = 2.0


class ExportFormat(StrEnum):
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    XLSX = "xlsx"


MEDIA_TYPES: Mapping[ExportFormat, str] = {
    ExportFormat.JSON: "application/json",
    ExportFormat.JSONL: "application/jsonl",
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One upload's result. ``documents`` in ``body`` are those of ``extract.Result`` with the state of each certificate."""

    body: Mapping[str, Any]

    def to_result(self) -> Result:
        result = result_from_json(self.body)
        return replace(result, documents=tuple(document_from_json(row) for row in self.body["documents"]))


def result_of(service: Service, actor: Actor, document_id: str) -> Answer:
    """Raises NotFoundError, and NotReadyError while it waits or is read."""
    actor.require(Permission.DOCUMENTS_READ)
    with reading(service, actor.tenant) as connection:
        return _answer(service, connection, actor.tenant, row_of(connection, actor.tenant, document_id))


def results_of_batch(service: Service, actor: Actor, batch_id: str) -> Iterator[Answer]:
    """The results of a batch in its order, as far as they are there; files that ended without one say why.

    Raises NotFoundError before the first result.
    """
    ids = document_ids(service, actor, batch_id)
    return _each(service, actor, ids)


def _each(service: Service, actor: Actor, ids: list[str]) -> Iterator[Answer]:
    for document_id in ids:
        try:
            yield result_of(service, actor, document_id)
        except (NotReadyError, NotFoundError):  # still to come, or deleted meanwhile
            continue


def export(answers: Iterator[Answer] | list[Answer], kind: ExportFormat) -> bytes:
    """A whole file of results. In CSV and XLSX no cell can be run as a formula."""
    from certloop.extract.export import CsvWriter, JsonlWriter, XlsxWriter, json_text

    if kind is ExportFormat.JSON:
        return (json_text([dict(answer.body) for answer in answers]) + "\n").encode()
    if kind is ExportFormat.JSONL:
        return "".join(json_text(dict(answer.body)) + "\n" for answer in answers).encode()
    if kind is ExportFormat.XLSX:
        book = io.BytesIO()
        sheets = XlsxWriter(book)
        for answer in answers:
            sheets.write(answer.to_result())
        sheets.close()
        return book.getvalue()
    text = io.StringIO(newline="")
    rows: CsvWriter | JsonlWriter = CsvWriter(text)
    for answer in answers:
        rows.write(answer.to_result())
    return text.getvalue().encode("utf-8-sig", errors="backslashreplace")  # Excel takes it for UTF-8 only with a mark


def _answer(service: Service, connection: Connection, tenant: str, row: Any) -> Answer:
    if row.status in OPEN:
        raise NotReadyError(f"this document is {row.status}; ask for its state, or wait for document.done", RETRY_S)
    name = unseal_json(connection, tenant, f"{FILE_NAME}/{row.document_id}", row.file_name)
    if row.result is None:
        error = {"code": row.status, "message": f"the document is {row.status}"} if row.error is None else json.loads(row.error)
        shown = {"code": error["code"], "message": error["message"]}
        return Answer({"id": row.document_id, "file": name, "status": "failed", "error": shown, "documents": []})
    body = unseal_json(connection, tenant, f"{RESULT}/{row.document_id}", row.result)
    expected = None
    if row.expected is not None:
        expected = unseal_json(connection, tenant, f"{EXPECTED}/{row.document_id}", row.expected)
    mine = (certificates.c.tenant == tenant, certificates.c.document_id == row.document_id)
    found = connection.execute(select(certificates).where(*mine).order_by(certificates.c.position))
    for certificate in found:
        document = body["documents"][certificate.position]
        document |= certificate_json(connection, tenant, certificate)
        if expected is not None:
            comparisons = comparisons_for(service, document_from_json(document), expected)
            document["comparisons"] = [comparison.to_json() for comparison in comparisons]
    return Answer({"id": row.document_id} | body | {"file": name})


def certificate_json(connection: Connection, tenant: str, row: Any) -> dict[str, Any]:
    """What a certificate's row says over what was read: fields as they stand now, and where they stand."""
    return {
        "certificate_id": row.certificate_id,
        "trajectory_id": row.trajectory_id,
        "doc_type": row.doc_type,
        "state": row.state,
        "revision": row.revision,
        "reasons": json.loads(row.reasons),
        "fields": unseal_json(connection, tenant, f"{FIELDS}/{row.certificate_id}", row.fields),
    }


def certificate_of(service: Service, actor: Actor, certificate_id: str) -> Mapping[str, Any]:
    """One certificate, as in the result of its document. Raises NotFoundError."""
    actor.require(Permission.DOCUMENTS_READ)
    with reading(service, actor.tenant) as connection:
        row = connection.execute(
            select(certificates.c.document_id, certificates.c.position).where(
                certificates.c.tenant == actor.tenant, certificates.c.certificate_id == certificate_id
            )
        ).first()
        if row is None:
            raise NotFoundError("no certificate with this id in this tenant")
        answer = _answer(service, connection, actor.tenant, row_of(connection, actor.tenant, row.document_id))
    document: Mapping[str, Any] = answer.body["documents"][row.position]
    return document


def expected_of(connection: Connection, tenant: str, document_id: str) -> dict[str, str] | None:
    """What the caller declared, on the caller's connection."""
    query = select(uploads.c.expected).where(uploads.c.tenant == tenant, uploads.c.document_id == document_id)
    sealed = connection.execute(query).scalar()
    return None if sealed is None else unseal_json(connection, tenant, f"{EXPECTED}/{document_id}", sealed)
