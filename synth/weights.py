"""Names with weights, as the command line takes them: ``photo``, ``photo=3``."""

from __future__ import annotations

from collections.abc import Sequence

from certloop.synth.errors import SynthError


class WeightError(SynthError, ValueError):
    """A weight that is no positive number."""

    code = "weight_invalid"


def parse_weights(texts: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Read ``NAME`` or ``NAME=WEIGHT``. Raises WeightError (code weight_invalid)."""
    out = []
    for text in texts:
        name, _, weight = text.partition("=")
        try:
            value = float(weight) if weight else 1.0
        except ValueError:
            value = -1.0
        if not name or not 0 < value < 1e9:
            raise WeightError(f"{text!r} is no weight; write NAME or NAME=WEIGHT with a positive number")
        out.append((name, value))
    return tuple(out)
