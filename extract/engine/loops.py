"""Repetition loops: a model that says the same thing until its tokens run out. Found while it speaks, and afterwards.

A loop is a stretch in which every item equals the one ``period`` before it, for at least ``MIN_RUN`` items and
``MIN_REPEATS`` further periods. Printed certificates do not do that: masks and filler lines are shorter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_PERIOD = 256
MIN_RUN = 64
MIN_REPEATS = 4

_PERIODS = np.arange(1, MAX_PERIOD + 1)
_LIMITS = np.maximum(MIN_RUN, MIN_REPEATS * _PERIODS)


class LoopWatch:
    """Watches one sequence as it grows: ``push`` says whether its end is a loop."""

    def __init__(self) -> None:
        self._last = np.full(MAX_PERIOD, -1, np.int64)  # newest first
        self._runs = np.zeros(MAX_PERIOD, np.int64)

    def push(self, item: int) -> bool:
        self._runs = np.where(self._last == item, self._runs + 1, 0)
        self._last = np.concatenate([np.array([item], np.int64), self._last[:-1]])
        return bool((self._runs >= _LIMITS).any())


def loop_start(items: Sequence[int] | NDArray[np.int64]) -> int | None:
    """Where the first loop begins to repeat itself (index of the second period), or None."""
    values = np.asarray(items, np.int64)
    found: int | None = None
    for period, limit in zip(_PERIODS.tolist(), _LIMITS.tolist(), strict=True):
        if len(values) < period + limit:
            break
        same = np.concatenate([[False], values[period:] == values[:-period], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        starts, ends = edges[0::2], edges[1::2]
        long = starts[ends - starts >= limit]
        if len(long):
            start = int(long[0]) + period
            found = start if found is None else min(found, start)
    return found


def text_loop(text: str) -> int | None:
    """As :func:`loop_start`, over the characters of a text."""
    return loop_start(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64))
