"""The helper prompts: what a teacher is told that a student never sees. Data in ``prompts/``; packing burns all of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from certloop.extract.engine.prompt import answer_json

MODES = ("declaration", "discovery")


@dataclass(frozen=True, slots=True)
class Helpers:
    """``helper`` is the system message around the ground truth, ``triggers`` the sentence that asks for each mode, ``leaks``
    words that give the helper away."""

    helper: str
    triggers: Mapping[str, str]
    leaks: tuple[str, ...]


@lru_cache(maxsize=1)
def helpers() -> Helpers:
    folder = files("certloop.train.teach").joinpath("prompts")
    modes = tomllib.loads(folder.joinpath("modes.toml").read_text(encoding="utf-8"))
    triggers = {entry["id"]: entry["trigger"] for entry in modes["modes"]}
    assert tuple(triggers) == MODES
    return Helpers(folder.joinpath("helper.txt").read_text(encoding="utf-8"), triggers, tuple(modes["leaks"]["phrases"]))


def teacher_messages(prompt: str, fields: Mapping[str, str | None], mode: str, image_url: str) -> Sequence[Mapping[str, Any]]:
    """A system message with the ground truth, and the student's own question with the mode's trigger after it."""
    known = helpers()
    picture = {"type": "image_url", "image_url": {"url": image_url}}
    return [
        {"role": "system", "content": known.helper.replace("{ground_truth}", answer_json(fields))},
        {"role": "user", "content": [picture, {"type": "text", "text": f"{prompt}{known.triggers[mode]}"}]},
    ]


def traces(text: str) -> list[str]:
    """What of the helpers' words stands in a text that must hold none."""
    known = helpers()
    lines = [line for line in known.helper.splitlines() if len(line) > 8 and "{" not in line]
    return [mark for mark in (*known.triggers.values(), *known.leaks, *lines) if mark in text]
