"""The invariants of a trajectory (METHODS §1.1), all behind one :func:`validate`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from certloop.agentrl.trajectory.errors import (
    LogprobError,
    MaskError,
    NotFiniteError,
    SegmentError,
    StepError,
    TokenLengthError,
    TrajectoryError,
)
from certloop.agentrl.trajectory.schema import Consent, Outcome, Redaction, Role, Step, Trajectory

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_DEPTH = 64
_MAX_INT_BITS = 14_000
"""Python writes no longer integers as text (4,300 digits)."""
_MAX_TOKEN = 1 << 63
_TEXTS = ("purpose", "policy_version", "harness_version", "prompt_version")
_OPTIONAL_TEXTS = ("type_version", "memory_snapshot_id", "group_id", "outcome_reason", "final_json")


def validate(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory unchanged, or raise the TrajectoryError that names the first thing that is wrong."""
    _identity(trajectory)
    for index, step in enumerate(trajectory.steps):
        _step(step, index, len(trajectory.token_ids))
    _order(trajectory.steps)
    _tokens(trajectory)
    return trajectory


def is_json(value: Any, depth: int = 0) -> bool:
    """Whether a value is JSON as it stands: dicts with text keys, finite numbers that can be written, at most 64 levels."""
    if value is None or isinstance(value, (str, bool)):
        return True
    if isinstance(value, int):
        return value.bit_length() <= _MAX_INT_BITS
    if isinstance(value, float):
        return math.isfinite(value)
    if depth >= _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(item, depth + 1) for key, item in value.items())
    return isinstance(value, (list, tuple)) and all(is_json(item, depth + 1) for item in value)


def is_instant(text: Any) -> bool:
    """Whether a text is an ISO 8601 instant with a time zone."""
    try:
        return isinstance(text, str) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _identity(t: Trajectory) -> None:
    for name in ("traj_id", "tenant_id", "doc_type"):
        if not isinstance(getattr(t, name), str) or not getattr(t, name):
            raise TrajectoryError(f"a trajectory needs a {name}")
    if not is_instant(t.created_at):
        raise TrajectoryError("created_at must be an ISO 8601 instant with a time zone, such as 2026-01-31T08:00:00+00:00")
    for name, kind in (("outcome", Outcome), ("consent", Consent), ("redaction", Redaction)):
        if not isinstance(getattr(t, name), kind):
            raise TrajectoryError(f"{name} must be one of {[str(member) for member in kind]}, not a bool or other text")
    for name in (*_TEXTS, *_OPTIONAL_TEXTS):
        value = getattr(t, name)
        if not (isinstance(value, str) or (value is None and name in _OPTIONAL_TEXTS)):
            raise TrajectoryError(f"{name} must be text")
    if not all(isinstance(event, str) for event in t.overlay_event_ids):
        raise TrajectoryError("overlay_event_ids must be texts")
    if any(not isinstance(sha, str) or not _SHA256.fullmatch(sha) for sha in t.image_sha256):
        raise TrajectoryError("image_sha256 must hold lower-case SHA-256 hex digests")
    if t.sampling is not None:
        if not (math.isfinite(t.sampling.temperature) and math.isfinite(t.sampling.top_p)):
            raise NotFiniteError("temperature and top_p must be finite")
        if t.sampling.temperature < 0 or not 0 < t.sampling.top_p <= 1:
            raise TrajectoryError("temperature must be >= 0 and top_p in (0, 1]")


