"""A trajectory as text that a person reads: `certloop trajectories show`. It shows what is stored;
redacting is the store's work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from certloop.agentrl.trajectory.schema import Role, Step, Trajectory

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def render(trajectory: Trajectory, *, width: int = 120) -> str:
    """Return the trajectory as lines of at most ``width`` characters; longer texts end in "..."."""
    lines = [*_head(trajectory), *(line for step in trajectory.steps for line in _step(step)), *_answer(trajectory)]
    return "\n".join(_fit(line, width) for line in lines) + "\n"


def transcript(trajectory: Trajectory, *, width: int = 600, limit: int = 20_000) -> str:
    """Return what a judge reads of a trajectory: kind of task, outcome, steps and answer; no id, tenant, time, version or image.

    Of what is longer than ``limit`` characters the middle is left out, and that is said.
    """
    reason = f" ({trajectory.outcome_reason})" if trajectory.outcome_reason else ""
    steps = (line for step in trajectory.steps for line in _step(step))
    lines = [f"task {trajectory.doc_type}", f"ended {trajectory.outcome}{reason}", *steps, *_answer(trajectory)]
    text = "\n".join(_fit(line, width) for line in lines)
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n({len(text) - 2 * half} characters left out here)\n{text[len(text) - half :]}"


def _head(t: Trajectory) -> Iterator[str]:
    reason = f" ({t.outcome_reason})" if t.outcome_reason else ""
    yield f"trajectory {t.traj_id}  {t.doc_type}  {t.outcome}{reason}"
    yield f"  tenant {t.tenant_id}, consent {t.consent}, created {t.created_at}"
    versions = {
        "policy": t.policy_version, "harness": t.harness_version, "prompt": t.prompt_version, "memory": t.memory_snapshot_id,
        "group": t.group_id,
    }  # fmt: skip
    known = ", ".join(f"{name} {value}" for name, value in versions.items() if value)
    if known:
        yield f"  {known}"
    if t.token_ids:
        by_role = {role: sum(s.end - s.start for s in t.segments if s.role is role) for role in Role}
        counts = ", ".join(f"{role} {n}" for role, n in by_role.items() if n)
        yield f"  {len(t.token_ids)} tokens ({counts}), {sum(t.loss_mask)} trained"


def _step(step: Step) -> Iterator[str]:
    yield f"step {step.t}"
    if step.observation:
        yield f"  observe  {step.observation}"
    if step.thought:
        yield f"  think    {step.thought}"
    if step.action is not None:
        yield f"  act      {step.action.tool}({', '.join(f'{key}={_json(value)}' for key, value in step.action.args.items())})"
    if (result := step.tool_result) is not None:
        payload = f"blob {result.payload_ref}" if result.payload_ref else _json(result.payload)
        yield f"  {'got ' if result.ok else 'error'}     {result.error_kind or ''}{' ' if result.error_kind else ''}{payload}"
    if step.reflection:
        yield f"  reflect  {step.reflection}"


def _answer(t: Trajectory) -> Iterator[str]:
    if t.final_json is None:
        yield "no answer"
        return
    yield "answer"
    try:
        text = json.dumps(json.loads(t.final_json), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        text = t.final_json
    yield from (f"  {line}" for line in text.splitlines())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fit(line: str, width: int) -> str:
    """One line without control characters (a document's text must not steer the terminal)."""
    line = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", line.replace("\n", " ").replace("\t", " "))
    return line if len(line) <= width else line[: max(0, width - 3)] + "..."
