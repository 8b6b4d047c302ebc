"""Who acts: the one thing that every function of the service is given beside its arguments."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

from certloop.serve.errors import ForbiddenError
from certloop.serve.people.roles import GRANTS, Permission, Role

DEMO_TENANT = "demo"


@dataclass(frozen=True, slots=True)
class Actor:
    """``actor_id`` is the id of a key or a user and what stands in audit rows; ``scopes`` is all that this actor may do."""

    tenant: str
    actor_id: str
    role: Role
    scopes: frozenset[Permission]

    @classmethod
    def of(cls, tenant: str, actor_id: str, role: Role, scopes: Collection[Permission] = ()) -> Self:
        """An actor with its role's rights, or those of them that ``scopes`` names. Scopes never add a right."""
        granted = GRANTS[role]
        return cls(tenant, actor_id, role, granted & frozenset(scopes) if scopes else granted)

    @classmethod
    def demo(cls) -> Self:
        """The anonymous visitor of demo mode: operator, auditor and engineer of the tenant ``demo``, never its admin."""
        scopes = GRANTS[Role.OPERATOR] | GRANTS[Role.AUDITOR] | GRANTS[Role.ENGINEER]
        return cls(DEMO_TENANT, "demo", Role.ENGINEER, scopes)

    def with_right(self, permission: Permission) -> Self:
        """The same caller where one right implies another for a moment: who may change a thing sees the answer about it."""
        return replace(self, scopes=self.scopes | {permission})

    def may(self, permission: Permission) -> bool:
        return permission in self.scopes

    def require(self, permission: Permission) -> None:
        """Raises ForbiddenError, which names the missing permission."""
        if permission not in self.scopes:
            raise ForbiddenError(f"this needs the permission {permission}")