def _step(step: Step, index: int, n_tokens: int) -> None:
    if step.t != index:
        raise StepError(f"step {index} is numbered {step.t}; steps count from 0 without gaps")
    if (step.tok_start is None) != (step.tok_end is None):
        raise StepError(f"step {index} has only one of tok_start and tok_end")
    if step.tok_start is not None and step.tok_end is not None and not 0 <= step.tok_start <= step.tok_end <= n_tokens:
        raise StepError(f"step {index} covers tokens outside of the {n_tokens} there are")
    for name, low in (("alpha", 0.0), ("value", -1.0)):
        number = getattr(step, name)
        if number is not None and not math.isfinite(number):
            raise NotFiniteError(f"{name} of step {index} is not finite")
        if number is not None and not low <= number <= 1.0:
            raise StepError(f"{name} of step {index} lies outside of [{low:g}, 1]")
    if not (isinstance(step.observation, str) and isinstance(step.thought, str) and isinstance(step.reflection, str | None)):
        raise StepError(f"observation, thought and reflection of step {index} must be texts")
    if step.action is not None and (
        not isinstance(step.action.tool, str)
        or not step.action.tool
        or not isinstance(step.action.args, Mapping)
        or not is_json(dict(step.action.args))
    ):
        raise StepError(f"the action of step {index} needs a tool name and arguments that are a JSON object")
    if (result := step.tool_result) is None:
        return
    if step.action is None:
        raise StepError(f"step {index} has a tool result without an action")
    if not isinstance(result.ok, bool) or result.ok != (result.error_kind is None):
        raise StepError(f"the tool result of step {index} must be ok, or name its error_kind")
    if not isinstance(result.error_kind, str | None) or not isinstance(result.payload_ref, str | None):
        raise StepError(f"error_kind and payload_ref of step {index} must be texts")
    if not is_json(result.payload):
        raise StepError(f"the payload of step {index} is not JSON")
    if not math.isfinite(result.latency_ms) or result.latency_ms < 0:
        raise NotFiniteError(f"latency_ms of step {index} must be finite and >= 0")


def _order(steps: tuple[Step, ...]) -> None:
    end = 0
    for step in steps:
        if step.tok_start is None or step.tok_end is None:
            continue
        if step.tok_start < end:
            raise StepError(f"step {step.t} begins before the step in front of it has ended")
        end = step.tok_end


def _tokens(t: Trajectory) -> None:
    n = len(t.token_ids)
    if not n == len(t.logprobs) == len(t.loss_mask):
        raise TokenLengthError(f"{n} token ids, {len(t.logprobs)} log-probabilities and {len(t.loss_mask)} mask entries")
    if any(type(token) is not int or not 0 <= token < _MAX_TOKEN for token in t.token_ids):
        raise TrajectoryError("token ids must be integers >= 0 of at most 63 bits")
    end = 0
    for index, segment in enumerate(t.segments):
        if segment.start != end or segment.end <= segment.start or not isinstance(segment.role, Role):
            raise SegmentError(f"segment {index} must begin at token {end}, hold at least one token and have a known role")
        end = segment.end
    if end != n:
        raise SegmentError(f"the segments end at token {end}, the tokens at {n}")
    for segment in t.segments:
        wanted = 1 if segment.role is Role.ASSISTANT else 0
        if any(bit != wanted or isinstance(bit, bool) for bit in t.loss_mask[segment.start : segment.end]):
            raise MaskError(f"tokens {segment.start} to {segment.end} are {segment.role}: their mask must be {wanted}")
    for position, (logprob, bit) in enumerate(zip(t.logprobs, t.loss_mask, strict=True)):
        if logprob is None:
            if bit:
                raise LogprobError(f"trained token {position} has no log-probability")
        elif not math.isfinite(logprob) or logprob > 1e-6:
            raise LogprobError(f"the log-probability of token {position} must be finite and <= 0")
    _offsets(t)


def _offsets(t: Trajectory) -> None:
    if not t.token_offsets:
        return
    last = t.segments[-1].end - t.segments[-1].start if t.segments else 0
    if t.final_json is None or len(t.token_offsets) != last:
        raise TokenLengthError(f"{len(t.token_offsets)} token offsets for {last} tokens of the final segment, or no final_json")
    if any(not 0 <= start <= end <= len(t.final_json) for start, end in t.token_offsets):
        raise TrajectoryError("token offsets must lie inside final_json")
