"""Pairs the fields of an answer with the fields of the truth and counts them softly (METHODS §2).

True positives are ``sum(value_similarity ** 2)`` over one-to-one pairs whose keys are alike enough. Keys are made canonical
before anything is compared: 法人 and 法定代表人 are only 0.4 alike, so without the alias map they never meet.

What is *not* a printed value: a field that is absent stands on neither side; a field that is printed but blank or unreadable
is ``None``, an empty text or one of ``SENTINELS`` in the truth. Such a field is no recall target and ``null`` on both sides is
no match; a value answered there counts against precision, and ``Matching.sentinels`` tells how many were respected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.text import fold, folded_similarity

BLANK = "<blank>"
UNREADABLE = "<unreadable>"
SENTINELS = frozenset({BLANK, UNREADABLE})
KEY_THRESHOLD = 0.5
MAX_LABEL_CHARS = 32

Method = Literal["greedy", "hungarian"]
Canonical = Callable[[str], str] | Mapping[str, str]
FieldMap = Mapping[str, str | None]
Repaired = Callable[[str, str, str], bool]
"""From a canonical key, the printed and the answered value (folded) to whether the answer repairs what is printed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One truth field and the answered field it was paired with."""

    truth_key: str
    predicted_key: str
    key_similarity: float
    value_similarity: float


@dataclass(frozen=True, slots=True)
class SentinelCount:
    """Fields whose truth is blank or unreadable: how many there are, and for how many the answer claims no value."""

    total: int = 0
    respected: int = 0


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
    sentinels: SentinelCount = SentinelCount()

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

    Raises RewardError when two truth fields have one key.
    """

    def __init__(self, fields: FieldMap, *, canonical: Canonical | None = None) -> None:
        self.rename = _renamer(canonical)
        folded = [
            (self.rename(key), None if value is None or value in SENTINELS else fold(value)) for key, value in fields.items()
        ]
        if len({key for key, _ in folded}) != len(folded):
            keys = [key for key, _ in folded]
            raise RewardError(
                f"the truth names one field twice: {sorted({k for k in keys if keys.count(k) > 1})}; keep one of each"
            )
        self.hidden = frozenset(key for key, value in folded if not value)
        self.wanted = [(key, value) for key, value in folded if value]

    def match(
        self,
        predicted: FieldMap,
        *,
        key_threshold: float = KEY_THRESHOLD,
        method: Method = "greedy",
        repaired: Repaired | None = None,
    ) -> Matching:
        """Compare an answer with this truth; see :func:`match_fields`."""
        claimed = []
        for key, value in predicted.items():
            if value is not None and value not in SENTINELS and (text := fold(value)):
                claimed.append((self.rename(key), text))
        invented = tuple(key for key, _ in claimed if key in self.hidden)
        answers = [(key, value) for key, value in claimed if key not in self.hidden] if invented else claimed
        pairs = _pair_up(self.wanted, answers, key_threshold, method)
        if repaired is not None:
            pairs = [(i, j, _unless_repaired(pair, self.wanted[i][1], answers[j][1], repaired)) for i, j, pair in pairs]
        used_i, used_j = {i for i, _, _ in pairs}, {j for _, j, _ in pairs}
        return Matching(
            pairs=tuple(pair for _, _, pair in pairs),
            true_positives=sum(pair.value_similarity**2 for _, _, pair in pairs),
            n_truth=len(self.wanted),
            n_predicted=len(claimed),
            missed=tuple(key for i, (key, _) in enumerate(self.wanted) if i not in used_i),
            extra=tuple(key for j, (key, _) in enumerate(answers) if j not in used_j) + invented,
            invented=invented,
            sentinels=SentinelCount(len(self.hidden), len(self.hidden - set(invented))),
        )


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


def assign(
    key_similarity: Sequence[Sequence[float]],
    value_similarity: Sequence[Sequence[float]],
    *,
    key_threshold: float = KEY_THRESHOLD,
    method: Method = "greedy",
) -> list[tuple[int, int]]:
    """Return one-to-one pairs (i, j) of two n_truth x n_predicted matrices; pairs with keys below the threshold are dropped."""
    candidates = [
        (key, value_similarity[i][j], i, j)
        for i, row in enumerate(key_similarity)
        for j, key in enumerate(row)
        if key >= key_threshold
    ]
    candidates.sort(key=lambda c: (-c[0], -c[1], c[2], c[3]))
    if method == "greedy":
        return sorted(_greedy(candidates))
    if method != "hungarian":
        raise RewardError(f"unknown matching method {method!r}; use 'greedy' or 'hungarian'")
    # Equal keys are settled first: two dates swapped between 成立日期 and 登记日期 (0.5 alike) must not count as right.
    settled = _greedy([c for c in candidates if c[0] == 1.0])
    done_i, done_j = {i for i, _ in settled}, {j for _, j in settled}
    rest = [c for c in candidates if c[2] not in done_i and c[3] not in done_j]
    return sorted(settled + _most_true_positives(rest))


