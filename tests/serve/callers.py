"""Everybody who may call the service: keys of every role and kind, users, strangers, another tenant."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType

from starlette.testclient import TestClient

from certloop.serve.api.app import create_app
from certloop.serve.context import Service
from certloop.serve.people import keys, tenants, users
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission, Role
from certloop.serve.people.tenants import TenantSettings
from certloop.serve.people.users import User

ACME, OTHER = "acme", "other"
PASSWORD = "a long sentence is best"
FAST = TenantSettings(rate_per_s=100_000, burst=1_000_000)


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self, at: datetime = datetime(2026, 3, 1, 8, tzinfo=UTC)) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def move(self, **by: float) -> None:
        self.at += timedelta(**by)


def admin_of(tenant: str) -> Actor:
    return Actor.of(tenant, "cli:uid-0", Role.ADMIN)


class Callers(AbstractContextManager["Callers"]):
    """Two tenants, ``acme`` and ``other``; clients by word: ``callers.as_("operator")``."""

    def __init__(self, service: Service, settings: TenantSettings = FAST) -> None:
        self.service = service
        self.app = create_app(service)
        self._clients: dict[str, TestClient] = {}
        self._addresses = 0
        self.key_ids: dict[str, str] = {}
        for tenant in (ACME, OTHER):
            tenants.create(service, admin_of(tenant), tenant, settings=settings)
        self.keys = {role.value: self.key(ACME, role) for role in Role}
        self.keys["foreign"] = self.key(OTHER, Role.ADMIN)

    def key(self, tenant: str, role: Role, *scopes: Permission, days: float | None = None, user: str | None = None) -> str:
        ends = None if days is None else self.service.clock() + timedelta(days=days)
        key, secret = keys.create(self.service, admin_of(tenant), role.value, role, scopes=scopes, expires_at=ends, user_id=user)
        self.key_ids[secret] = key.key_id
        return secret

    def user(self, login: str, role: Role, tenant: str = ACME, password: str | None = PASSWORD) -> User:
        return users.create(self.service, admin_of(tenant), login, role, password)

    def as_(self, who: str) -> TestClient:
        """A client with the key that goes by this word; ``anonymous`` has none."""
        if who not in self._clients:
            self._clients[who] = self.with_key("" if who == "anonymous" else self.keys[who])
        return self._clients[who]

    def with_key(self, secret: str) -> TestClient:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._addresses += 1
        address = f"203.0.113.{self._addresses % 250}"  # each from its own, since strangers are counted by address
        return TestClient(self.app, base_url="http://certloop.test", client=(address, 40000), headers=headers)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for client in self._clients.values():
            client.close()
