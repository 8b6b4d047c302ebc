"""Tiny untrained Qwen3-VL models and adapters on disk: the machinery of the model engines, without any skill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from certloop.extract.engine.contract import Question
from certloop.train.nano import NanoConfig, build_nano, nano_pages, save_nano
from certloop.train.nano.vocabulary import nano_type


def tiny_model(folder: Path, seed: int = 0, **sizes: Any) -> Path:
    """Save an untrained model of 0.2 million parameters."""
    from dataclasses import replace

    model, processor = build_nano(replace(NanoConfig.tiny(seed), **sizes))
    save_nano(model, processor, folder, half=False)
    return folder


def tiny_adapter(base: Path, folder: Path, *, seed: int = 1, targets: str = r".*language_model.*\.(q_proj|v_proj)") -> Path:
    """Save an adapter on ``base`` whose weights are not zero, without a mark of its base."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    torch.manual_seed(seed)
    model = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
    peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=32, target_modules=targets, init_lora_weights=False))
    peft.save_pretrained(str(folder))
    return folder


def questions(n: int, seed: int = 3) -> list[Question]:
    return [Question((page.pixels,), nano_type().prompt) for page in nano_pages(seed, n)]
