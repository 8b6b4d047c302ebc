"""Reads pages with a nano model, scores the answers with the house's own matching, measures what guidance does to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certloop.agentrl.rewards import F1Reward, f1_power_reward, parse_answer
from certloop.train.evaluate import Interval, bootstrap, paired
from certloop.train.nano.guidance import HintKind, hint
from certloop.train.nano.page import NanoPage, rng_for
from certloop.train.nano.prompt import messages_of

if TYPE_CHECKING:
    from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

MAX_NEW_TOKENS = 160


@dataclass(frozen=True, slots=True)
class Reading:
    """How a set of pages was read.

    ``strict`` and ``soft`` are field F1 (a value counts when it is exact; by squared similarity, as the reward has it), ``exact``
    the share of exact values by label, ``valid`` that of answers that are one JSON object of texts.
    """

    pages: int
    strict: Interval
    soft: Interval
    exact: dict[str, float]
    valid: float


@dataclass(frozen=True, slots=True)
class Steered:
    """One arm of guidance: the hinted field's exactness and soft score, and how often the answer was what the hint said.

    ``gain`` and ``others`` are the changes of the soft score against no guidance on the same pages: hinted field, other fields.
    """

    kind: str
    exact: Interval
    soft: Interval
    followed_hint: float
    gain: Interval
    others: Interval


def read_pages(
    model: Qwen3VLForConditionalGeneration,
    processor: Qwen3VLProcessor,
    pages: Sequence[NanoPage],
    guidance: Sequence[Sequence[str]] | None = None,
    *,
    batch: int = 50,
) -> list[str]:
    """Greedy answers, one a page; ``guidance`` holds the hint lines of each page."""
    import torch

    notes = guidance if guidance is not None else [()] * len(pages)
    answers: list[str] = []
    for at in range(0, len(pages), batch):
        asked = zip(pages[at : at + batch], notes[at : at + batch], strict=True)
        inputs = processor.apply_chat_template(
            [messages_of(page.image, lines) for page, lines in asked],
            tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True, processor_kwargs={"padding": True},
        )  # fmt: skip
        with torch.inference_mode():
            out = model.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False)
        answers += processor.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return answers


def score_pages(pages: Sequence[NanoPage], answers: Sequence[str]) -> Reading:
    """The figures of one set of pages."""
    rewards = [f1_power_reward(page.fields, answer) for page, answer in zip(pages, answers, strict=True)]
    hits: dict[str, list[bool]] = {}
    for page, reward in zip(pages, rewards, strict=True):
        right = _exact(reward)
        for label in page.fields:
            hits.setdefault(label, []).append(label in right)
    return Reading(
        pages=len(pages),
        strict=bootstrap([_strict_f1(reward) for reward in rewards]),
        soft=bootstrap([reward.f1 for reward in rewards]),
        exact={label: sum(found) / len(found) for label, found in hits.items()},
        valid=sum(reward.strict for reward in rewards) / len(rewards),
    )


def steer(
    model: Qwen3VLForConditionalGeneration, processor: Qwen3VLProcessor, pages: Sequence[NanoPage], seed: int
) -> dict[str, Steered]:
    """Read the same pages without guidance and with a right, a wrong and a nearly right hint about one field of each.

    The hinted field is the worn one, else one that ``seed`` chooses.
    """
    chosen = [page.worn or rng_for(seed, "hinted", n).choice(sorted(page.fields)) for n, page in enumerate(pages)]
    plain: tuple[list[float], list[float]] | None = None
    out = {}
    for kind in HintKind:
        lines: list[tuple[str, ...]] = [()] * len(pages)
        said: list[str | None] = [None] * len(pages)
        if kind is not HintKind.NONE:
            rngs = [rng_for(seed, "hint", kind, n) for n in range(len(pages))]
            hints = [hint(rng, kind, label, page.fields[label]) for rng, page, label in zip(rngs, pages, chosen, strict=True)]
            lines = [(text,) for text, _ in hints]
            said = [value for _, value in hints]
        answers = read_pages(model, processor, pages, lines)
        rewards = [f1_power_reward(page.fields, answer) for page, answer in zip(pages, answers, strict=True)]
        soft = [_similar(reward).get(label, 0.0) ** 2 for reward, label in zip(rewards, chosen, strict=True)]
        others = [
            _mean([_similar(reward).get(label, 0.0) ** 2 for label in page.fields if label != at])
            for page, reward, at in zip(pages, rewards, chosen, strict=True)
        ]
        plain = plain or (soft, others)
        followed = [_value(answer, label) == value for answer, label, value in zip(answers, chosen, said, strict=True) if value]
        out[kind.value] = Steered(
            kind=kind.value,
            exact=bootstrap([float(label in _exact(reward)) for reward, label in zip(rewards, chosen, strict=True)]),
            soft=bootstrap(soft),
            followed_hint=_mean([float(hit) for hit in followed]),
            gain=paired(soft, plain[0]),
            others=paired(others, plain[1]),
        )
    return out


def _similar(reward: F1Reward) -> dict[str, float]:
    return {pair.truth_key: pair.value_similarity for pair in reward.matching.pairs} if reward.matching else {}


def _exact(reward: F1Reward) -> set[str]:
    return {label for label, similarity in _similar(reward).items() if similarity == 1.0}


def _strict_f1(reward: F1Reward) -> float:
    """2 TP / (answered + printed) with a value right only when it is exact; 0 for an answer that is no JSON object."""
    if reward.matching is None:
        return 0.0
    sides = reward.matching.n_truth + reward.matching.n_predicted
    return 2 * len(_exact(reward)) / sides if sides else 1.0


def _value(answer: str, label: str) -> str | None:
    parsed = parse_answer(answer)
    return parsed.fields.get(label) if parsed else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
