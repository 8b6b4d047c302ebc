"""People, sessions, webhooks and numbers on Postgres, under row level security, with a role that it binds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from acme_world import World
from callers import ACME, OTHER, PASSWORD, Callers, Hands, admin_of
from postgres_place import Postgres
from sqlalchemy import text

from certloop.agentrl.store import verify
from certloop.serve.config import EdgeConfig, ServeConfig
from certloop.serve.context import Service
from certloop.serve.db.schema import TENANT_TABLES
from certloop.serve.jobs.dbos_jobs import migrate
from certloop.serve.jobs.start import start_accepting
from certloop.serve.ops.background import Background
from certloop.serve.people import keys, users
from certloop.serve.people.roles import Role
from certloop.serve.webhooks import deliveries, endpoints
from certloop.serve.webhooks.deliveries import claim, settle
from certloop.serve.webhooks.outbox import Event

pytestmark = pytest.mark.slow


@pytest.fixture
def callers(tmp_path: Path, postgres: Postgres) -> Iterator[Callers]:
    config = ServeConfig(postgres.url(), str(tmp_path / "blobs"), edge=EdgeConfig(metrics_open=True))
    with Service.open(config, clock=Hands()) as service:
        migrate(service)
        start_accepting(service)
        with Callers(service) as made:
            yield made


def test_everything_of_people_and_webhooks_works_under_row_level_security(callers: Callers) -> None:
    service, admin = callers.service, admin_of(ACME)
    user = callers.user("auditor-7", Role.AUDITOR)
    bound = callers.key(ACME, Role.OPERATOR, user=user.user_id)
    assert callers.with_key(bound).get("/v1/me").json()["role"] == "operator"
    body = {"tenant": ACME, "login": "auditor-7", "password": PASSWORD}
    client = callers.as_("anonymous")
    assert client.post("/v1/login", json=body).status_code == 200
    assert client.get("/v1/me").json()["actor"] == user.user_id
    assert client.post("/v1/login", json=body | {"tenant": OTHER}).status_code == 401
    users.change(service, admin, user.user_id, disabled=True)
    assert callers.with_key(bound).get("/v1/me").status_code == 401
    assert client.get("/v1/me").status_code == 401

    made, _ = endpoints.create(service, admin, "https://erp.example.com/in", [Event.DOCUMENT_DONE])
    World(callers).certificate()
    (due,) = claim(service, ACME, 10)
    assert claim(service, ACME, 10) == ()
    assert claim(service, OTHER, 10) == ()
    assert settle(service, due, 204) == "delivered"
    assert [row.state for row in deliveries.page(service, admin, made.webhook_id, state=None, before=None, limit=9)] == [
        "delivered"
    ]
    assert deliveries.page(service, admin, made.webhook_id, state="failed", before=None, limit=9) == ()

    assert 'certloop_documents{status="done"} 1.0' in callers.as_("anonymous").get("/metrics").text
    Background(service, lambda: callers.app.state.door.flush(service)).do_chores()
    used = {key.key_id: key.last_used_at for key in keys.every(service, admin)}
    assert used[callers.key_ids[callers.keys["operator"]]] is not None
    trail = callers.as_("admin").get("/v1/audit", params={"limit": 3}).json()
    assert len(trail["items"]) == 3
    assert verify(service.store).clean


def test_without_a_tenant_no_row_of_a_tenant_is_seen(callers: Callers) -> None:
    """Whatever a query forgets: the database itself keeps the tenants apart."""
    World(callers).certificate()
    callers.user("auditor-7", Role.AUDITOR)
    engine = callers.service.store.engine
    for tenant, expected in (("", False), (OTHER, False), (ACME, True)):
        seen = set()
        with engine.connect() as connection, connection.begin():
            connection.execute(text("SELECT set_config('certloop.tenant', :t, true)"), {"t": tenant})
            for table in TENANT_TABLES:
                if connection.execute(text(f"SELECT 1 FROM {table.name} WHERE tenant = '{ACME}' LIMIT 1")).first() is not None:
                    seen.add(table.name)
        assert ({"serve_users", "serve_uploads", "serve_certificates", "serve_reviews"} <= seen) is expected, tenant
        assert expected or not seen
