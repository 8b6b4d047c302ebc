"""A tenant's calibrations: fitted from its reviewed fields, kept by version, one of them in force.

A tenant without one in force has ``default.json``, fitted on synthetic pages (``benchmarks/confidence.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select, update

from certloop.agentrl.rewards import fold
from certloop.agentrl.store import NotFoundError
from certloop.agentrl.store.events import new_id
from certloop.agentrl.store.log import add_audit
from certloop.serve.confidence.calibration import Calibration, from_json
from certloop.serve.confidence.fit import Sample, fit
from certloop.serve.db.access import reading, unseal_json, writing
from certloop.serve.db.schema import calibrations, certificates, reviews, uploads
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor
    from certloop.templates import Registry

MAX_CERTIFICATES = 5000
"""The latest reviewed ones that a fit looks at."""


@dataclass(frozen=True, slots=True)
class Version:
    """A stored calibration; ``version`` is builtin for the one that everybody starts with."""

    version: str
    active: bool
    created_at: str | None
    n: int
    calibration: Calibration


@lru_cache(maxsize=1)
def builtin() -> Calibration:
    """The calibration of the embedded engine on synthetic pages."""
    return from_json(json.loads(resources.files("certloop.serve.confidence").joinpath("default.json").read_text("utf-8")))


def active(connection: Connection, tenant: str) -> Calibration:
    """The calibration in force for a tenant, on the caller's connection."""
    query = select(calibrations.c.curves).where(calibrations.c.tenant == tenant, calibrations.c.active.is_(True))
    text = connection.execute(query).scalar()
    return builtin() if text is None else _parsed(text)


def fit_reviewed(service: Service, actor: Actor, *, activate: bool = False) -> Version:
    """Fit a new version on what auditors approved; it comes into force with ``activate``. Raises CalibrationError when too little
    was reviewed."""
    actor.require(Permission.RELEASES_MANAGE)
    with reading(service, actor.tenant) as connection:
        samples = list(reviewed_samples(connection, actor.tenant, service.registry))
    version, at = f"cal_{new_id()}", service.now()
    made = fit(samples, version=version, source="reviewed fields", parent=builtin(), seed=actor.tenant)
    row = {"tenant": actor.tenant, "version": version, "n": made.n, "created_at": at, "active": False}
    with writing(service, actor.tenant) as connection:
        text = json.dumps(made.to_json(), separators=(",", ":"))
        connection.execute(insert(calibrations), [row | {"curves": text}])
        add_audit(connection, actor.tenant, actor.actor_id, "calibration.fit", {"version": version, "n": made.n})
        if activate:
            _put_in_force(connection, actor, version)
    return Version(version, activate, at, made.n, made)


def put_in_force(service: Service, actor: Actor, version: str) -> Version:
    """Make a version the one in force; ``builtin`` takes every version of the tenant's own out of force. Raises NotFoundError."""
    actor.require(Permission.RELEASES_MANAGE)
    with writing(service, actor.tenant) as connection:
        _put_in_force(connection, actor, version)
    seen = versions(service, actor.with_right(Permission.LEARNING_READ))
    return next(known for known in seen if known.version == version)


def versions(service: Service, actor: Actor) -> tuple[Version, ...]:
    """Every version, the newest first, the builtin one last."""
    actor.require(Permission.LEARNING_READ)
    query = select(calibrations).where(calibrations.c.tenant == actor.tenant).order_by(calibrations.c.created_at.desc())
    with reading(service, actor.tenant) as connection:
        rows = connection.execute(query).all()
    own = [Version(row.version, row.active, row.created_at, row.n, _parsed(row.curves)) for row in rows]
    start = replace(builtin(), version="builtin")
    return (*own, Version("builtin", not any(version.active for version in own), None, start.n, start))


def reviewed_samples(
    connection: Connection, tenant: str, registry: Registry, limit: int = MAX_CERTIFICATES, *, sampled: bool = False
) -> Iterator[Sample]:
    """Every value that was read on a certificate that an auditor approved, and whether he left it as it was; newest first.

    ``sampled``: only of certificates that would have passed and were drawn at random, which is what passes unseen. Others come
    to review because something is unsure, so their fields are harder than those that pass: what a threshold promises for them
    holds all the more for the rest.
    """
    query = (
        select(certificates.c.certificate_id, certificates.c.position, certificates.c.doc_type, certificates.c.fields)
        .add_columns(uploads.c.document_id, uploads.c.result)
        .join(reviews, (reviews.c.tenant == tenant) & (reviews.c.certificate_id == certificates.c.certificate_id))
        .join(uploads, (uploads.c.tenant == tenant) & (uploads.c.document_id == certificates.c.document_id))
        .where(certificates.c.tenant == tenant, reviews.c.state == "approved", uploads.c.result.is_not(None))
        .order_by(reviews.c.decided_at.desc())
        .limit(limit)
    )
    if sampled:
        query = query.where(certificates.c.reasons.contains('"reason": "sampled"', autoescape=True))
    for row in connection.execute(query):
        result = unseal_json(connection, tenant, f"serve_uploads.result/{row.document_id}", row.result)
        final = unseal_json(connection, tenant, f"serve_certificates.fields/{row.certificate_id}", row.fields)
        read = result["documents"][row.position]
        doc_type = registry.types.get(row.doc_type)
        if doc_type is None or read["doc_type"] != row.doc_type:
            continue
        for name, field in read["fields"].items():
            spec = doc_type.fields.get(name)
            if spec is not None and field["value"] is not None:
                right = fold(field["value"]) == fold((final.get(name) or {}).get("value") or "")
                yield Sample(spec.kind.value, float(field["confidence"]), right, row.certificate_id)


def _put_in_force(connection: Connection, actor: Actor, version: str) -> None:
    mine = calibrations.c.tenant == actor.tenant
    connection.execute(update(calibrations).where(mine, calibrations.c.active.is_(True)).values(active=False))
    if version != "builtin":
        done = connection.execute(update(calibrations).where(mine, calibrations.c.version == version).values(active=True))
        if not done.rowcount:
            raise NotFoundError("no calibration of this version in this tenant")
    add_audit(connection, actor.tenant, actor.actor_id, "calibration.active", {"version": version})


@lru_cache(maxsize=64)
def _parsed(text: str) -> Calibration:
    return from_json(json.loads(text))


def to_json(version: Version) -> dict[str, Any]:
    """What people are shown: no curves, only what they do."""
    return {
        "version": version.version,
        "active": version.active,
        "created_at": version.created_at,
        "fields": version.n,
        "source": version.calibration.source,
        "report": dict(version.calibration.report),
    }
