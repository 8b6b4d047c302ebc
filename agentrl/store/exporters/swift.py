"""Rows of ms-swift 4.6: one JSON object a line, ``<image>`` in the text for each file of ``images``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certloop.agentrl.store.errors import ExportError

IMAGE = "<image>"


def swift_row(
    prompt: str, answer: str | None, images: Sequence[str], *, teacher_prompt: str | None = None, **columns: Any
) -> dict[str, Any]:
    """``{"messages": [...], "images": [paths]}``; without ``answer`` (GRPO, on-policy GKD) the messages end with the user's.

    ``teacher_prompt`` is what the teacher sees in place of the prompt (hints, notes); ``columns`` go to the reward. Raises
    ExportError when the prompt itself holds ``<image>``: ms-swift would look for a file.
    """
    if IMAGE in prompt or IMAGE in (teacher_prompt or ""):
        raise ExportError(f"the prompt must not hold {IMAGE}: ms-swift takes it for a picture")
    messages = [{"role": "user", "content": IMAGE * len(images) + prompt}]
    if answer is not None:
        messages.append({"role": "assistant", "content": answer})
    row: dict[str, Any] = {"messages": messages, "images": list(images)}
    if teacher_prompt is not None:
        row["teacher_prompt"] = IMAGE * len(images) + teacher_prompt
    return row | columns
