"""Rows of TRL 1.16 (FACTS §2): ``messages`` + ``images`` for SFT, ``prompt`` + ``completion`` + ``images`` for single turns, and
``prompt`` + ``images`` + ``ground_truth`` for on-policy trainers (GRPO/GSPO hand every further column to the reward)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from certloop.agentrl.store.errors import ExportError
from certloop.agentrl.trajectory import Step, Trajectory


def trl_messages_row(
    trajectory: Trajectory, prompt: str, answer: str, images: Sequence[Any], *, with_steps: bool = False
) -> dict[str, Any]:
    """``{"messages": [...], "images": [...]}``. One image part stands in the user's message for each image.

    ``images`` are paths, PIL images or bytes dicts, as the trainer's loader takes them. ``with_steps`` adds the tool calls
    between question and answer: only for trajectories whose steps a model decided itself.
    """
    steps = [message for step in trajectory.steps for message in _turn(step)] if with_steps else []
    return {"messages": [_user(prompt, len(images)), *steps, _assistant(answer)], "images": list(images)}


def trl_prompt_completion_row(prompt: str, answer: str, images: Sequence[Any]) -> dict[str, Any]:
    """``{"prompt": [...], "completion": [...], "images": [...]}``."""
    return {"prompt": [_user(prompt, len(images))], "completion": [_assistant(answer)], "images": list(images)}


def trl_prompt_row(prompt: str, ground_truth: str | None, images: Sequence[Any], **columns: Any) -> dict[str, Any]:
    """``{"prompt": [...], "images": [...], "ground_truth": ...}`` and further columns. No completion: the policy writes it.

    Raises ExportError without a ground truth: a group without one has no reward (DESIGN §3).
    """
    if ground_truth is None:
        raise ExportError("an on-policy row needs an approved answer; this trajectory has none")
    return {"prompt": [_user(prompt, len(images))], "images": list(images), "ground_truth": ground_truth, **columns}


def _user(text: str, n_images: int) -> dict[str, Any]:
    return {"role": "user", "content": [*({"type": "image"} for _ in range(n_images)), {"type": "text", "text": text}]}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def _turn(step: Step) -> list[dict[str, Any]]:
    if step.action is None:
        return []
    call = {"type": "function", "function": {"name": step.action.tool, "arguments": dict(step.action.args)}}
    said = _assistant(step.thought) | {"tool_calls": [call]}
    if step.tool_result is None:
        return [said]
    result = step.tool_result.payload if step.tool_result.ok else {"error": step.tool_result.error_kind}
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return [said, {"role": "tool", "name": step.action.tool, "content": [{"type": "text", "text": text}]}]
