"""How well a model reads: greedy answers on held-out rows, scored page by page, with intervals by bootstrap over pages.

The same field matching as everywhere (METHODS §2): the mean reward, the field F1, the share of exact values by label, valid JSON.
Two models are compared on the same pages (paired bootstrap), so that easy and hard pages cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from certloop.train.gspo_reward import score_answers
from certloop.train.rows import Row


@dataclass(frozen=True, slots=True)
class PageScore:
    """One page's answer against its label. ``exact`` says for each printed field whether the value came out exactly."""

    reward: float
    f1: float
    valid: bool
    exact: Mapping[str, bool]
    layout: str = ""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Evaluation:
    """The scores of one model on some pages, in the rows' order."""

    pages: tuple[PageScore, ...]
    answers: tuple[str, ...] = field(default=(), repr=False)

    @property
    def reward(self) -> Interval:
        return bootstrap([p.reward for p in self.pages])

    @property
    def f1(self) -> Interval:
        return bootstrap([p.f1 for p in self.pages])

    @property
    def valid(self) -> float:
        return sum(p.valid for p in self.pages) / len(self.pages)

    def exact(self) -> dict[str, float]:
        """Share of exact values by label, over the pages that print it."""
        hits: dict[str, list[bool]] = {}
        for page in self.pages:
            for label, hit in page.exact.items():
                hits.setdefault(label, []).append(hit)
        return {label: sum(values) / len(values) for label, values in sorted(hits.items())}

    def to_json(self) -> dict[str, Any]:
        f1, reward = self.f1, self.reward
        return {
            "pages": len(self.pages),
            "reward": [round(x, 4) for x in (reward.mean, reward.low, reward.high)],
            "f1": [round(x, 4) for x in (f1.mean, f1.low, f1.high)],
            "json_valid": round(self.valid, 4),
            "exact": {label: round(rate, 4) for label, rate in self.exact().items()},
        }


def evaluate(
    model: Any, processor: Any, rows: Sequence[Row], *, batch: int = 50, max_new_tokens: int = 256, power: float = 4
) -> Evaluation:
    """Read every row greedily and score it."""
    answers = read_rows_with(model, processor, rows, batch=batch, max_new_tokens=max_new_tokens)
    return score(rows, answers, power=power)


def score(rows: Sequence[Row], answers: Sequence[str], *, power: float = 4) -> Evaluation:
    """Score answers that are there already."""
    pages = []
    for row, (reward, result) in zip(rows, score_answers([dict(r.truth or {}) for r in rows], answers, power), strict=True):
        similar = result.to_log().get("fields", {})
        exact = {label: similar.get(label) == 1.0 for label, value in (row.truth or {}).items() if value}
        pages.append(PageScore(reward, result.f1, result.matching is not None, exact, row.layout))
    return Evaluation(tuple(pages), tuple(answers))


def read_rows_with(
    model: Any,
    processor: Any,
    rows: Sequence[Row],
    *,
    batch: int = 50,
    max_new_tokens: int = 256,
    prompts: Sequence[str] | None = None,
) -> list[str]:
    """What the model writes for each row, greedily, in batches of pages of similar size. ``prompts`` replaces the rows' own."""
    import torch
    from PIL import Image

    model.eval()
    answers = []
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        asked = prompts[start : start + batch] if prompts is not None else [row.prompt for row in part]
        images = [[Image.open(path).convert("RGB") for path in row.images] for row in part]
        texts = [chat_prompt(processor, text, len(row.images)) for text, row in zip(asked, part, strict=True)]
        inputs = processor(images=images, text=texts, padding=True, padding_side="left", return_tensors="pt")
        inputs = inputs.to(next(model.parameters()).device)
        with torch.inference_mode():
            out = model.generate(
                **inputs, do_sample=False, max_new_tokens=max_new_tokens, pad_token_id=processor.tokenizer.pad_token_id
            )
        new = out[:, inputs["input_ids"].shape[1] :]
        answers.extend(processor.tokenizer.batch_decode(new, skip_special_tokens=True))
    return answers


def chat_prompt(processor: Any, text: str, images: int = 1) -> str:
    """The prompt as the model sees it: the images, then the text, then the start of its answer."""
    content = [*({"type": "image"} for _ in range(images)), {"type": "text", "text": text}]
    prompt: str = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
    )
    return prompt


def bootstrap(values: Sequence[float], *, samples: int = 2000, seed: int = 0) -> Interval:
    """Mean and 95 % percentile interval, resampling pages."""
    import numpy as np

    data = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    means = data[rng.integers(0, len(data), (samples, len(data)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(data.mean()), float(low), float(high))


def paired(after: Iterable[float], before: Iterable[float]) -> Interval:
    """The mean difference on the same pages, with its interval. Raises ValueError when the pages are not the same number."""
    return bootstrap([a - b for a, b in zip(after, before, strict=True)])


def mean_of_seeds(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error over seeds (0 for one seed)."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    variance = math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """Rows in a seeded order."""
    out = list(rows)
    Random(seed).shuffle(out)
    return out
