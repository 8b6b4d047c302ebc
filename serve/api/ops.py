"""Operations: is it alive, is it ready, what are its numbers, and taking up new settings without a restart."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select, text

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.release import RegistryDamagedError
from certloop.agentrl.store import LocalBlobs
from certloop.serve.api.problems import answer
from certloop.serve.api.security import Allowed, BearerHeader, SessionCookie, allowed, public
from certloop.serve.api.shapes import Open
from certloop.serve.confidence.versions import builtin
from certloop.serve.context import Service
from certloop.serve.db.access import reading
from certloop.serve.db.schema import executors
from certloop.serve.errors import CalibrationError
from certloop.serve.jobs.leases import database_now
from certloop.serve.ops import metrics
from certloop.serve.ops.reload import reload as reload_service
from certloop.serve.people.actor import Actor
from certloop.serve.people.place import written
from certloop.serve.people.roles import Permission

router = APIRouter(tags=["operations"])
PROBE_TENANT = "default"
CHECKS = ("database", "blobs", "executor", "releases", "confidence")
RELEASES_AGAIN = timedelta(seconds=15)
_log = logging.getLogger("certloop.serve.ops")
_SAMPLE = """\
# HELP certloop_documents Documents by status.
# TYPE certloop_documents gauge
certloop_documents{status="done"} 412.0
"""


class Alive(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"status": "ok"}})
    status: str


class Reloaded(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"document_types": 11}})
    document_types: int = Field(description="how many there are now")


class Ready(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"status": "ready", "checks": dict.fromkeys(CHECKS, "ok")}})
    status: str
    checks: dict[str, str]


@router.get("/healthz", summary="Is it alive", dependencies=[Depends(public)])
def healthz() -> Alive:
    """Answers as long as the process does; it asks nothing else."""
    return Alive(status="ok")


@router.get("/readyz", summary="Is it ready", dependencies=[Depends(public)], response_model=Ready)
def readyz(request: Request, service: Open) -> Any:
    """Whether the database and the place of the images answer, somebody holds a lease to read documents, and what they are read
    with is as it was written: the releases that serve, and the calibration that everybody begins with; else 503."""
    checks = {
        "database": _database(service),
        "blobs": _blobs(service),
        "executor": _executor(service),
        "releases": _releases(service),
        "confidence": _confidence(),
    }
    wrong = [{"loc": [name], "message": words} for name, words in checks.items() if words != "ok"]
    if wrong:
        return answer(503, "service_closed", "not ready", request, headers={"Retry-After": "5"}, errors=wrong)
    return Ready(status="ready", checks=checks)


class MetricsReader(Allowed):
    """As ``allowed``, but everybody may read where the operator opened the metrics (``CERTLOOP_METRICS_OPEN``)."""

    def __call__(self, request: Request, _key: BearerHeader = None, _session: SessionCookie = None) -> Actor | None:
        if request.app.state.service.config.edge.metrics_open:
            return None
        return super().__call__(request, _key, _session)


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"description": "Prometheus text format", "content": {"text/plain": {"example": _SAMPLE}}}},
)
def get_metrics(
    service: Open, actor: Annotated[Actor | None, Depends(MetricsReader(Permission.JOBS_MANAGE))]
) -> PlainTextResponse:
    """With a key: the documents, reviews and deliveries of its tenant. Where the operator opened the metrics: those of all
    tenants together, and what this process counted. No label names a tenant, a person or anything of a document."""
    everybody = service.store.tenants()
    alone = actor is not None and everybody == (actor.tenant,)
    body = metrics.state(service, everybody if actor is None else (actor.tenant,))
    if actor is None or alone:
        body += service.metrics.flows()
    return PlainTextResponse(body, media_type=metrics.CONTENT_TYPE)


@router.post("/v1/reload", status_code=202, summary="Take up new document types and models")
def reload(service: Open, actor: Annotated[Actor, Depends(allowed(Permission.RELEASES_MANAGE))]) -> Reloaded:
    """Documents that are being read end as they began; the next ones are read with the document types and models as they are now.
    For this process; the signal SIGHUP does the same for one that has no port."""
    return Reloaded(document_types=reload_service(service, actor))


def _database(service: Service) -> str:
    try:
        with reading(service, None) as connection:
            connection.execute(text("SELECT 1"))
    except CertloopError as error:
        return error.code
    return "ok"


def _blobs(service: Service) -> str:
    try:
        blobs = service.store.blobs
        blobs.exists(PROBE_TENANT, "0" * 64)
        if isinstance(blobs, LocalBlobs) and not (Path(blobs.url).is_dir() and os.access(blobs.url, os.W_OK)):
            return "not writable"
    except (CertloopError, OSError):
        return "unreachable"
    return "ok"


def _executor(service: Service) -> str:
    """Somebody's lease, on this host or another: an API process without readers is ready when workers are."""
    try:
        with reading(service, None) as connection:
            held = executors.c.lease_until > written(database_now(connection))
            return "ok" if connection.execute(select(executors.c.executor_id).where(held).limit(1)).first() else "no worker"
    except CertloopError as error:
        return error.code


def _releases(service: Service) -> str:
    """``registry_damaged`` where a log, a pointer, a record or a file of a release that serves was changed or lost. A pointer
    that was moved by hand is passed over, so documents are still read; somebody has to look all the same. Files are hashed, so
    an answer is given again for a while."""
    known = service.releases_checked
    if known is not None and service.clock() - known[0] < RELEASES_AGAIN:
        return known[1]
    try:
        found = service.loop.registry.verify_serving()
        for line in found:
            _log.error("releases: %s", line)
        words = RegistryDamagedError.code if found else "ok"
    except CertloopError as error:
        words = error.code
    service.releases_checked = (service.clock(), words)
    return words


def _confidence() -> str:
    try:
        builtin()
    except (CertloopError, OSError, ValueError, KeyError, TypeError):
        return CalibrationError.code
    return "ok"
