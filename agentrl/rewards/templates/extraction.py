"""Reading fields from a document: ``0.05 + 0.95 * F1 ** 4`` over one-to-one matched fields (METHODS §2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from certloop.agentrl.rewards.f1_power import f1_power_reward
from certloop.agentrl.rewards.matching import Canonical, claims_nothing
from certloop.agentrl.rewards.pairing import Method
from certloop.agentrl.rewards.templates.base import Score, register
from certloop.agentrl.rewards.text import fold


@register
@dataclass(frozen=True)
class FieldExtraction:
    """One document. ``truth`` holds the printed values by label, ``canonical`` the other names of the labels.

    ``repaired(key, printed, answered)`` says whether an answer repairs what is printed (a check digit made right): such a value
    earns nothing, however alike it is. It only has to recognise repairs; what a valid code is, it knows from whoever hands it in.
    """

    kind: ClassVar[str] = "extraction"
    truth: Mapping[str, str | None]
    canonical: Canonical | None = None
    repaired: Callable[[str, str, str], bool] | None = None
    k: float = 4
    method: Method = "greedy"

    def score(self, answer: str, /) -> Score:
        got = f1_power_reward(self.truth, answer, k=self.k, canonical=self.canonical, method=self.method, repaired=self.repaired)
        if got.matching is None:
            return Score(0.0, False)
        match = got.matching
        return Score(got.reward, got.strict, {"f1": match.f1, "precision": match.precision, "recall": match.recall})

    def gold(self) -> str:
        return json.dumps(self._printed(), ensure_ascii=False)

    def decoys(self) -> Iterator[str]:
        """Extra fields, missing fields, one key many times, every value under every key, values cut short or run on."""
        fields = self._printed()
        yield json.dumps(fields | {"备注之外": "无"}, ensure_ascii=False)
        first = next(iter(fields), None)
        if first is None:
            return
        yield json.dumps(fields | {f"{key}（补充）": value for key, value in fields.items()}, ensure_ascii=False)
        pairs = [
            f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()
        ]
        yield "{" + ", ".join([*pairs, pairs[0]]) + "}"
        yield json.dumps({key: value for key, value in fields.items() if key != first}, ensure_ascii=False)
        yield json.dumps(dict.fromkeys(fields, " ".join(v for v in fields.values())) | {"x": "x"}, ensure_ascii=False)
        yield json.dumps(fields | {first: fields[first] * 50}, ensure_ascii=False)
        yield json.dumps(fields | {first: fold(fields[first])[:-1]}, ensure_ascii=False)
        yield "```json\n" + self.gold() + "\n```"

    def _printed(self) -> dict[str, str]:
        return {key: value for key, value in self.truth.items() if value is not None and not claims_nothing(value)}
