"""From an engine's own log of tool calls to a trajectory: the one door for engines that run their loop themselves.

The reader of documents is such an engine. Its caller does, with nothing but public parts::

    trajectory_from_steps(
        document.steps, provenance=Provenance("tenant-a"), traj_id=..., doc_type=document.doc_type, created_at=...,
        image_sha256=[...], final={id: field.value for id, field in document.fields.items() if field.value is not None},
    )
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from certloop.agentrl.trajectory.errors import StepError
from certloop.agentrl.trajectory.masks import Tokens
from certloop.agentrl.trajectory.schema import Action, Consent, Outcome, Sampling, Step, ToolResult, Trajectory
from certloop.agentrl.trajectory.validation import validate


@dataclass(frozen=True, slots=True)
class Provenance:
    """Whose episode it was, under which versions, and what it may be used for."""

    tenant_id: str
    consent: Consent = Consent.NONE
    purpose: str = ""
    policy_version: str = ""
    harness_version: str = ""
    prompt_version: str = ""
    type_version: str | None = None
    memory_snapshot_id: str | None = None
    overlay_event_ids: tuple[str, ...] = ()

    def to_fields(self) -> dict[str, Any]:
        """Return the fields as keyword arguments of :class:`Trajectory`."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a model engine leaves beside its steps: its turns' tokens, the characters of the answer that each of the last turn's
    tokens covers (empty: unknown), and how they were sampled."""

    tokens: Tokens
    token_offsets: tuple[tuple[int, int], ...] = ()
    sampling: Sampling = field(default_factory=Sampling)


def trajectory_from_steps(
    steps: Iterable[Mapping[str, Any]],
    *,
    provenance: Provenance,
    traj_id: str,
    doc_type: str,
    created_at: str,
    final: Mapping[str, Any] | str | None,
    image_sha256: Iterable[str] = (),
    outcome: Outcome | None = None,
    group_id: str | None = None,
    sampled: Sampled | None = None,
) -> Trajectory:
    """Return the valid trajectory of an episode that an engine ran itself, with its tokens where it has any.

    Each step is ``{"thought", "tool", "args", "ok", "result"}``, with ``observation``, ``error_kind``, ``payload_ref`` and
    ``latency_ms`` if known. ``final`` is the answer as written, or a mapping that is written as JSON here. The outcome is
    ``clean`` with an answer and ``failed`` without, unless it is given. Raises
    StepError for a step without a tool, TrajectoryError for anything else.
    """
    answer = json.dumps(final, ensure_ascii=False) if isinstance(final, Mapping) else final
    return validate(
        Trajectory(
            traj_id=traj_id,
            doc_type=doc_type,
            created_at=created_at,
            outcome=outcome or (Outcome.FAILED if answer is None else Outcome.CLEAN),
            steps=tuple(_step(t, step) for t, step in enumerate(steps)),
            final_json=answer,
            image_sha256=tuple(image_sha256),
            group_id=group_id,
            **_token_fields(sampled),
            **provenance.to_fields(),
        )
    )


def _token_fields(sampled: Sampled | None) -> dict[str, Any]:
    if sampled is None:
        return {}
    tokens = sampled.tokens
    return {
        "token_ids": tokens.token_ids,
        "logprobs": tokens.logprobs,
        "loss_mask": tokens.loss_mask,
        "segments": tokens.segments,
        "token_offsets": sampled.token_offsets,
        "sampling": sampled.sampling,
    }


def _step(t: int, step: Mapping[str, Any]) -> Step:
    if not isinstance(step.get("tool"), str):
        raise StepError(f"step {t} names no tool")
    ok = bool(step.get("ok", True))
    result = ToolResult(
        ok=ok,
        payload=step.get("result"),
        payload_ref=step.get("payload_ref"),
        error_kind=None if ok else str(step.get("error_kind") or "failed"),
        latency_ms=float(step.get("latency_ms", 0.0)),
    )
    action = Action(step["tool"], dict(step.get("args") or {}))
    return Step(t, str(step.get("observation", "")), str(step.get("thought", "")), action, result)
