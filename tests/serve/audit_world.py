"""A service with people in it, over real HTTP, where certificates arrive as a test wants them read.

Files are handed in through the API; what a reader would have answered is given by the test and written by the worker's own code.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from sqlalchemy import Connection, select

from certloop.agentrl.signals import Signal
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, QrCode, Result
from certloop.serve.api.app import create_app
from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.db.access import reading
from certloop.serve.db.schema import history
from certloop.serve.people import keys, tenants
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Role
from certloop.serve.people.tenants import TenantSettings
from certloop.serve.work.claims import claim
from certloop.serve.work.readers import PagesRead
from certloop.serve.work.record import record
from certloop.templates import load_types
from certloop.validators import check_document, normalise, validate

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)
CODE, WRONG_CODE = "91110105MA01ABCD5F", "91110105MA01ABCD5G"
LICENCE: Mapping[str, str] = {
    "credit_code": CODE,
    "name": "样例甲商贸有限公司",
    "type": "有限责任公司",
    "person": "张样",
    "address": "北京市朝阳区样例路1号",
    "established_on": "2019年03月05日",
    "term": "2019年03月05日至长期",
}


class Clock:
    """Stands still unless told; every reading is one microsecond later, so that no two rows have one time."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        with self._lock:
            self.now += timedelta(microseconds=1)
            return self.now

    def pass_s(self, seconds: float) -> None:
        with self._lock:
            self.now += timedelta(seconds=seconds)


class NoJobs:
    """Accepts work that the test itself finishes."""

    def enqueue(self, connection: Connection, tenant: str, document_id: str, priority: int, delay_s: float = 0.0) -> None:
        pass

    def close(self) -> None:
        pass


def licence(sure: float = 0.9999, doc_type: str = "business_licence", qr: str | None = None, **values: str | None) -> Document:
    """A certificate as read: the given values over ``LICENCE`` (None: its label is printed and nothing stands there)."""
    kind = load_types().get(doc_type)
    printed: dict[str, str | None] = {**(LICENCE if doc_type == "business_licence" else {}), **values}
    fields: dict[str, FieldResult] = {}
    for row, spec in enumerate(kind.fields.values()):
        if spec.id not in printed:
            fields[spec.id] = FieldResult(spec.label, None)
            continue
        value, top = printed[spec.id], 40.0 * row
        box = ((10.0, top), (200.0, top), (200.0, top + 20), (10.0, top + 20))
        if value is None:
            fields[spec.id] = FieldResult(spec.label, None, status=FieldStatus.BLANK, box=box, page=0)
            continue
        verdicts = tuple(v for name in spec.validator_kinds for v in validate(name, value))
        fields[spec.id] = FieldResult(
            spec.label, value, normalise(spec.validator_kinds[0], value), FieldStatus.READ, sure, box, 0, verdicts
        )
    groups = [(name,) for name in kind.required] + list(kind.one_of)
    codes = () if qr is None else (QrCode(qr, ((0.0, 0.0),) * 4, qr == printed.get("credit_code")),)
    return Document(
        doc_type,
        0.99,
        fields,
        title=kind.title,
        type_version=kind.version,
        missing=tuple(group[0] for group in groups if all(fields[name].value is None for name in group)),
        qr=codes,
        validations=check_document(doc_type, {name: f.value for name, f in fields.items()}, [q.payload for q in codes]),
        steps=({"tool": "read_lines", "args": {}, "thought": "first look", "ok": True, "result": None},),
    )


def less_sure(document: Document, name: str, confidence: float) -> Document:
    return replace(document, fields={**document.fields, name: replace(document.fields[name], confidence=confidence)})


@dataclass
class World:
    """``as_(name)`` is an HTTP client with that person's key."""

    service: Service
    clock: Clock
    url: str
    people: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    _files: int = 0

    def person(self, name: str, role: Role, tenant: str = "acme") -> str:
        """A key of this role; returns its id, which is the actor in signals and history."""
        admin = Actor.of(tenant, "test", Role.ADMIN)
        key, secret = keys.create(self.service, admin, name, role)
        self.people[name], self.ids[name] = secret, key.key_id
        return key.key_id

    def as_(self, name: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.people[name]}"}, timeout=30)

    def actor(self, name: str, role: Role, tenant: str = "acme") -> Actor:
        return Actor.of(tenant, self.ids[name], role)

    def settings(self, tenant: str = "acme", **changes: Any) -> None:
        tenants.change_settings(self.service, Actor.of(tenant, "test", Role.ADMIN), tenant, changes)

    def hand_in(self, who: str = "operator", content: bytes | None = None, **form: str) -> str:
        """Upload a file (another one each time unless ``content`` is given); returns the document's id."""
        self._files += 1
        data = PNG + str(self._files).encode() if content is None else content
        with self.as_(who) as client:
            answer = client.post("/v1/documents", files={"file": ("scan.png", data, "image/png")}, data=form)
        assert answer.status_code == 202, answer.text
        document_id: str = answer.json()["id"]
        return document_id

    def read(self, document_id: str, *documents: Document, tenant: str = "acme") -> None:
        """The worker's end of a try: what was read is written."""
        mine = claim(self.service, tenant, document_id)
        assert mine is not None
        result = Result("scan.png", FileStatus.OK, documents)
        steering = self.service.loop.steering(tenant, document_id)
        assert record(self.service, mine, PagesRead(result, {0: PNG}, 0.5), steering)

    def certificate(self, document: Document | None = None, content: bytes | None = None, **form: str) -> str:
        """Hand in a file and have it read as ``document``; returns the certificate's id (also the trajectory's)."""
        document_id = self.hand_in(content=content, **form)
        self.read(document_id, licence() if document is None else document)
        return f"{document_id}.0"

    def signals(self, trajectory_id: str, tenant: str = "acme") -> tuple[Signal, ...]:
        return self.service.tenant(tenant).trajectory(trajectory_id).signals

    def actions(self, certificate_id: str) -> list[str]:
        with reading(self.service, "acme") as connection:
            mine = (history.c.tenant == "acme", history.c.certificate_id == certificate_id)
            return list(connection.execute(select(history.c.action).where(*mine).order_by(history.c.seq)).scalars())


@contextmanager
def open_world(folder: Path, url: str = "", blob_url: str = "", **config: Any) -> Iterator[World]:
    """A service with tenants acme and other, over HTTP on a free port. Nothing is sampled unless a test says so."""
    clock = Clock()
    service = Service.open(ServeConfig(url or f"sqlite:///{folder / 'serve.db'}", blob_url, **config), clock)
    service.attach_jobs(NoJobs())
    quiet = TenantSettings.model_validate(
        {"review": {"sampling": 0.0, "double_check": 0.0}, "rate_per_s": 10_000, "burst": 10_000}
    )
    for tenant in ("acme", "other"):
        tenants.create(service, Actor.of(tenant, "test", Role.ADMIN), tenant, settings=quiet)
    server = uvicorn.Server(uvicorn.Config(create_app(service), port=0, log_level="error", lifespan="off", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    world = World(service, clock, f"http://127.0.0.1:{port}")
    for name, role in (("operator", Role.OPERATOR), ("ann", Role.AUDITOR), ("bob", Role.AUDITOR), ("eve", Role.ENGINEER)):
        world.person(name, role)
    world.person("stranger", Role.AUDITOR, "other")
    try:
        yield world
    finally:
        server.should_exit = True
        thread.join(10)
        service.close()


def decode(answer: httpx.Response) -> Any:
    return json.loads(answer.text)
