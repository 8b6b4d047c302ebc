"""Trajectories: the record of an episode, its invariants, its JSON."""

from certloop.agentrl.trajectory.bridge import Provenance, Sampled, trajectory_from_steps
from certloop.agentrl.trajectory.codec import SCHEMA, dumps, from_json, loads, step_from_json, step_to_json, to_json
from certloop.agentrl.trajectory.errors import (
    LogprobError,
    MaskError,
    NotFiniteError,
    SegmentError,
    StepError,
    TokenLengthError,
    TrajectoryError,
    VersionError,
)
from certloop.agentrl.trajectory.masks import Tokens, Turn, build_tokens, loss_mask, masked_mean
from certloop.agentrl.trajectory.render import render, transcript
from certloop.agentrl.trajectory.schema import (
    Action,
    Consent,
    Outcome,
    Redaction,
    Role,
    Sampling,
    Segment,
    Step,
    ToolResult,
    Trajectory,
)
from certloop.agentrl.trajectory.spans import field_span, field_token_span, token_span, value_spans
from certloop.agentrl.trajectory.validation import is_instant, is_json, validate

__all__ = [
    "SCHEMA", "Action", "Consent", "LogprobError", "MaskError", "NotFiniteError", "Outcome", "Provenance", "Redaction", "Role",
    "Sampled", "Sampling", "Segment", "SegmentError", "Step", "StepError", "TokenLengthError", "Tokens", "ToolResult",
    "Trajectory", "TrajectoryError", "Turn", "VersionError", "build_tokens", "dumps", "field_span", "field_token_span",
    "from_json", "is_instant", "is_json", "loads", "loss_mask", "masked_mean", "render", "step_from_json", "step_to_json",
    "to_json", "token_span", "trajectory_from_steps", "transcript", "validate", "value_spans",
]  # fmt: skip
