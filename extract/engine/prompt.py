"""What a model is asked and in which form it answers: the one place where both are written, for training and for serving.

A prompt is the type's generic prompt, byte for byte, and after it an optional block of guidance between two marks. Without
guidance a serving prompt therefore equals the packed training prompt. Images stand before the text, in page order.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

GUIDANCE_OPEN = "<guidance>"
GUIDANCE_CLOSE = "</guidance>"
_MARKS = re.compile(r"</?\s*guidance\s*>", re.IGNORECASE)
_CONTROL = re.compile(r"<\|[^|<>]*\|>|</?think>|<image>")
MAX_NOTE_CHARS = 400


def prompt_text(generic: str, guidance: Sequence[str] = ()) -> str:
    """The user's text: ``generic`` unchanged, then the guidance lines between their marks (nothing where there are none)."""
    lines = [line for line in map(clean_note, guidance) if line]
    if not lines:
        return generic
    return "\n".join([generic.rstrip("\n"), GUIDANCE_OPEN, *lines, GUIDANCE_CLOSE]) + "\n"


def clean_note(note: str) -> str:
    """One line of guidance that cannot leave its block: no line breaks, no marks of a prompt, at most 400 characters."""
    before = None
    while before != note:  # what is taken out may leave a new mark behind
        before, note = note, _CONTROL.sub("", _MARKS.sub("", note))
    return " ".join(note.split())[:MAX_NOTE_CHARS]


def user_message(text: str, images: int = 1) -> dict[str, Any]:
    """The user's turn as chat templates of vision models take it: one image part a page, then the text."""
    return {"role": "user", "content": [*({"type": "image"} for _ in range(images)), {"type": "text", "text": text}]}


def assistant_message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def answer_json(fields: Mapping[str, str | None]) -> str:
    """The JSON object that ends every answer: printed values by label, null for a blank or illegible one."""
    return json.dumps(dict(fields), ensure_ascii=False)


def answer_text(fields: Mapping[str, str | None], reasoning: str = "") -> str:
    """A whole answer: the reasoning as plain text, a line break, exactly one JSON object."""
    thought = reasoning.strip()
    return f"{thought}\n{answer_json(fields)}" if thought else answer_json(fields)


def prompt_version(generic: str) -> str:
    """A short name of a prompt's exact bytes, for trajectories and manifests."""
    return hashlib.sha256(generic.encode()).hexdigest()[:12]
