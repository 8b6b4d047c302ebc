"""Which pages a GSPO generation asks about: hard fields and long texts get more of the budget, settled pages less.

The share ``hard`` of each generation's pages is drawn by weight; the rest comes from a shuffled pass over all rows, so that none
is left out. A page weighs the sum over its printed fields of (1 - exact rate of the field), one and a half times for a text of
sixteen characters or more; a page whose last group had no spread weighs a quarter of that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from torch.utils.data import Sampler

LONG_CHARS = 16
LONG_BONUS = 1.5
SETTLED = 0.25


class HardSampler(Sampler[int]):
    """Yields row indices as TRL's RepeatSampler does: per generation ``batch`` distinct pages, each ``group`` times in a row, the
    whole block ``repeats`` times (once for each update on the generation)."""

    def __init__(
        self, truths: Sequence[Mapping[str, str | None]], *, batch: int, group: int, repeats: int, hard: float, seed: int
    ) -> None:
        self.truths, self.batch, self.group, self.repeats = truths, batch, group, repeats
        self.hard, self.rng = hard, Random(seed)
        self.exact: dict[str, float] = {}
        self.settled: set[int] = set()
        self.drawn = [0] * len(truths)
        if len(truths) < batch:
            raise ValueError(f"{len(truths)} rows for generations of {batch} pages")

    def __len__(self) -> int:
        return (len(self.truths) // self.batch) * self.batch * self.group * self.repeats

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.truths)))
        self.rng.shuffle(order)
        for _ in range(len(self.truths) // self.batch):
            pages = self._draw(order)
            for index in pages:
                self.drawn[index] += 1
            for _ in range(self.repeats):
                for index in pages:
                    yield from [index] * self.group

    def weight(self, index: int) -> float:
        """How much a page is worth asking about."""
        total = 0.0
        for label, value in self.truths[index].items():
            if value:
                total += (1.0 - self.exact.get(label, 0.5)) * (LONG_BONUS if len(value) >= LONG_CHARS else 1.0)
        return (total + 0.01) * (SETTLED if index in self.settled else 1.0)

    def note(self, exact: Mapping[str, float], spread: Mapping[int, bool]) -> None:
        """What the last generation showed: exact rate by label, and for each page whether its group's rewards differed."""
        self.exact.update(exact)
        for index, differs in spread.items():
            (self.settled.discard if differs else self.settled.add)(index)

    def state(self) -> dict[str, Any]:
        return {"exact": self.exact, "settled": sorted(self.settled)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.exact, self.settled = dict(state["exact"]), set(state["settled"])

    def _draw(self, order: list[int]) -> list[int]:
        n_hard = round(self.batch * self.hard)
        chosen: dict[int, None] = {}
        if n_hard:
            weights = [self.weight(i) for i in range(len(self.truths))]
            # Efraimidis and Spirakis: the largest keys u ** (1 / w) are a weighted draw without replacement
            keys = [(self.rng.random() ** (1.0 / w), i) for i, w in enumerate(weights)]
            chosen = dict.fromkeys(i for _, i in sorted(keys, reverse=True)[:n_hard])
        while len(chosen) < self.batch:
            if not order:
                order.extend(range(len(self.truths)))
                self.rng.shuffle(order)
            chosen[order.pop()] = None
        pages = list(chosen)
        self.rng.shuffle(pages)
        return pages


def truths_of(texts: Sequence[str]) -> list[dict[str, str | None]]:
    """The labels' column of a dataset, parsed."""
    return [json.loads(text) for text in texts]
