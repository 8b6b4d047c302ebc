"""Guidance of nano's training pages: half useful, 15 % irrelevant, the rest none. A model must learn to use and to doubt.

A hint is one line, ``住所：...``, in one of a few wordings. A useful one says what is printed, an irrelevant one a value of
another licence or one that differs by a character: there the page is right, always.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from random import Random

from certloop.train.nano.values import draw_values
from certloop.train.nano.vocabulary import nano_type, page_glyphs

USEFUL, IRRELEVANT = 0.5, 0.15
WORDINGS = ("{label}：{value}", "{label}：{value}", "{label}可能是{value}", "提示：{label}为{value}")


class HintKind(StrEnum):
    NONE = "none"
    RIGHT = "right"
    WRONG = "wrong"
    NEAR = "near"


def draw_guidance(rng: Random, fields: Mapping[str, str]) -> tuple[HintKind, tuple[str, ...], tuple[str, ...]]:
    """The guidance of one training page with the printed ``fields``: its kind, its lines, and the canonical labels hinted at."""
    draw = rng.random()
    if draw >= USEFUL + IRRELEVANT:
        return HintKind.NONE, (), ()
    kind = HintKind.RIGHT if draw < USEFUL else rng.choice((HintKind.WRONG, HintKind.WRONG, HintKind.NEAR))
    count = 1 if rng.random() < 0.7 else 2
    labels = tuple(rng.sample(sorted(fields), min(count, len(fields))))
    return kind, tuple(hint(rng, kind, label, fields[label])[0] for label in labels), labels


def hint(rng: Random, kind: HintKind, label: str, value: str) -> tuple[str, str]:
    """One line about ``label`` whose printed value is ``value``, and the value it claims (right, another's, nearly right)."""
    if kind is HintKind.WRONG:
        value = _other_value(rng, label, value)
    elif kind is HintKind.NEAR:
        value = _nearly(rng, value)
    return rng.choice(WORDINGS).format(label=label, value=value), value


def _other_value(rng: Random, label: str, value: str) -> str:
    name = next(spec.id for spec in nano_type().fields.values() if spec.label == label)
    for _ in range(50):
        if (other := draw_values(rng, trader=rng.random() < 0.5)[name]) != value:
            return other
    raise AssertionError("a field has many values")


def _nearly(rng: Random, value: str) -> str:
    """``value`` with one character replaced by another of its kind."""
    at = rng.randrange(len(value))
    same = [
        c for c in page_glyphs() if c.isascii() == value[at].isascii() and c.isdigit() == value[at].isdigit() and c != value[at]
    ]
    return value[:at] + rng.choice(same) + value[at + 1 :]
