"""Profiles: named lists of steps in ``synth/data/profiles.toml`` or a user's file, checked before anything is drawn."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from certloop.synth.errors import ProfileError
from certloop.synth.fields.vocabulary import read_data
from certloop.synth.perturb import cover, geometry, light, surface
from certloop.synth.perturb.state import Params, State

Step = Callable[[State, np.random.Generator, Params], None]
STEPS: Mapping[str, tuple[Step, tuple[str, ...]]] = {
    "curl": (geometry.curl, ("amount",)),
    "crumple": (geometry.crumple, ("depth", "shade")),
    "fold": (geometry.fold, ("depth",)),
    "place": (geometry.place, ("ground", "margin", "tilt_deg", "perspective")),
    "shrink": (geometry.shrink, ("long_edge",)),
    "turn": (geometry.turn, ("degrees",)),
    "uneven_light": (light.uneven_light, ("strength",)),
    "shadow": (light.shadow, ("strength",)),
    "glare": (light.glare, ("strength", "size")),
    "tone": (light.tone, ("gain", "offset", "warmth")),
    "blur": (surface.blur, ("sigma",)),
    "noise": (surface.noise, ("sigma",)),
    "photocopy": (surface.photocopy, ("contrast", "fade", "specks")),
    "scan_edge": (surface.scan_edge, ()),
    "moire": (surface.moire, ("strength",)),
    "app_frame": (surface.app_frame, ()),
    "jpeg": (surface.jpeg, ("quality",)),
    "albumentations": (surface.albumentations_step, ("transform",)),
    "mask": (cover.mask, ("kind", "fields")),
    "finger": (cover.finger, ("size",)),
    "note_stamp": (cover.note_stamp, ()),
    "user_watermark": (cover.user_watermark, ()),
}


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    about: str
    steps: tuple[Mapping[str, Any], ...]
    image_format: str = "jpeg"


def load_profile(name: str, file: Path | None = None) -> Profile:
    """Read one profile. Raises ProfileError (code profile_invalid) with the known names or the wrong entry."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8")) if file else read_data("profiles")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{file}: {error}") from error
    if name not in data:
        raise ProfileError(f"unknown profile {name!r}; known: {', '.join(data)}")
    entry = data[name]
    steps = tuple(entry.get("steps", ()))
    for step in steps:
        kind = step.get("step")
        if kind not in STEPS:
            raise ProfileError(f"profile {name!r}: unknown step {kind!r}; known: {', '.join(STEPS)}")
        if missing := [key for key in STEPS[kind][1] if key not in step]:
            raise ProfileError(f"profile {name!r}: step {kind!r} lacks {', '.join(missing)}")
    return Profile(name, entry.get("about", ""), steps, entry.get("format", "jpeg"))


def draw_params(step: Mapping[str, Any], rng: np.random.Generator) -> Params:
    """Draw a step's parameters: a pair of numbers is a range, any other list a choice."""
    out: Params = {}
    for key, value in step.items():
        if key in ("step", "chance"):
            continue
        if isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value):
            whole = all(isinstance(v, int) for v in value) and key in ("fields", "quality")
            out[key] = int(rng.integers(value[0], value[1] + 1)) if whole else float(rng.uniform(value[0], value[1]))
        elif isinstance(value, list):
            out[key] = value[int(rng.integers(0, len(value)))]
        else:
            out[key] = value
    return out
