"""The field reward ``0.05 + 0.95 * F1 ** k`` with k = 4 (METHODS §2).

Under group-standardised advantages any affine change of a reward has no effect: the power acts only through its convexity,
in groups of three or more distinct values (``group.py``). k = 1 and k = 2 are there to measure that.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from certloop.agentrl.rewards.distances import folded_similarities
from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.matching import Canonical, Comparison, FieldMap, Matching, Repaired, Truth
from certloop.agentrl.rewards.pairing import KEY_THRESHOLD, Method, Similarity
from certloop.agentrl.rewards.text import folded_similarity

FLOOR = 0.05
"""What a parsable answer earns whatever it says. A format penalty takes exactly this away."""
BLOCK = 2048
"""So many answers are compared together: enough for numpy, few enough for the cache."""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """A JSON object of fields. ``duplicates`` are keys written more than once (the last one counts), ``not_text`` are keys whose
    value is neither text nor null (it is compared by its JSON text)."""

    fields: dict[str, str | None]
    duplicates: tuple[str, ...] = ()
    not_text: tuple[str, ...] = ()

    @property
    def strict(self) -> bool:
        """Whether the answer is the flat object of texts that was asked for (the F of METHODS §1.4)."""
        return not self.duplicates and not self.not_text


@dataclass(frozen=True, slots=True)
class F1Reward:
    """A reward and why. ``matching`` is None exactly when the answer could not be parsed."""

    reward: float
    k: float
    matching: Matching | None = None
    penalised: bool = False
    strict: bool = False

    @property
    def f1(self) -> float:
        return 0.0 if self.matching is None else self.matching.f1

    def to_log(self) -> dict[str, Any]:
        """Return what may be logged: numbers and the truth's own labels, never a value nor a label that the model wrote."""
        out: dict[str, Any] = {"reward": round(self.reward, 6), "k": self.k, "parsed": self.matching is not None}
        if self.matching is None:
            return out
        match = self.matching
        out |= {
            "strict": self.strict,
            "penalised": self.penalised,
            "precision": round(match.precision, 6),
            "recall": round(match.recall, 6),
            "f1": round(match.f1, 6),
            "fields": {p.truth_key: round(p.value_similarity, 4) for p in match.pairs} | dict.fromkeys(match.missed, 0.0),
            "extra": len(match.extra),
            "invented": list(match.invented),
            "sentinels": {"total": match.sentinels.total, "respected": match.sentinels.respected},
        }
        return out


def f1_power(f1: float, k: float = 4) -> float:
    """Return 0.05 + 0.95 * f1 ** k for an F1 in [0, 1]. Raises RewardError for anything else or for k <= 0."""
    if not 0.0 <= f1 <= 1.0 or not (k > 0 and math.isfinite(k)):
        raise RewardError(f"F1 must lie in [0, 1] and k must be positive, got F1={f1!r}, k={k!r}")
    return FLOOR + (1.0 - FLOOR) * math.pow(f1, k)


def f1_power_reward(
    truth: FieldMap,
    answer: str | FieldMap,
    *,
    k: float = 4,
    canonical: Canonical | None = None,
    key_threshold: float = KEY_THRESHOLD,
    method: Method = "greedy",
    format_penalty: float = FLOOR,
    repaired: Repaired | None = None,
) -> F1Reward:
    """Score one answer, JSON text or a mapping already parsed: 0 when unparsable, else ``f1_power``.

    A key written twice in the JSON text costs ``format_penalty`` (never below 0). ``repaired`` takes all credit from values that
    repair the print (see :func:`match_fields`). Raises RewardError only for a bad truth or setting; an answer that is
    neither text nor a mapping, or holds what JSON cannot, is unparsable.
    """
    options = _Options(k, key_threshold, method, format_penalty, repaired)
    return _score(*_compared(Truth(truth, canonical=canonical), answer, options), folded_similarity, options)


def f1_power_rewards(
    truths: Sequence[FieldMap],
    answers: Sequence[str | FieldMap],
    *,
    k: float = 4,
    canonical: Canonical | None = None,
    key_threshold: float = KEY_THRESHOLD,
    method: Method = "greedy",
    format_penalty: float = FLOOR,
    repaired: Repaired | None = None,
) -> list[F1Reward]:
    """Score a batch: ``answers[n]`` against ``truths[n]``, exactly as :func:`f1_power_reward` does one by one, only faster.

    A truth that stands in the batch several times (the same object, as in a group of samples) is prepared once, and equal texts
    in its group are scored once. Raises RewardError for a bad truth, a bad k or lists of different length.
    """
    if len(truths) != len(answers):
        raise RewardError(f"{len(truths)} truths for {len(answers)} answers; give one truth an answer")
    options = _Options(k, key_threshold, method, format_penalty, repaired)
    out: list[F1Reward] = []
    for start in range(0, len(truths), BLOCK):
        stop = start + BLOCK
        out += _block(truths[start:stop], answers[start:stop], canonical, options)
    return out


