"""A language model's word on whole trajectories of the store: one judge signal for each, said once (METHODS §1.5).

What leaves is a redacted transcript, without images, ids, tenant and times. The redactor is the caller's: nothing here knows what
his documents hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from certloop.agentrl.signals.emit import Origin, judge_signal
from certloop.agentrl.signals.errors import JudgeMalformed
from certloop.agentrl.signals.judge import JudgeConfig, LlmJudge
from certloop.agentrl.signals.schema import Scope, Signal, Source
from certloop.agentrl.store import reader
from certloop.agentrl.store.batch import Batch
from certloop.agentrl.store.engine import writing
from certloop.agentrl.store.errors import ErasedError, NotFoundError
from certloop.agentrl.store.events import now
from certloop.agentrl.store.reader import EVERYTHING, Filters, StoredTrajectory
from certloop.agentrl.store.redact import Redactor, redact_trajectory
from certloop.agentrl.store.tenant import TenantStore
from certloop.agentrl.trajectory import transcript

RedactorOf = Callable[[StoredTrajectory], Redactor]
"""What redacts this trajectory: it may know the values of its answer and those that auditors wrote."""


class Judgement(StrEnum):
    """What became of one trajectory. ``skipped``: this judge had its word already, or the trajectory was erased meanwhile;
    ``undecided``: no majority, or too few answers that could be read."""

    JUDGED = "judged"
    SKIPPED = "skipped"
    UNDECIDED = "undecided"


def judge_trajectories(
    tenant: TenantStore,
    config: JudgeConfig,
    redactor_of: RedactorOf,
    *,
    actor: str,
    filters: Filters = EVERYTHING,
    limit: int | None = None,
) -> Iterator[Judgement]:
    """Ask the judge about every trajectory on which it has not spoken, oldest first and at most ``limit``, and store its word.

    The judge is known by ``config.model``. Each word is durable before the next trajectory is asked about, so that a run that
    stopped is simply run again. A vote without majority is stored with confidence 0: fusion takes nothing from it and nobody asks
    again. When too few answers can be read nothing is stored, and a later run asks again. No transaction is open while the judge
    thinks. Raises JudgeUnavailable and JudgeTimeout for an endpoint that fails, StoreError.
    """
    waiting: list[str] = []
    for stored in tenant.trajectories(filters):
        if has_judged(config.model, stored.signals):
            yield Judgement.SKIPPED
            continue
        if limit is not None and len(waiting) >= limit:
            break
        waiting.append(stored.trajectory.traj_id)
    if waiting:
        tenant.note(actor, "judge", model=config.model, trajectories=len(waiting))
    for traj_id in waiting:
        yield _judge(tenant, config, redactor_of, traj_id, actor)


def has_judged(model: str, signals: Iterable[Signal]) -> bool:
    """Whether this judge has spoken about the whole trajectory; what was taken back since was said, too."""
    return any(s.source is Source.JUDGE and s.scope is Scope.TRAJECTORY and s.actor == model for s in signals)


def _judge(tenant: TenantStore, config: JudgeConfig, redactor_of: RedactorOf, traj_id: str, actor: str) -> Judgement:
    try:
        stored = tenant.trajectory(traj_id)
        redactor = redactor_of(stored)
        judge = LlmJudge(config, redact=redactor.text)  # once more: what stands side by side in the text may tell more
        found = judge.judge_work(transcript(redact_trajectory(stored.trajectory, redactor)))
        confidence = found.confidence if found.value else 0.0
        return _append(tenant, judge_signal(Origin(traj_id, config.model, now()), found.value, confidence), actor)
    except JudgeMalformed:
        return Judgement.UNDECIDED
    except (ErasedError, NotFoundError):
        return Judgement.SKIPPED


def _append(tenant: TenantStore, signal: Signal, actor: str) -> Judgement:
    """Store the word unless another run was faster; looking and writing are one transaction."""
    with writing(tenant.engine, tenant.tenant) as connection:
        if has_judged(signal.actor, reader.one(connection, tenant.tenant, signal.traj_id).signals):
            return Judgement.SKIPPED
        batch = Batch(tenant.tenant, tenant.subject_salt)
        batch.add_signal(signal)
        batch.write(connection, tenant.blobs, actor)
    return Judgement.JUDGED if signal.value else Judgement.UNDECIDED
