"""Rewards of GSPO, as TRL calls them: prompts, completions, every column of the rows, and two functions to log with.

The field reward is ``agentrl``'s ``0.05 + 0.95 * F1 ** power`` on the one JSON object that ends the answer (METHODS §2). An
answer that breaks the form otherwise (two objects, fences, text after the JSON) loses the floor. ``agreement`` needs no label:
its truth is what an independent second read also saw, without the fields that fail their validator; a pass earns nothing
(METHODS §1.5), and a field that gives no information costs nothing either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from certloop.agentrl.rewards import FLOOR, F1Reward, f1_power_rewards
from certloop.extract.engine.answer_parser import FORM_FAULTS, Mark, read_answer
from certloop.extract.repairs import repair_test
from certloop.templates import load_types
from certloop.train.config import GspoStage

Fields = Mapping[str, str | None]


@dataclass
class FieldStats:
    """Running rate of exact values by label: an exponential mean over answers, 0.5 before the first one."""

    decay: float = 0.98
    exact: dict[str, float] = field(default_factory=dict)

    def add(self, label: str, exact: bool) -> None:
        before = self.exact.get(label, 0.5)
        self.exact[label] = self.decay * before + (1 - self.decay) * float(exact)


class FieldReward:
    """The reward of fields against labels. ``stats`` learns which fields are hard, which the sampler reads."""

    __name__ = "fields"

    def __init__(self, power: float = 4, stats: FieldStats | None = None, column: str = "ground_truth") -> None:
        self.power, self.column = power, column
        self.stats = stats or FieldStats()

    def __call__(self, completions: Sequence[Any], log_metric: Any = None, log_extra: Any = None, **columns: Any) -> list[float]:
        truths = _shared([json.loads(text) for text in columns[self.column]])
        texts = [_text(c) for c in completions]
        if self.column == "second_read":
            texts = [_informed(text, truth) for text, truth in zip(texts, truths, strict=True)]
        scored = score_answers(truths, texts, self.power)
        self._log(scored, log_metric, log_extra)
        return [reward for reward, _ in scored]

    def _log(self, scored: Sequence[tuple[float, F1Reward]], log_metric: Any, log_extra: Any) -> None:
        exact: dict[str, list[bool]] = {}
        for _, result in scored:
            for label, similarity in result.to_log().get("fields", {}).items():
                exact.setdefault(label, []).append(similarity == 1.0)
        for label, hits in exact.items():
            for hit in hits:
                self.stats.add(label, hit)
            if log_metric is not None:
                log_metric(f"exact/{label}", sum(hits) / len(hits))
        if log_metric is not None:
            log_metric("f1", sum(r.f1 for _, r in scored) / len(scored))
            log_metric("parsed", sum(r.matching is not None for _, r in scored) / len(scored))
        if log_extra is not None:
            log_extra("f1", [round(r.f1, 4) for _, r in scored])


class RandomReward:
    """The control arm: rewards without any relation to the answer. A policy that gains on it gains by something else."""

    __name__ = "random"

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def __call__(self, completions: Sequence[Any], **_: Any) -> list[float]:
        return [self.rng.random() for _ in completions]


def make_reward(stage: GspoStage, seed: int, stats: FieldStats | None = None) -> FieldReward | RandomReward:
    if stage.reward == "random":
        return RandomReward(seed)
    return FieldReward(stage.power, stats, "second_read" if stage.reward == "agreement" else "ground_truth")


def score_answers(truths: Sequence[Fields], texts: Sequence[str], power: float = 4) -> list[tuple[float, F1Reward]]:
    """Reward and its reasons for each text. A text without a complete JSON object earns 0, and so does a value that repairs the
    number which is printed."""
    answers = [read_answer(text) for text in texts]
    objects = [answer.json_text if answer.complete and answer.json_text is not None else "" for answer in answers]
    results = f1_power_rewards(truths, objects, k=power, repaired=_repaired())
    return [
        (max(0.0, result.reward - FLOOR) if answer.marks & FORM_FAULTS else result.reward, result)
        for answer, result in zip(answers, results, strict=True)
    ]


@cache
def _repaired() -> Callable[[str, str, str], bool]:
    """What a repair is goes by the labels of the built-in types."""
    return repair_test(load_types(()).types.values())


def agreed_fields(
    first: Fields, second: Fields, fails: Callable[[str, str], bool] = lambda label, value: False
) -> dict[str, str | None]:
    """What two independent reads of one page both saw and no validator contradicts: the truth of a page that nobody labelled.

    ``fails(label, value)`` says that a hard rule of the field fails; such a field gives no information, it is left out.
    """
    return {k: v for k, v in first.items() if v is not None and second.get(k) == v and not fails(k, v)}


def _informed(text: str, truth: Fields) -> str:
    """The answer without the fields that nobody knows: they are neither right nor wrong, and answering them must cost nothing, or
    a model learns to leave out what is hard. Form and reasoning stay; an answer that is no whole object stays as it is."""
    answer = read_answer(text)
    if not answer.complete or answer.json_text is None or set(answer.fields) <= set(truth):
        return text
    start, end = answer.span
    pairs = [(key, value) for key, value in answer.fields.items() if key in truth]
    if Mark.DUPLICATE_KEYS in answer.marks and pairs:
        pairs.append(pairs[-1])  # a fault of form remains one
    body = ", ".join(f"{_json(key)}: {_json(value)}" for key, value in pairs)
    return f"{text[:start]}{{{body}}}{text[end:]}"


def _json(value: str | None) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shared(truths: list[Fields]) -> list[Fields]:
    """Equal truths become one object: a group's truth is prepared once."""
    known: dict[str, Fields] = {}
    return [known.setdefault(json.dumps(truth, sort_keys=True), truth) for truth in truths]


def _text(completion: Any) -> str:
    """The text of a completion: of its last assistant turn when it is a conversation."""
    if isinstance(completion, str):
        return completion
    said = [message for message in completion if message.get("role") == "assistant"]
    content = said[-1].get("content") if said else ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return str(content or "")