@dataclass(frozen=True, slots=True)
class _Options:
    k: float
    key_threshold: float
    method: Method
    format_penalty: float
    repaired: Repaired | None

    def __post_init__(self) -> None:
        if not (0.0 <= self.format_penalty <= 1.0 and 0.0 <= self.key_threshold <= 1.0):
            raise RewardError("format_penalty and key_threshold must lie in [0, 1]")


def _block(
    truths: Sequence[FieldMap], answers: Sequence[str | FieldMap], canonical: Canonical | None, options: _Options
) -> list[F1Reward]:
    """Lay every answer beside its truth, compare all their values at once, then score."""
    ready: dict[int, Truth] = {}
    compared: dict[tuple[int, str] | int, tuple[ParsedAnswer | None, Comparison | None]] = {}
    names: list[tuple[int, str] | int] = []
    unlike: list[tuple[str, str]] = []
    for position, (fields, answer) in enumerate(zip(truths, answers, strict=True)):
        if (truth := ready.get(id(fields))) is None:
            truth = ready[id(fields)] = Truth(fields, canonical=canonical)
        name = (id(fields), answer) if isinstance(answer, str) else position
        names.append(name)
        if name not in compared:
            _, comparison = compared[name] = _compared(truth, answer, options)
            unlike += comparison.unlike() if comparison is not None else ()
    known = folded_similarities(unlike)

    def similarity(a: str, b: str) -> float:
        return 1.0 if a == b else known[a, b]

    scored = {name: _score(parsed, comparison, similarity, options) for name, (parsed, comparison) in compared.items()}
    return [scored[name] for name in names]


def _compared(truth: Truth, answer: str | FieldMap, options: _Options) -> tuple[ParsedAnswer | None, Comparison | None]:
    parsed = parse_answer(answer) if isinstance(answer, str) else _given(answer)
    return parsed, truth.compare(parsed.fields, options.key_threshold) if parsed is not None else None


def _score(parsed: ParsedAnswer | None, comparison: Comparison | None, similarity: Similarity, options: _Options) -> F1Reward:
    if parsed is None or comparison is None:
        f1_power(0.0, options.k)
        return F1Reward(0.0, options.k)
    matching = comparison.matching(similarity, method=options.method, repaired=options.repaired)
    reward = f1_power(min(matching.f1, 1.0), options.k)
    penalised = bool(parsed.duplicates)
    if penalised:
        reward = max(0.0, reward - options.format_penalty)
    return F1Reward(reward, options.k, matching, penalised, parsed.strict)


def _given(answer: Any) -> ParsedAnswer | None:
    """An answer that was parsed elsewhere. Whatever stands in it, it is scored and never raises."""
    if not isinstance(answer, Mapping):
        return None
    try:
        return _fields({key if isinstance(key, str) else str(key): value for key, value in answer.items()})
    except (TypeError, ValueError, RecursionError):  # values that JSON cannot hold
        return None


def parse_answer(text: str) -> ParsedAnswer | None:
    """Return the fields of a JSON object, or None when the text is not exactly one JSON object (fences and NaN are refused)."""
    try:
        data = _DECODER.decode(text)
        return _fields(data) if isinstance(data, dict) else None
    except (ValueError, RecursionError):
        return None


def _fields(data: dict[str, Any]) -> ParsedAnswer:
    fields: dict[str, str | None] = {}
    not_text = []
    duplicates = dict.fromkeys(data.repeated if isinstance(data, _Repeated) else ())
    for key, value in data.items():
        if value is None or type(value) is str:
            fields[key] = value
        else:
            not_text.append(key)
            fields[key] = str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            duplicates |= dict.fromkeys(_repeated_inside(value))
    return ParsedAnswer(fields, tuple(duplicates), tuple(not_text))


class _Repeated(dict[str, Any]):
    """An object some of whose keys were written more than once."""

    repeated: tuple[str, ...] = ()


def _last_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = dict(pairs)
    if len(seen) == len(pairs):
        return seen
    told = _Repeated(seen)
    told.repeated = tuple(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    return told


def _repeated_inside(value: Any) -> Iterator[str]:
    if isinstance(value, _Repeated):
        yield from value.repeated
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _repeated_inside(item)


class _Number(str):
    """A JSON number as it was written: 007.50 digits must not be lost, and huge numbers must not be converted."""

    __slots__ = ()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_last_wins, parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant)
