"""Pairs the fields of an answer with the fields of the truth and counts them softly (METHODS §2).

True positives are ``sum(value_similarity ** 2)`` over one-to-one pairs whose keys are alike enough. Keys are made canonical
before anything is compared: 法人 and 法定代表人 are only 0.4 alike, so without the alias map they never meet.

What is *not* a printed value: a field that is absent stands on neither side; a field that is printed but blank or unreadable
is ``None``, an empty text or one of ``SENTINELS`` in the truth. Such a field is no recall target and ``null`` on both sides is
no match; a value answered there counts against precision, and ``Matching.sentinels`` tells how many were respected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.text import fold, text_similarity

BLANK = "<blank>"
UNREADABLE = "<unreadable>"
SENTINELS = frozenset({BLANK, UNREADABLE})
KEY_THRESHOLD = 0.5

Method = Literal["greedy", "hungarian"]
Canonical = Callable[[str], str] | Mapping[str, str]
FieldMap = Mapping[str, str | None]


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


def match_fields(
    truth: FieldMap,
    predicted: FieldMap,
    *,
    canonical: Canonical | None = None,
    key_threshold: float = KEY_THRESHOLD,
    method: Method = "greedy",
) -> Matching:
    """Compare an answer with the truth.

    ``canonical`` maps a printed label to its canonical form (a mapping may leave out what is canonical already). ``greedy``
    takes pairs by key similarity, value similarity, then position; ``hungarian`` takes the pairs of equal keys as greedy does
    and pairs the rest so that the true positives are the most possible. Raises RewardError when two truth fields have one key.
    """
    rename = _renamer(canonical)
    truths = [(rename(key), value) for key, value in truth.items()]
    if len({key for key, _ in truths}) != len(truths):
        keys = [key for key, _ in truths]
        raise RewardError(f"the truth names one field twice: {sorted({k for k in keys if keys.count(k) > 1})}; keep one of each")
    hidden = {key for key, value in truths if claims_nothing(value)}
    wanted = [(key, value) for key, value in truths if value is not None and key not in hidden]
    claimed = [(rename(key), value) for key, value in predicted.items() if value is not None and not claims_nothing(value)]
    invented = tuple(key for key, _ in claimed if key in hidden)
    answers = [(key, value) for key, value in claimed if key not in hidden]
    indices = _pair_up(wanted, answers, key_threshold, method)
    pairs = tuple(_pair(wanted[i], answers[j]) for i, j in indices)
    used_i, used_j = {i for i, _ in indices}, {j for _, j in indices}
    return Matching(
        pairs=pairs,
        true_positives=sum(p.value_similarity**2 for p in pairs),
        n_truth=len(wanted),
        n_predicted=len(claimed),
        missed=tuple(key for i, (key, _) in enumerate(wanted) if i not in used_i),
        extra=tuple(key for j, (key, _) in enumerate(answers) if j not in used_j) + invented,
        invented=invented,
        sentinels=SentinelCount(len(hidden), len(hidden - set(invented))),
    )


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
        return fold
    if isinstance(canonical, Mapping):
        folded = {fold(alias): fold(name) for alias, name in canonical.items()}
        return lambda key: folded.get(fold(key), fold(key))
    rename = canonical
    return lambda key: fold(rename(key))


def _pair(wanted: tuple[str, str], answer: tuple[str, str]) -> Pair:
    return Pair(wanted[0], answer[0], text_similarity(wanted[0], answer[0]), text_similarity(wanted[1], answer[1]))


def _pair_up(
    wanted: list[tuple[str, str]], answers: list[tuple[str, str]], key_threshold: float, method: Method
) -> list[tuple[int, int]]:
    keys = [[text_similarity(w, a) for a, _ in answers] for w, _ in wanted]
    values = [
        [text_similarity(wanted[i][1], answers[j][1]) if key >= key_threshold else 0.0 for j, key in enumerate(row)]
        for i, row in enumerate(keys)
    ]
    return assign(keys, values, key_threshold=key_threshold, method=method)


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
