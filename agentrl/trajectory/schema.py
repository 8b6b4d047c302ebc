"""What one episode leaves behind (METHODS §1.1): frozen records without behaviour.
``validation`` checks them, ``codec`` writes them.

Token ids and the sampling policy's log-probabilities are stored as sampled; text is never tokenised again. An engine without
tokens (rules alone) has steps only. Rewards and feedback are not here: they are a fold over signals (``agentrl.signals``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """Who wrote a segment. Only the assistant's tokens are trained; what a tool or the world answered is an observation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    OBSERVATION = "observation"


class Outcome(StrEnum):
    """How an episode ended. ``truncated``: out of steps or tokens; ``malformed``: no readable action or answer; ``refused``: the
    policy declined; ``failed``: policy or environment broke. Whether the answer is *right* is not an outcome but a signal."""

    CLEAN = "clean"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    REFUSED = "refused"
    FAILED = "failed"


class Consent(StrEnum):
    """What the document may be used for: nothing but serving, training for its own tenant, or sharing once pseudonymised."""

    NONE = "none"
    TENANT = "tenant"
    SHARED = "shared"


class Redaction(StrEnum):
    """What was done to the texts of this copy of the trajectory."""

    NONE = "none"
    REDACTED = "redacted"
    PSEUDONYMISED = "pseudonymised"


@dataclass(frozen=True, slots=True)
class Action:
    """One decision of a policy: a tool, a skill and a retrieval are called alike. ``args`` is a JSON object."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What an action gave: a small JSON ``payload``, or ``payload_ref`` (a blob's hash) for a large or personal one.

    ``error_kind`` is a stable word (see ``agentrl.env.ErrorKind`` for the environment's own) and None exactly when ``ok``.
    """

    ok: bool
    payload: Any = None
    payload_ref: str | None = None
    error_kind: str | None = None
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One round: what was seen, why, what was done, what came back. The step that answers has no action.

    ``tok_start`` and ``tok_end`` bound the step's tokens (its assistant turn and the observation after it), end exclusive.
    ``reflection``, ``alpha`` (in [0, 1]) and ``value`` (V, in [-1, 1]) are written later by credit assignment (METHODS §9).
    """

    t: int
    observation: str = ""
    thought: str = ""
    action: Action | None = None
    tool_result: ToolResult | None = None
    tok_start: int | None = None
    tok_end: int | None = None
    reflection: str | None = None
    alpha: float | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens ``[start, end)`` of one role. The segments of a trajectory tile its tokens."""

    role: Role
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the tokens were sampled; the stored log-probabilities are those of this distribution."""

    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode on one task.

    ``doc_type`` is the kind of task (a document type when documents are read), ``type_version`` the version of its definition,
    ``image_sha256`` the inputs by hash, ``final_json`` the answer as written. ``memory_snapshot_id`` and ``overlay_event_ids``
    say what memory the episode saw. ``created_at`` is ISO 8601 with a time zone. ``token_offsets`` gives, for each token of the
    last segment, the characters ``(start, end)`` of ``final_json`` it covers; ``(0, 0)`` for a token outside of it.
    """

    traj_id: str
    tenant_id: str
    doc_type: str
    created_at: str
    outcome: Outcome
    consent: Consent = Consent.NONE
    purpose: str = ""
    type_version: str | None = None
    image_sha256: tuple[str, ...] = ()
    policy_version: str = ""
    harness_version: str = ""
    prompt_version: str = ""
    memory_snapshot_id: str | None = None
    overlay_event_ids: tuple[str, ...] = ()
    group_id: str | None = None
    steps: tuple[Step, ...] = ()
    final_json: str | None = None
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    loss_mask: tuple[int, ...] = ()
    segments: tuple[Segment, ...] = ()
    token_offsets: tuple[tuple[int, int], ...] = ()
    sampling: Sampling | None = None
    redaction: Redaction = Redaction.NONE
    outcome_reason: str | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """The tools that were called, in order: what ``rewards.path_score`` compares with the golden paths."""
        return tuple(step.action.tool for step in self.steps if step.action is not None)
