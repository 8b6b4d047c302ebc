"""The recipe of a run from scratch: a frozen config read from ``recipe.toml`` or a file of the same form."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from certloop.train.errors import TrainConfigError
from certloop.train.nano.model import NanoConfig
from certloop.train.nano.vocabulary import HERE


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: steps, pages a step, the base rates of Muon and AdamW, and what applies to some stages only.

    ``easy``, ``hold`` and ``frozen`` are shares of the steps: curriculum, full rate, vision left as it is; ``glyph_weight`` is
    the weight of the glyph loss beside the answer's; every ``whole_pages``-th glyph step sees pages instead of strips.
    """

    steps: int
    batch: int
    muon: float
    adam: float
    easy: float = 0.0
    hold: float = 0.0
    glyph_weight: float = 0.0
    frozen: float = 0.0
    whole_pages: int = 0


@dataclass(frozen=True, slots=True)
class Checks:
    """Evaluation on ``pages`` held-out pages every ``every`` steps; a checkpoint at least every ``checkpoint_s`` seconds;
    ``snapshots`` loadable folders along the page stage."""

    every: int = 250
    pages: int = 48
    seed: int = 900_001
    checkpoint_s: float = 120.0
    snapshots: int = 20


@dataclass(frozen=True, slots=True)
class Recipe:
    seed: int
    glyphs: Stage
    strips: Stage
    pages: Stage
    checks: Checks = field(default_factory=Checks)
    model: NanoConfig = field(default_factory=NanoConfig)


def read_recipe(path: Path | None = None) -> Recipe:
    """Read a recipe; the committed one by default. Raises TrainConfigError."""
    path = path or HERE / "recipe.toml"
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        glyphs, strips, pages = (Stage(**data.pop(name)) for name in ("glyphs", "strips", "pages"))
        checks, model = Checks(**data.pop("checks", {})), NanoConfig(**data.pop("model", {}))
        return Recipe(glyphs=glyphs, strips=strips, pages=pages, checks=checks, model=model, **data)
    except (OSError, tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise TrainConfigError(f"{path.name} is no recipe of nano: {error}") from None
