"""The shapes of a Qwen3-VL, read from its configuration: parameter counts and sizes, without torch and without weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from certloop.train.config import ModelSpec
from certloop.train.errors import ModelLoadError

KNOWN = {
    "Qwen/Qwen3-VL-4B-Instruct": "qwen3-vl-4b",
    "Qwen/Qwen3-VL-32B-Instruct": "qwen3-vl-32b",
}
"""Models whose configuration comes with the product, so that a plan needs no network."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes of the language model and of the vision tower (``vision_`` ...). A page of h x w pixels takes
    ``h * w / (patch * merge)**2`` tokens of the language model and ``merge**2`` times as many patches of the tower."""

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    tied: bool
    vision_hidden: int
    vision_depth: int
    vision_heads: int
    vision_intermediate: int
    vision_positions: int
    vision_out: int
    deepstack: int
    patch: int
    merge: int
    temporal: int

    @property
    def layer_parameters(self) -> int:
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads) + 2 * self.head_dim
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def text_parameters(self) -> int:
        tables = self.vocab * self.hidden * (1 if self.tied else 2)
        return tables + self.layers * self.layer_parameters + self.hidden

    @property
    def vision_parameters(self) -> int:
        width, inner, wide = self.vision_hidden, self.vision_intermediate, self.vision_hidden * self.merge**2
        patches = 3 * self.temporal * self.patch**2 * width + width + self.vision_positions * width
        block = 4 * width + 4 * width * width + 4 * width + 2 * width * inner + inner + width
        merger = wide * wide + wide + wide * self.vision_out + self.vision_out
        return patches + self.vision_depth * block + (merger + 2 * width) + self.deepstack * (merger + 2 * wide)

    @property
    def parameters(self) -> int:
        return self.text_parameters + self.vision_parameters

    def lora_parameters(self, rank: int, *, vision: bool = False) -> int:
        """Of an adapter over every linear layer of the language model's blocks; with ``vision`` of the tower's, too."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        sides = (self.hidden + q) + 2 * (self.hidden + kv) + (q + self.hidden) + 3 * (self.hidden + self.intermediate)
        return self.layers * rank * sides + (rank * self._vision_sides if vision else 0)

    @property
    def _vision_sides(self) -> int:
        wide = self.vision_hidden * self.merge**2
        block = 8 * self.vision_hidden + 2 * self.vision_intermediate
        return self.vision_depth * block + (1 + self.deepstack) * (3 * wide + self.vision_out)

    def page_tokens(self, pixels: float) -> int:
        return max(1, round(pixels / (self.patch * self.merge) ** 2))


def architecture_of(spec: ModelSpec) -> Architecture:
    """From the model folder's ``config.json``, or a known model's built-in one. Raises ModelLoadError for anything else."""
    return parse_architecture(model_config(spec))


def model_config(spec: ModelSpec) -> dict[str, Any]:
    """The configuration as transformers has it."""
    if spec.path.startswith("nano:"):
        from certloop.train.models import model_source

        path = Path(model_source(spec.path)) / "config.json"
    else:
        path = Path(spec.path) / "config.json"
    try:
        if not path.is_file() and spec.path in KNOWN:
            text = files("certloop.train").joinpath("configs", "models", f"{KNOWN[spec.path]}.json").read_text(encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
        data: dict[str, Any] = json.loads(text)
    except (OSError, ValueError):
        known = ", ".join(KNOWN)
        raise ModelLoadError(f"{spec.path} has no config.json here; download the model first, or use one of {known}") from None
    if data.get("model_type") != "qwen3_vl":
        raise ModelLoadError(f"{spec.path} is a {data.get('model_type')}, not a qwen3_vl")
    return data


def parse_architecture(data: dict[str, Any]) -> Architecture:
    text, vision = data["text_config"], data["vision_config"]
    return Architecture(
        vocab=text["vocab_size"],
        hidden=text["hidden_size"],
        layers=text["num_hidden_layers"],
        heads=text["num_attention_heads"],
        kv_heads=text["num_key_value_heads"],
        head_dim=text["head_dim"],
        intermediate=text["intermediate_size"],
        tied=bool(data.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        vision_hidden=vision["hidden_size"],
        vision_depth=vision["depth"],
        vision_heads=vision["num_heads"],
        vision_intermediate=vision["intermediate_size"],
        vision_positions=vision["num_position_embeddings"],
        vision_out=vision["out_hidden_size"],
        deepstack=len(vision.get("deepstack_visual_indexes") or ()),
        patch=vision["patch_size"],
        merge=vision["spatial_merge_size"],
        temporal=vision["temporal_patch_size"],
    )
