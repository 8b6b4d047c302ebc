"""Trajectories: the record of an episode, its invariants, its JSON."""

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
from certloop.agentrl.trajectory.validation import is_instant, is_json, validate

__all__ = [
    "SCHEMA", "Action", "Consent", "LogprobError", "MaskError", "NotFiniteError", "Outcome", "Redaction", "Role", "Sampling",
    "Segment", "SegmentError", "Step", "StepError", "TokenLengthError", "ToolResult", "Trajectory", "TrajectoryError",
    "VersionError", "dumps", "from_json", "is_instant", "is_json", "loads", "step_from_json", "step_to_json", "to_json",
    "validate",
]  # fmt: skip
