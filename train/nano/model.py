"""Nano: Qwen3-VL's own classes with a few million parameters, built from a config or loaded from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.train.errors import ModelLoadError
from certloop.train.nano.vocabulary import HERE

if TYPE_CHECKING:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

WEIGHTS = HERE / "weights"
TEACHER, EARLY = "teacher", "early"
"""The two committed checkpoints: the trained reader, and an early student of the same vocabulary that still reads badly."""


@dataclass(frozen=True, slots=True)
class NanoConfig:
    """Sizes of a nano model; the defaults are those of the committed weights."""

    hidden: int = 160
    layers: int = 3
    heads: int = 5
    intermediate: int = 400
    vision_hidden: int = 160
    vision_depth: int = 2
    vision_heads: int = 5
    vision_intermediate: int = 480
    seed: int = 0

    @classmethod
    def tiny(cls, seed: int = 0) -> NanoConfig:
        """A model too small to read, for tests of the machinery: about 0.2 million parameters."""
        return cls(
            hidden=32, layers=2, heads=2, intermediate=64, vision_hidden=32, vision_depth=1, vision_heads=2,
            vision_intermediate=64, seed=seed,
        )  # fmt: skip


def nano_config(config: NanoConfig = NanoConfig()) -> Qwen3VLConfig:
    """The transformers configuration of ``config`` over nano's vocabulary."""
    from transformers import Qwen3VLConfig

    from certloop.train.nano.tokenizer import MERGE, PATCH_PX, vocabulary

    ids = {token: n for n, token in enumerate(vocabulary())}
    head_dim = config.hidden // config.heads
    text: dict[str, Any] = {
        "vocab_size": len(ids),
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.heads,
        "head_dim": head_dim,
        "max_position_embeddings": 4096,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": _sections(head_dim // 2),
            "mrope_interleaved": True,
        },
        "bos_token_id": None,
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "tie_word_embeddings": True,
    }
    vision = {
        "depth": config.vision_depth,
        "hidden_size": config.vision_hidden,
        "num_heads": config.vision_heads,
        "intermediate_size": config.vision_intermediate,
        "out_hidden_size": config.hidden,
        "patch_size": PATCH_PX,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [],
    }
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        eos_token_id=ids["<|im_end|>"],
        pad_token_id=ids["<|endoftext|>"],
        tie_word_embeddings=True,
    )


def build_nano(config: NanoConfig = NanoConfig()) -> tuple[Qwen3VLForConditionalGeneration, Qwen3VLProcessor]:
    """A freshly initialised model (float32, from ``config.seed``) and its processor."""
    import torch
    from transformers import GenerationConfig, Qwen3VLForConditionalGeneration

    from certloop.train.nano.tokenizer import build_processor

    processor = build_processor()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = Qwen3VLForConditionalGeneration(nano_config(config)).float()
    tokenizer = processor.tokenizer
    model.generation_config = GenerationConfig(
        do_sample=False, max_new_tokens=256, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model, processor


def save_nano(model: Qwen3VLForConditionalGeneration, processor: Qwen3VLProcessor, folder: Path, *, half: bool = True) -> None:
    """Write a folder that ``AutoModelForImageTextToText`` and ``AutoProcessor`` load; ``half`` stores float16 weights."""
    import copy

    import torch

    stored = copy.deepcopy(model).to(torch.float16) if half else model
    stored.save_pretrained(folder)
    processor.save_pretrained(folder)
    for path in folder.glob("*.safetensors"):
        path.chmod(0o644)  # written by way of a private temporary file


def load_nano(which: str | Path = TEACHER) -> tuple[Qwen3VLForConditionalGeneration, Qwen3VLProcessor]:
    """The committed ``teacher`` or ``early`` model, or one of a folder, in float32 and ready to generate.

    Raises ModelLoadError for a folder that is missing or holds another architecture.
    """
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    folder = nano_folder(which)
    try:
        model = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
        processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelLoadError(f"{folder} holds no model that can be loaded: {error}") from error
    if model.config.model_type != "qwen3_vl":
        raise ModelLoadError(f"{folder} holds a {model.config.model_type}, not a qwen3_vl")
    return model.eval(), processor


def nano_folder(which: str | Path = TEACHER) -> Path:
    """The folder of the committed ``teacher`` or ``early`` weights, or the given one. Raises ModelLoadError without one."""
    folder = WEIGHTS / which if str(which) in (TEACHER, EARLY) else Path(which)
    if not (folder / "config.json").is_file():
        raise ModelLoadError(f"{folder} holds no config.json; train it with `python -m certloop.train.nano.train --out DIR`")
    return folder


def _sections(half: int) -> list[int]:
    """Rotary frequencies of time, height and width, interleaved as in Qwen3-VL (24, 20, 20 of 64)."""
    side = half * 20 // 64
    return [half - 2 * side, side, side]
