"""Disjoint value domains: each split of a dataset draws names, addresses and persons that no other split can draw."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from certloop.synth.errors import SynthError

_TRIES = 4000


class ValueDomainError(SynthError, ValueError):
    """A split so small that the vocabulary has no value for it."""

    code = "split_too_small"


@dataclass(frozen=True, slots=True)
class Domain:
    """The values whose hash falls into [low, high): a pure function of the value, so no worker needs to know another's."""

    low: float = 0.0
    high: float = 1.0

    def accepts(self, value: str) -> bool:
        place = int.from_bytes(hashlib.blake2b(value.encode(), digest_size=6).digest(), "big") / 2**48
        return self.low <= place < self.high

    def draw(self, make: Callable[[], str]) -> str:
        """Draw from ``make`` until a value lies inside. Raises ValueDomainError when the source has none (a domain far too
        narrow)."""
        for _ in range(_TRIES):
            value = make()
            if self.accepts(value):
                return value
        raise ValueDomainError(f"no value of the domain [{self.low:g}, {self.high:g}) in {_TRIES} draws; widen the split")


EVERYTHING = Domain()
