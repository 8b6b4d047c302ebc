"""What a tenant's settings say of review."""

from __future__ import annotations

from sqlalchemy import Connection

from certloop.serve.people.tenants import settings_in
from certloop.serve.review.triage import ReviewPolicy


def policy_of(connection: Connection, tenant: str) -> ReviewPolicy:
    """The policy in force, on the caller's connection. Sampling is seeded by the tenant's name: ids, not people, decide it."""
    wanted = settings_in(connection, tenant).review
    return ReviewPolicy(
        accepted_error=wanted.accepted_error,
        sample_share=wanted.sampling,
        double_share=wanted.double_check,
        all_fields=wanted.all_fields,
        lease_s=wanted.lease_s,
        seed=tenant,
    )
