"""Releases as people see and move them: the overview of a tenant, and taking one back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from certloop.agentrl.release import SHARED, LogRow, Pointer, Release
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

SHOWN = 100


def overview(service: Service, actor: Actor) -> Mapping[str, Any]:
    """Who answers this tenant's documents, the releases it may meet, and the latest moves."""
    actor.require(Permission.LEARNING_READ)
    registry, scopes = service.loop.registry, dict.fromkeys((SHARED, actor.tenant))
    moves = sorted((row for scope in scopes for row in registry.history(scope)), key=lambda row: row.at, reverse=True)
    return {
        "pointer": pointer_json(registry.pointer(actor.tenant)),
        "releases": [_release(release) for scope in scopes for release in registry.releases(scope)],
        "history": [_move(row) for row in moves[:SHOWN]],
    }


def roll_back(service: Service, actor: Actor, reason: str) -> Mapping[str, Any]:
    """Take the candidate, else the active release, back for this tenant alone; other tenants keep theirs.

    Raises ReleaseError when there is nothing to go back to.
    """
    actor.require(Permission.RELEASES_MANAGE)
    pointer = service.loop.registry.roll_back(actor=actor.actor_id, reason=reason, scope=actor.tenant)
    service.loop.router.forget()
    service.tenant(actor.tenant).note(actor.actor_id, "release rolled back", active=pointer.active)
    return pointer_json(pointer)


def pointer_json(pointer: Pointer) -> dict[str, Any]:
    return {
        "active": pointer.active,
        "previous": pointer.previous,
        "candidate": pointer.candidate,
        "share": pointer.share,
        "since": pointer.since,
    }


def _release(release: Release) -> dict[str, Any]:
    names = ("engine", "base_model", "parent", "notes", "data_manifest_sha256", "gate_report_sha256")
    return {"id": release.release_id, "artefacts": dict(release.artefacts)} | {name: getattr(release, name) for name in names}


def _move(row: LogRow) -> dict[str, Any]:
    return {
        "at": row.at,
        "by": row.actor,
        "move": str(row.move),
        "release": row.release_id,
        "reason": str(row.details.get("reason", "")),
    }
