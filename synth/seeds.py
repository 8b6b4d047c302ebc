"""Randomness from a passed seed: every sample, and every concern of a sample, has a generator of its own.

Streams are named, so that adding a draw to one concern (a seal's tilt) changes nothing in another (the firm's name).
"""

from __future__ import annotations

import hashlib
from random import Random

import numpy as np


def stream_seed(seed: int, *names: str | int) -> int:
    """A 64-bit seed for the stream ``names`` under ``seed``; the same on every machine and Python version."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def values_rng(seed: int, *names: str | int) -> Random:
    """Generator for choices of values and layout."""
    return Random(stream_seed(seed, *names))


def pixels_rng(seed: int, *names: str | int) -> np.random.Generator:
    """Generator for pixels (noise, geometry)."""
    return np.random.Generator(np.random.PCG64(stream_seed(seed, *names)))
