"""From a language model's text to a decision. Text that is none becomes a malformed decision: data, not an exception."""

from __future__ import annotations

import json
from typing import Any

from certloop.agentrl.env.task import Decision, Sampled
from certloop.agentrl.trajectory import Action


def parse_decision(text: str, *, sampled: Sampled | None = None) -> Decision:
    """Read ``{"thought", "tool", "args"}``, ``{"thought", "answer"}`` or ``{"thought", "refuse": true}``.

    ``answer`` may be text or any JSON, which is then written as JSON. Other text gives a decision that is not ``well_formed``.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return Decision(sampled=sampled)
    if not isinstance(data, dict) or not isinstance(data.get("thought", ""), str):
        return Decision(sampled=sampled)
    return Decision(
        thought=data.get("thought", ""),
        action=_action(data),
        answer=_answer(data),
        refused=data.get("refuse") is True,
        sampled=sampled,
    )


def _action(data: dict[str, Any]) -> Action | None:
    tool, args = data.get("tool"), data.get("args", {})
    return Action(tool, args) if isinstance(tool, str) and tool and isinstance(args, dict) else None


def _answer(data: dict[str, Any]) -> str | None:
    if "answer" not in data:
        return None
    answer = data["answer"]
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
