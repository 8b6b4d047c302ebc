"""Messages of one page, through the one place where prompts are written: image, generic prompt, optional guidance block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certloop.extract.engine.prompt import assistant_message, prompt_text
from certloop.train.nano.vocabulary import nano_type


def user_text(guidance: str | Sequence[str] = ()) -> str:
    """The type's prompt, byte for byte; with guidance (a text or its lines), the delimited block after it."""
    return prompt_text(nano_type().prompt, guidance.splitlines() if isinstance(guidance, str) else guidance)


def messages_of(image: Any, guidance: str | Sequence[str] = (), answer: str | None = None) -> list[dict[str, Any]]:
    """Chat messages of one page; with ``answer``, a whole training conversation."""
    user = {"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": user_text(guidance)}]}
    return [user] if answer is None else [user, assistant_message(answer)]
