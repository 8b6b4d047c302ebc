"""Roles and what they may do. Nothing is allowed that is not granted here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    OPERATOR = "operator"
    """Hands certificates in and takes JSON out."""
    AUDITOR = "auditor"
    """Corrects and approves."""
    ENGINEER = "engineer"
    """Trains, evaluates, releases; sees jobs and what was learned."""
    ADMIN = "admin"
    """Everything within the tenant, its keys and users among them."""


class Permission(StrEnum):
    """What a route asks for; also the scopes of an API key."""

    DOCUMENTS_WRITE = "documents:write"
    DOCUMENTS_READ = "documents:read"
    DOCUMENTS_DELETE = "documents:delete"
    REVIEWS_READ = "reviews:read"
    REVIEWS_DECIDE = "reviews:decide"
    FEEDBACK_WRITE = "feedback:write"
    OUTCOMES_WRITE = "outcomes:write"
    WEBHOOKS_MANAGE = "webhooks:manage"
    JOBS_MANAGE = "jobs:manage"
    LEARNING_READ = "learning:read"
    RELEASES_MANAGE = "releases:manage"
    SYNTH_RUN = "synth:run"
    ADMIN = "admin"


GRANTS: Mapping[Role, frozenset[Permission]] = {
    Role.OPERATOR: frozenset(
        {
            Permission.DOCUMENTS_WRITE,
            Permission.DOCUMENTS_READ,
            Permission.DOCUMENTS_DELETE,
            Permission.FEEDBACK_WRITE,
            Permission.OUTCOMES_WRITE,
        }
    ),
    Role.AUDITOR: frozenset(
        {
            Permission.DOCUMENTS_READ,
            Permission.REVIEWS_READ,
            Permission.REVIEWS_DECIDE,
            Permission.FEEDBACK_WRITE,
            Permission.OUTCOMES_WRITE,
        }
    ),
    Role.ENGINEER: frozenset(
        {
            Permission.DOCUMENTS_READ,
            Permission.REVIEWS_READ,
            Permission.WEBHOOKS_MANAGE,
            Permission.JOBS_MANAGE,
            Permission.LEARNING_READ,
            Permission.RELEASES_MANAGE,
            Permission.SYNTH_RUN,
        }
    ),
    Role.ADMIN: frozenset(Permission),
}
