"""Trajectories as JSON, one schema version at a time. Reading validates; writing never alters a text or a number."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from certloop.agentrl.trajectory.errors import TrajectoryError, VersionError
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
from certloop.agentrl.trajectory.validation import validate

SCHEMA = "certloop.trajectory/1"
_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(trajectory: Trajectory) -> str:
    """Return one line of JSON. Raises TrajectoryError for a trajectory that is not valid."""
    data = to_json(validate(trajectory))
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A model may write half a surrogate pair: such text has no UTF-8 form, only its JSON escape.
    return text if _SURROGATE.search(text) is None else json.dumps(data, allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes) -> Trajectory:
    """Read what :func:`dumps` wrote. Raises TrajectoryError (or one of its children) for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise TrajectoryError("a trajectory must be one JSON object") from None
    return from_json(data)


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """Return the trajectory as JSON types, with ``schema`` naming the version."""
    out: dict[str, Any] = {"schema": SCHEMA}
    for spec in fields(Trajectory):
        value = getattr(trajectory, spec.name)
        out[spec.name] = _TO[spec.name](value) if spec.name in _TO else value
    return out


def from_json(data: Mapping[str, Any]) -> Trajectory:
    """Read and validate. Raises VersionError for another schema, TrajectoryError for unknown or missing keys and wrong types."""
    if not isinstance(data, Mapping):
        raise TrajectoryError("a trajectory must be one JSON object")
    if data.get("schema") != SCHEMA:
        raise VersionError(f"unknown trajectory schema; this release reads {SCHEMA}")
    values = {key: value for key, value in data.items() if key != "schema"}
    if unknown := set(values) - {spec.name for spec in fields(Trajectory)}:
        raise TrajectoryError(f"{len(unknown)} unknown keys in a trajectory of schema {SCHEMA}")
    try:
        return validate(Trajectory(**{key: _FROM[key](value) if key in _FROM else value for key, value in values.items()}))
    except TrajectoryError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise TrajectoryError(f"a key of the trajectory is missing or has the wrong type ({type(error).__name__})") from None


def step_to_json(step: Step) -> dict[str, Any]:
    """Return one step as JSON types; what was never set is left out."""
    out: dict[str, Any] = {"t": step.t, "observation": step.observation, "thought": step.thought}
    if step.action is not None:
        out["action"] = {"tool": step.action.tool, "args": dict(step.action.args)}
    if step.tool_result is not None:
        out["tool_result"] = {spec.name: getattr(step.tool_result, spec.name) for spec in fields(ToolResult)}
    for name in ("tok_start", "tok_end", "reflection", "alpha", "value"):
        if getattr(step, name) is not None:
            out[name] = getattr(step, name)
    return out


def step_from_json(data: Mapping[str, Any]) -> Step:
    """Read one step. Raises TypeError or KeyError for other keys; :func:`from_json` makes that a TrajectoryError."""
    parts = dict(data)
    if "action" in parts:
        parts["action"] = Action(**parts["action"])
    if "tool_result" in parts:
        parts["tool_result"] = ToolResult(**parts["tool_result"])
    return Step(**parts)


_TO: dict[str, Callable[[Any], Any]] = {
    "outcome": str,
    "consent": str,
    "redaction": str,
    "image_sha256": list,
    "overlay_event_ids": list,
    "steps": lambda steps: [step_to_json(step) for step in steps],
    "token_ids": list,
    "logprobs": list,
    "loss_mask": list,
    "segments": lambda segments: [[str(s.role), s.start, s.end] for s in segments],
    "token_offsets": lambda offsets: [list(pair) for pair in offsets],
    "sampling": lambda s: None if s is None else {"temperature": s.temperature, "top_p": s.top_p},
}
_FROM: dict[str, Callable[[Any], Any]] = {
    "outcome": Outcome,
    "consent": Consent,
    "redaction": Redaction,
    "image_sha256": tuple,
    "overlay_event_ids": tuple,
    "steps": lambda steps: tuple(step_from_json(step) for step in steps),
    "token_ids": tuple,
    "logprobs": tuple,
    "loss_mask": tuple,
    "segments": lambda segments: tuple(Segment(Role(role), start, end) for role, start, end in segments),
    "token_offsets": lambda offsets: tuple((start, end) for start, end in offsets),
    "sampling": lambda s: None if s is None else Sampling(**s),
}
