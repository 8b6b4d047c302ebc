"""One call for whoever has just answered a document: blobs, document, consent and trajectory, durable when it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from certloop.agentrl.signals.schema import Signal
from certloop.agentrl.store.errors import DuplicateEventError
from certloop.agentrl.store.events import new_id, now
from certloop.agentrl.store.store import Store
from certloop.agentrl.store.tenant import TenantStore
from certloop.agentrl.trajectory import Consent, Outcome
from certloop.agentrl.trajectory.bridge import Provenance, Sampled, trajectory_from_steps


def record_result(
    store: Store,
    *,
    provenance: Provenance,
    doc_type: str,
    final: Mapping[str, Any] | str | None,
    steps: Iterable[Mapping[str, Any]],
    images: Sequence[bytes],
    actor: str,
    subjects: Iterable[str] = (),
    signals: Sequence[Signal] = (),
    outcome: Outcome | None = None,
    created_at: datetime | None = None,
    document_id: str | None = None,
    traj_id: str | None = None,
    sampled: Sampled | None = None,
) -> str:
    """Store what an engine did with one document and return the trajectory's id.

    ``provenance`` names the tenant, the consent, the purpose and the versions; ``steps``, ``final`` and ``sampled`` (a
    model's tokens) are as ``trajectory_from_steps`` takes them. ``images`` are the pages as they were read, ``subjects`` the
    names and numbers by which somebody may later ask for erasure, ``signals`` what validators say already (their ``traj_id``
    must be the ``traj_id`` given). ``document_id`` adds another episode to a document stored before. Several documents of one
    upload: one call each. With a ``traj_id`` of the caller's a repeated call is harmless: a trajectory that is there already
    stays as it is.

    Raises TrajectoryError or SignalError for what is not well formed, StoreError for the rest; then nothing but blobs is stored.
    """
    tenant = store.for_tenant(provenance.tenant_id)
    hashes = [tenant.put_blob(image) for image in images]
    trajectory = trajectory_from_steps(
        steps,
        provenance=provenance,
        traj_id=traj_id or new_id(),
        doc_type=doc_type,
        created_at=now() if created_at is None else created_at.isoformat(),
        final=final,
        image_sha256=hashes,
        outcome=outcome,
        sampled=sampled,
    )
    try:
        with tenant.batch(actor) as batch:
            batch.add_trajectory(trajectory, document_id, subjects)
            for signal in signals:
                batch.add_signal(signal)
    except DuplicateEventError:
        if traj_id is None or tenant.trajectory(traj_id).trajectory.image_sha256 != trajectory.image_sha256:
            raise
    return trajectory.traj_id


def add_signals(tenant: TenantStore, signals: Iterable[Signal], actor: str) -> tuple[str, ...]:
    """Store feedback, late feedback included; the same signal twice is one. Returns the ids in order."""
    with tenant.batch(actor) as batch:
        return tuple([batch.add_signal(signal) for signal in signals])


def set_consent(tenant: TenantStore, document_id: str, consent: Consent, purpose: str, actor: str) -> None:
    """What a document may be used for from now on. Snapshots made before keep their rows: make new ones."""
    with tenant.batch(actor) as batch:
        batch.set_consent(document_id, consent, purpose)
