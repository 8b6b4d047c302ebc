"""Reads pages with a nano model and scores the answers with the house's own matching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from certloop.agentrl.rewards import F1Reward, f1_power_reward
from certloop.train.nano.page import NanoPage
from certloop.train.nano.prompt import messages_of

if TYPE_CHECKING:
    from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

MAX_NEW_TOKENS = 160


def read_pages(
    model: Qwen3VLForConditionalGeneration,
    processor: Qwen3VLProcessor,
    pages: Sequence[NanoPage],
    guidance: Sequence[Sequence[str]] | None = None,
    *,
    batch: int = 32,
) -> list[str]:
    """Greedy answers, one a page; ``guidance`` holds the hint lines of each page."""
    import torch

    notes = guidance or [()] * len(pages)
    answers: list[str] = []
    for at in range(0, len(pages), batch):
        part = [messages_of(page.image, lines) for page, lines in zip(pages[at : at + batch], notes[at : at + batch], strict=True)]
        inputs = processor.apply_chat_template(
            part, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True, processor_kwargs={"padding": True}
        )
        with torch.inference_mode():
            out = model.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False)
        answers += processor.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return answers


def score(pages: Sequence[NanoPage], answers: Sequence[str]) -> list[F1Reward]:
    """The reward with its matching, one an answer."""
    return [f1_power_reward(page.fields, answer) for page, answer in zip(pages, answers, strict=True)]


def exact_by_label(pages: Sequence[NanoPage], rewards: Sequence[F1Reward]) -> dict[str, list[bool]]:
    """Canonical label to whether its printed value was read exactly, over the pages that print it."""
    out: dict[str, list[bool]] = {}
    for page, reward in zip(pages, rewards, strict=True):
        found = {pair.truth_key: pair.value_similarity == 1.0 for pair in reward.matching.pairs} if reward.matching else {}
        for label in page.fields:
            out.setdefault(label, []).append(found.get(label, False))
    return out
