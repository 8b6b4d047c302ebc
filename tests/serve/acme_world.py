"""Resources of the tenant acme, made through the API and the worker's own code, anew for whoever needs one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime

from audit_world import PNG, less_sure, licence
from callers import ACME, Callers, admin_of
from sqlalchemy import select

from certloop.agentrl.release import Release
from certloop.extract.result import FileStatus, Result
from certloop.serve.db.access import writing
from certloop.serve.db.schema import deliveries
from certloop.serve.errors import ReaderCrashedError
from certloop.serve.people import keys, users
from certloop.serve.people.roles import Role
from certloop.serve.webhooks import endpoints
from certloop.serve.webhooks.outbox import Event, enqueue
from certloop.serve.work.claims import claim
from certloop.serve.work.readers import PagesRead
from certloop.serve.work.record import give_up, record

Ids = Mapping[str, str]


class World:
    """``made`` are the ids of everything."""

    def __init__(self, callers: Callers) -> None:
        self.callers, self.service = callers, callers.service
        self._count = itertools.count()
        self.made: set[str] = set()

    def number(self) -> int:
        return next(self._count)

    def rule(self) -> Ids:
        """A rule that an auditor's correction taught."""
        label = "甲乙丙丁戊己庚辛壬癸"[self.number() % 10] + "乙丙丁戊己庚辛壬癸甲"[self.number() % 10] + "全称"
        body = {"field": "name", "label": label}
        item = self.service.loop.memory.add(
            ACME, "label", "business_licence", body, evidence=["doc.0"], actor="usr_1", replay=lambda _: None
        )
        return self._ids(rule_id=item.item_id)

    def trial(self) -> Ids:
        """A candidate of this tenant on trial."""
        registry = self.service.loop.registry
        if registry.pointer(ACME).candidate:
            registry.roll_back(actor="test", reason="the last one", scope=ACME)
        release_id = registry.register(Release(f"acme-{self.number()}-candidate", "ocr"), scope=ACME)
        registry.stage(release_id, 0.5, actor="test", reason="on trial", scope=ACME)
        return self._ids(release_id=release_id)

    def _ids(self, **ids: str) -> Ids:
        self.made |= set(ids.values())
        return ids

    def document(self) -> Ids:
        content = PNG + str(self.number()).encode()
        answer = self.callers.as_("operator").post("/v1/documents", files={"file": ("a.png", content, "image/png")})
        assert answer.status_code == 202, answer.text
        return self._ids(document_id=answer.json()["id"])

    def batch(self) -> Ids:
        content = PNG + str(self.number()).encode()
        answer = self.callers.as_("operator").post("/v1/batches", files={"files": ("a.png", content, "image/png")})
        assert answer.status_code == 202, answer.text
        batch_id = answer.json()["id"]
        listed = self.callers.as_("operator").get(f"/v1/batches/{batch_id}/documents").json()["items"]
        self._read(listed[0]["id"])
        return self._ids(batch_id=batch_id, document_id=listed[0]["id"])

    def certificate(self) -> Ids:
        """Read, and waiting for a person."""
        document_id = self.document()["document_id"]
        self._read(document_id)
        name = f"{document_id}.0"
        etag = self.callers.as_("auditor").get(f"/v1/reviews/{name}").headers["etag"]
        made = self._ids(document_id=document_id, certificate_id=name, trajectory_id=name)
        return {**made, "etag": etag}

    def _read(self, document_id: str) -> None:
        mine = claim(self.service, ACME, document_id)
        assert mine is not None
        result = Result("a.png", FileStatus.OK, (less_sure(licence(), "name", 0.2),))
        steering = self.service.loop.steering(ACME, document_id)
        assert record(self.service, mine, PagesRead(result, {0: PNG}, 0.5), steering)

    def dead(self) -> Ids:
        document_id = self.document()["document_id"]
        mine = claim(self.service, ACME, document_id)
        assert mine is not None
        assert give_up(self.service, mine, ReaderCrashedError("the process ended"))
        return self._ids(document_id=document_id)

    def decided(self) -> Ids:
        """Approved by the auditor."""
        made = self.certificate()
        path = f"/v1/reviews/{made['certificate_id']}/approve"
        assert self.callers.as_("auditor").post(path, json={}, headers={"If-Match": made["etag"]}).status_code == 200
        return made

    def key(self) -> Ids:
        return self._ids(key_id=keys.create(self.service, admin_of(ACME), "k", Role.OPERATOR)[0].key_id)

    def user(self) -> Ids:
        login = f"user-{self.number()}"
        return self._ids(user_id=users.create(self.service, admin_of(ACME), login, Role.OPERATOR).user_id)

    def webhook(self) -> Ids:
        made, _ = endpoints.create(self.service, admin_of(ACME), "https://erp.example.com/in", [Event.DOCUMENT_DONE])
        return self._ids(webhook_id=made.webhook_id)

    def delivery(self) -> Ids:
        webhook_id = self.webhook()["webhook_id"]
        with writing(self.service, ACME) as connection:
            sent = enqueue(connection, ACME, Event.DOCUMENT_DONE, {"document_id": "doc_1"}, datetime(2026, 3, 1, tzinfo=UTC))
            connection.exec_driver_sql("UPDATE serve_deliveries SET state = 'failed'")
        with writing(self.service, ACME) as connection:
            rows = connection.execute(select(deliveries.c.delivery_id).where(deliveries.c.webhook_id == webhook_id)).scalars()
            (mine,) = [row for row in rows if row in sent]
        return self._ids(webhook_id=webhook_id, delivery_id=mine)
