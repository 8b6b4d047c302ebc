"""The way a document leaves its tenant: consented, and with image and label replaced together."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace

from certloop.agentrl.store.errors import ConsentError, EventError
from certloop.agentrl.store.events import new_id, now
from certloop.agentrl.store.exporters.answers import approved_answer
from certloop.agentrl.store.redact import Pseudonymiser
from certloop.agentrl.store.tenant import TenantStore
from certloop.agentrl.trajectory import Consent, Redaction


def share_trajectory(
    source: TenantStore, traj_id: str, target: TenantStore, pseudonymiser: Pseudonymiser, *, seed: int, actor: str
) -> str:
    """Put a pseudonymised copy of a trajectory's document into another tenant and return the copy's id. The same document and
    ``seed`` give the same copy.

    The copy holds the new image and the new answer, no steps, tokens or signals: those quote the original; nor its time, which
    would find it again. What an auditor approved counts as the original's answer. The source's audit trail names the copy; the
    copy does not name its source. Raises ConsentError unless the document's consent is ``shared``,
    EventError for a trajectory without exactly one image and a JSON object as answer, or when nothing was changed.
    """
    stored = source.trajectory(traj_id)
    if not stored.state.covers(Consent.SHARED):
        raise ConsentError("this document is not consented for sharing")
    trajectory = stored.trajectory
    answer = json.loads(approved_answer(trajectory, stored.signals) or trajectory.final_json or "null")
    if len(trajectory.image_sha256) != 1 or not isinstance(answer, dict):
        raise EventError("only a trajectory with one image and a JSON object as answer can be rendered anew")
    original = source.get_blob(trajectory.image_sha256[0])
    image, fields = pseudonymiser.rerender(original, answer, trajectory.doc_type, _drawn(source, traj_id, seed))
    if image == original or dict(fields) == answer:
        raise EventError("the pseudonymiser left the document as it was; nothing was shared")
    copy = replace(
        trajectory,
        traj_id=new_id(),
        tenant_id=target.tenant,
        created_at=now(),
        consent=Consent.SHARED,
        image_sha256=(target.put_blob(image),),
        final_json=json.dumps(fields, ensure_ascii=False),
        steps=(), token_ids=(), logprobs=(), loss_mask=(), segments=(), token_offsets=(), overlay_event_ids=(),
        group_id=None, memory_snapshot_id=None, outcome_reason=None,
        redaction=Redaction.PSEUDONYMISED,
    )  # fmt: skip
    with target.batch(actor) as batch:
        batch.add_trajectory(copy)
    source.note(actor, "share", trajectory=traj_id, copy=copy.traj_id, to=target.tenant)
    return copy.traj_id


def _drawn(source: TenantStore, traj_id: str, seed: int) -> int:
    """A seed of its own for each document. It is keyed, so that nobody outside finds the source by drawing copies."""
    key = bytes.fromhex(source.subject_salt)
    return int.from_bytes(hmac.new(key, f"{seed}/{traj_id}".encode(), hashlib.sha256).digest()[:6])