def optimal_assignment(weights: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return the one-to-one pairs (row, column) with the greatest total weight (scipy's Hungarian method, loaded when called)."""
    from scipy.optimize import linear_sum_assignment

    if not weights or not weights[0]:
        return []
    rows, columns = linear_sum_assignment([list(row) for row in weights], maximize=True)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]


def _renamer(canonical: Canonical | None) -> Callable[[str], str]:
    if canonical is None:
        return _fold_key
    if isinstance(canonical, Mapping):
        folded = {fold(alias): fold(name) for alias, name in canonical.items()}
        return lambda key: folded.get(_fold_key(key), _fold_key(key))
    rename = canonical
    return lambda key: fold(rename(key))


@lru_cache(maxsize=4096)
def _fold_key(key: str) -> str:
    """Keys repeat from answer to answer."""
    return fold(key)


def _pair_up(
    wanted: list[tuple[str, str]], answers: list[tuple[str, str]], key_threshold: float, method: Method
) -> list[tuple[int, int, Pair]]:
    """Pair folded fields. Equal keys come first in every method, so only what they leave over is compared with everything."""
    if method not in ("greedy", "hungarian"):
        raise RewardError(f"unknown matching method {method!r}; use 'greedy' or 'hungarian'")
    settled = _equal_keys(wanted, answers) if key_threshold <= 1.0 else []
    done_i, done_j = {i for i, _, _ in settled}, {j for _, j, _ in settled}
    rest_i = [i for i in range(len(wanted)) if i not in done_i]
    rest_j = [j for j in range(len(answers)) if j not in done_j]
    if not rest_i or not rest_j:
        return settled
    keys = [[_key_similarity(wanted[i][0], answers[j][0], key_threshold) for j in rest_j] for i in rest_i]
    values = [
        [folded_similarity(wanted[i][1], answers[j][1]) if keys[a][b] >= key_threshold else 0.0 for b, j in enumerate(rest_j)]
        for a, i in enumerate(rest_i)
    ]
    for a, b in assign(keys, values, key_threshold=key_threshold, method=method):
        i, j = rest_i[a], rest_j[b]
        settled.append((i, j, Pair(wanted[i][0], answers[j][0], keys[a][b], values[a][b])))
    return sorted(settled, key=lambda pair: pair[0])


def _key_similarity(a: str, b: str, threshold: float) -> float:
    """The similarity, or 0 where the lengths alone keep it below the threshold (an answer may invent thousands of keys)."""
    longest = max(len(a), len(b))
    if longest and min(len(a), len(b)) / longest < threshold - 1e-9:
        return 0.0
    return _label_similarity(a, b) if longest <= MAX_LABEL_CHARS else folded_similarity(a, b)


_label_similarity = lru_cache(maxsize=16384)(folded_similarity)
"""Labels repeat from answer to answer; long keys are no labels and are not kept."""


def _unless_repaired(pair: Pair, printed: str, answered: str, repaired: Repaired) -> Pair:
    if pair.value_similarity == 1.0 or not repaired(pair.truth_key, printed, answered):
        return pair
    return replace(pair, value_similarity=0.0)


def _equal_keys(wanted: list[tuple[str, str]], answers: list[tuple[str, str]]) -> list[tuple[int, int, Pair]]:
    """Pair fields of equal keys; of several answers to one key the likest counts, then the first."""
    by_key: dict[str, list[int]] = {}
    for j, (key, _) in enumerate(answers):
        by_key.setdefault(key, []).append(j)
    out = []
    for i, (key, value) in enumerate(wanted):
        if (found := by_key.get(key)) is not None:
            likeness = [folded_similarity(value, answers[j][1]) for j in found]
            best = likeness.index(max(likeness))
            out.append((i, found[best], Pair(key, key, 1.0, likeness[best])))
    return out


def _greedy(candidates: list[tuple[float, float, int, int]]) -> list[tuple[int, int]]:
    taken_i: set[int] = set()
    taken_j: set[int] = set()
    pairs = []
    for _, _, i, j in candidates:
        if i not in taken_i and j not in taken_j:
            taken_i.add(i)
            taken_j.add(j)
            pairs.append((i, j))
    return pairs


def _most_true_positives(candidates: list[tuple[float, float, int, int]]) -> list[tuple[int, int]]:
    rows = sorted({c[2] for c in candidates})
    columns = sorted({c[3] for c in candidates})
    weight = [[0.0] * len(columns) for _ in rows]
    for key, value, i, j in candidates:
        # The key similarity only breaks ties (and keeps an allowed pair of worthless value above no pair).
        weight[rows.index(i)][columns.index(j)] = value**2 + 1e-9 * key
    pairs = optimal_assignment(weight)
    return [(rows[a], columns[b]) for a, b in pairs if weight[a][b] > 0.0]
