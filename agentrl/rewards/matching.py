"""Pairs the fields of an answer with the fields of the truth and counts them softly (METHODS §2).

True positives are ``sum(value_similarity ** 2)`` over one-to-one pairs whose keys are alike enough. Keys are made canonical
before anything is compared: two names of one field are often less than half alike, so without the alias map they never meet.

What is *not* a printed value: a field that is absent stands on neither side; a field that is printed but blank or unreadable
is ``None``, an empty text or one of ``SENTINELS`` in the truth. Such a field is no recall target and ``null`` on both sides is
no match; a value answered there counts against precision, and ``Matching.sentinels`` tells how many were respected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.pairing import KEY_THRESHOLD, MAX_LABEL_CHARS, Method, Plan, Similarity, make_plan, pair_up
from certloop.agentrl.rewards.text import fold, folded_similarity

BLANK = "<blank>"
UNREADABLE = "<unreadable>"
SENTINELS = frozenset({BLANK, UNREADABLE})

Canonical = Callable[[str], str] | Mapping[str, str]
FieldMap = Mapping[str, str | None]
Repaired = Callable[[str, str, str], bool]
"""From a canonical key, the printed and the answered value (folded) to whether the answer repairs what is printed."""


class Pair(NamedTuple):
    """One truth field and the answered field it was paired with (made by the million: a tuple costs a third of a dataclass)."""

    truth_key: str
    predicted_key: str
    key_similarity: float
    value_similarity: float


@dataclass(frozen=True, slots=True)
class SentinelCount:
    """Fields whose truth is blank or unreadable: how many there are, and for how many the answer claims no value."""

    total: int = 0
    respected: int = 0


NONE_HIDDEN = SentinelCount()


@dataclass(frozen=True, slots=True)
class Matching:
    """The outcome of one comparison; all keys are canonical. ``extra`` holds ``invented`` too."""

    pairs: tuple[Pair, ...]
    true_positives: float
    n_truth: int
    n_predicted: int
    missed: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    sentinels: SentinelCount = NONE_HIDDEN

    @property
    def precision(self) -> float:
        return self._ratio(self.n_predicted)

    @property
    def recall(self) -> float:
        return self._ratio(self.n_truth)

    @property
    def f1(self) -> float:
        """2PR / (P + R), which is 2 TP / (|predicted| + |truth|); 1 when both sides are empty."""
        return self._ratio((self.n_predicted + self.n_truth) / 2)

    def _ratio(self, size: float) -> float:
        if self.n_truth == self.n_predicted == 0:
            return 1.0
        return self.true_positives / size if size else 0.0


class Truth:
    """A truth made ready for many comparisons: keys are canonical, keys and values folded.

    Raises RewardError when two truth fields have one key, or a value is no text.
    """

    def __init__(self, fields: FieldMap, *, canonical: Canonical | None = None) -> None:
        self.rename = _renamer(canonical)
        if not isinstance(fields, Mapping) or not all(
            isinstance(key, str) and (value is None or isinstance(value, str)) for key, value in fields.items()
        ):
            raise RewardError("a truth maps labels to printed texts or None; write numbers as they are printed")
        folded = [
            (self.rename(key), None if value is None or value in SENTINELS else fold(value)) for key, value in fields.items()
        ]
        if len({key for key, _ in folded}) != len(folded):
            keys = [key for key, _ in folded]
            raise RewardError(
                f"the truth names one field twice: {sorted({k for k in keys if keys.count(k) > 1})}; keep one of each"
            )
        self.hidden = frozenset(key for key, value in folded if not value)
        self.keys = tuple(key for key, value in folded if value)
        self.values = tuple(value for _, value in folded if value)

    def match(
        self,
        predicted: FieldMap,
        *,
        key_threshold: float = KEY_THRESHOLD,
        method: Method = "greedy",
        repaired: Repaired | None = None,
    ) -> Matching:
        """Compare an answer with this truth; see :func:`match_fields`."""
        return self.compare(predicted, key_threshold).matching(folded_similarity, method=method, repaired=repaired)

    def compare(self, predicted: FieldMap, key_threshold: float = KEY_THRESHOLD) -> Comparison:
        """Lay an answer beside this truth; which values must be compared is known then, how alike they are is not."""
        keys, values, invented = [], [], []
        rename, hidden = self.rename, self.hidden
        for label, value in predicted.items():
            if value is not None and value not in SENTINELS and (text := fold(value)):
                key = rename(label)
                if key in hidden:
                    invented.append(key)
                else:
                    keys.append(key)
                    values.append(text)
        answered = tuple(keys)
        return Comparison(self, answered, values, tuple(invented), make_plan(self.keys, answered, key_threshold))


class Comparison:
    """One answer beside a truth: ``keys`` and ``values`` are what it claims where something is printed."""

    __slots__ = ("invented", "keys", "plan", "truth", "values")

    def __init__(self, truth: Truth, keys: tuple[str, ...], values: list[str], invented: tuple[str, ...], plan: Plan) -> None:
        self.truth, self.keys, self.values, self.invented, self.plan = truth, keys, values, invented, plan

    def unlike(self) -> list[tuple[str, str]]:
        """The pairs of unequal values whose similarity :meth:`matching` may ask for."""
        printed, answered = self.truth.values, self.values
        return [(printed[i], answered[j]) for i, j in self.plan.pairs() if printed[i] != answered[j]]

    def matching(self, similarity: Similarity, *, method: Method = "greedy", repaired: Repaired | None = None) -> Matching:
        """Pair the fields; ``similarity`` says how alike two values are."""
        truth, keys = self.truth, self.keys
        found = pair_up(self.plan, truth.values, self.values, method, similarity)
        if repaired is not None:
            found = [
                (i, j, key, value if value == 1.0 or not repaired(truth.keys[i], truth.values[i], self.values[j]) else 0.0)
                for i, j, key, value in found
            ]
        missed, extra = self._left_over(found)
        return Matching(
            pairs=tuple([Pair(truth.keys[i], keys[j], key, value) for i, j, key, value in found]),
            true_positives=math.fsum([value**2 for _, _, _, value in found]),  # in whatever order: equal answers, equal reward
            n_truth=len(truth.keys),
            n_predicted=len(keys) + len(self.invented),
            missed=missed,
            extra=extra + self.invented,
            invented=self.invented,
            sentinels=SentinelCount(len(truth.hidden), len(truth.hidden.difference(self.invented)))
            if truth.hidden
            else NONE_HIDDEN,
        )

    def _left_over(self, found: list[tuple[int, int, float, float]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        truth, keys = self.truth, self.keys
        missed: tuple[str, ...] = ()
        extra: tuple[str, ...] = ()
        if len(found) < len(truth.keys):
            used = {i for i, _, _, _ in found}
            missed = tuple(key for i, key in enumerate(truth.keys) if i not in used)
        if len(found) < len(keys):
            used = {j for _, j, _, _ in found}
            extra = tuple(key for j, key in enumerate(keys) if j not in used)
        return missed, extra


def match_fields(
    truth: FieldMap,
    predicted: FieldMap,
    *,
    canonical: Canonical | None = None,
    key_threshold: float = KEY_THRESHOLD,
    method: Method = "greedy",
    repaired: Repaired | None = None,
) -> Matching:
    """Compare an answer with the truth.

    ``canonical`` maps a printed label to its canonical form (a mapping may leave out what is canonical already). ``greedy``
    takes pairs by key similarity, value similarity, then position; ``hungarian`` takes the pairs of equal keys as greedy does
    and pairs the rest so that the true positives are the most possible. A value that ``repaired`` recognises as a repair of the
    printed one counts as entirely wrong, however alike they are. Raises RewardError when two truth fields have one key.
    """
    return Truth(truth, canonical=canonical).match(predicted, key_threshold=key_threshold, method=method, repaired=repaired)


def claims_nothing(value: str | None) -> bool:
    """Return whether a value stands for "no value that can be read": null, blank text or a sentinel."""
    return value is None or value in SENTINELS or not fold(value)


def _renamer(canonical: Canonical | None) -> Callable[[str], str]:
    if canonical is None:
        return _fold_key
    if isinstance(canonical, Mapping):
        folded = {fold(alias): fold(name) for alias, name in canonical.items()}
        return lambda key: folded.get(_fold_key(key), _fold_key(key))
    rename = canonical
    return lambda key: fold(rename(key))


def _fold_key(key: str) -> str:
    """Keys repeat from answer to answer; long ones are no labels and are not kept."""
    return _fold_label(key) if len(key) <= 4 * MAX_LABEL_CHARS else fold(key)


_fold_label = lru_cache(maxsize=4096)(fold)
