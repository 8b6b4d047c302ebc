"""Whether the certificates of one batch speak of the same supplier: names, codes, legal representatives, addresses, with the
place of each value. All soft: a branch, a franchise or a renamed company may rightly differ, so a person decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from certloop.serve.db.access import seal_json, unseal_json
from certloop.serve.db.schema import batches, certificates, uploads
from certloop.serve.review.queue import open_review
from certloop.serve.review.triage import Reason, Why
from certloop.validators import Verdict, check_dossier

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.serve.context import Service

ACTOR = "serve:dossier"


@dataclass(frozen=True, slots=True)
class Paper:
    """One certificate of the dossier. ``fields`` as they stand now."""

    certificate_id: str
    doc_type: str
    fields: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Check:
    """One value against the reference. Both places are ``{certificate_id, field, label, value, box, page}``: personal data."""

    verdict: Verdict
    reference: Mapping[str, Any]
    compared: Mapping[str, Any]

    @property
    def agrees(self) -> bool:
        return self.verdict.passed

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.verdict.rule,
            "agrees": self.agrees,
            "message_zh": self.verdict.message_zh,
            "message_en": self.verdict.message_en,
            "reference": dict(self.reference),
            "compared": dict(self.compared),
        }


def check_papers(papers: Sequence[Paper]) -> tuple[Check, ...]:
    """Agreements and disagreements, the disagreements first. The reference is the dossier's first business licence."""
    verdicts = check_dossier([(paper.doc_type, {name: f["value"] for name, f in paper.fields.items()}) for paper in papers])
    found = [Check(v, _place(papers, v.fields[0]), _place(papers, v.fields[1])) for v in verdicts if len(v.fields) == 2]
    return tuple(sorted(found, key=lambda check: check.agrees))


def check_batch(service: Service, connection: Connection, tenant: str, batch_id: str, at: str) -> tuple[Check, ...]:
    """Check a finished batch in the caller's write transaction, keep the verdicts with it, and send certificates that disagree to
    review. Calling it again checks anew, with what was corrected meanwhile."""
    papers = papers_of(connection, tenant, batch_id)
    checks = check_papers(papers)
    name = f"serve_batches.checks/{batch_id}"
    sealed = seal_json(connection, tenant, name, [check.to_json() for check in checks])
    mine = (batches.c.tenant == tenant, batches.c.batch_id == batch_id)
    connection.execute(update(batches).where(*mine).values(checks=sealed))
    for certificate_id, reasons in _reasons(checks).items():
        open_review(connection, tenant, certificate_id, reasons, at, actor=ACTOR)
    return checks


def check_again(service: Service, connection: Connection, tenant: str, batch_id: str | None, at: str) -> None:
    """Bring the verdicts of a batch that was checked up to date: a value was corrected, or a paper is gone."""
    if batch_id is None:
        return
    query = select(batches.c.checks).where(batches.c.tenant == tenant, batches.c.batch_id == batch_id)
    if connection.execute(query).scalar() is not None:
        check_batch(service, connection, tenant, batch_id, at)


def checks_of(connection: Connection, tenant: str, batch_id: str) -> list[dict[str, Any]] | None:
    """The stored verdicts of a batch as JSON; None before it was checked."""
    query = select(batches.c.checks).where(batches.c.tenant == tenant, batches.c.batch_id == batch_id)
    text = connection.execute(query).scalar()
    checks: list[dict[str, Any]] | None = None
    if text is not None:
        checks = unseal_json(connection, tenant, f"serve_batches.checks/{batch_id}", text)
    return checks


def papers_of(connection: Connection, tenant: str, batch_id: str) -> list[Paper]:
    """Every certificate of a batch that stands, in the order of its files."""
    query = (
        select(certificates.c.certificate_id, certificates.c.doc_type, certificates.c.fields)
        .join(uploads, (uploads.c.tenant == tenant) & (uploads.c.document_id == certificates.c.document_id))
        .where(certificates.c.tenant == tenant, uploads.c.batch_id == batch_id, uploads.c.deleted_at.is_(None))
        .where(certificates.c.state != "rejected")
        .order_by(uploads.c.position, certificates.c.position)
    )
    return [
        Paper(
            row.certificate_id,
            row.doc_type,
            unseal_json(connection, tenant, f"serve_certificates.fields/{row.certificate_id}", row.fields),
        )
        for row in connection.execute(query)
    ]


def _place(papers: Sequence[Paper], path: str) -> dict[str, Any]:
    """``INDEX:DOC_TYPE.FIELD`` to the place of the value."""
    index, _, rest = path.partition(":")
    paper, name = papers[int(index)], rest.partition(".")[2]
    field = paper.fields[name]
    return {
        "certificate_id": paper.certificate_id,
        "doc_type": paper.doc_type,
        "field": name,
        "label": field["label"],
        "value": field["value"],
        "box": field["box"],
        "page": field["page"],
    }


def _reasons(checks: Sequence[Check]) -> dict[str, list[Reason]]:
    """By certificate. The reference is sent, too: it may be the one that was misread."""
    out: dict[str, list[Reason]] = {}
    for check in checks:
        if not check.agrees:
            for place in (check.reference, check.compared):
                reason = Reason(Why.DOSSIER_DISAGREES, str(place["field"]), str(place["label"]))
                known = out.setdefault(str(place["certificate_id"]), [])
                if reason not in known:
                    known.append(reason)
    return out
