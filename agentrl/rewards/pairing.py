"""Which field of an answer belongs to which field of the truth: equal keys first, then alike ones, one to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.text import folded_similarity

KEY_THRESHOLD = 0.5
MAX_LABEL_CHARS = 32
MAX_LABELS = 64

Method = Literal["greedy", "hungarian"]
Similarity = Callable[[str, str], float]
"""From two folded values to how alike they are, in [0, 1]."""
Candidate = tuple[float, float, int, int]
"""Key similarity, value similarity, place in the truth, place in the answer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which fields may meet, by their keys alone: ``equal`` as (i, all j of that key), ``alike`` as (key similarity, i, j) of
    what these leave over. ``settled`` when every answered field has one possible partner at most: values decide nothing then."""

    equal: tuple[tuple[int, tuple[int, ...]], ...]
    alike: tuple[tuple[float, int, int], ...]
    settled: bool

    def pairs(self) -> list[tuple[int, int]]:
        """Every (i, j) whose values may be compared."""
        if self.settled:
            return [(i, found[0]) for i, found in self.equal]
        return [(i, j) for i, found in self.equal for j in found] + [(i, j) for _, i, j in self.alike]


def make_plan(wanted: tuple[str, ...], answered: tuple[str, ...], key_threshold: float) -> Plan:
    """Plan by keys. Labels repeat from answer to answer, and so do their plans; those of many or long keys are not kept."""
    if len(answered) <= MAX_LABELS and sum(map(len, answered)) <= MAX_LABELS * MAX_LABEL_CHARS:
        return _kept_plan(wanted, answered, key_threshold)
    return _new_plan(wanted, answered, key_threshold)


def pair_up(
    plan: Plan, wanted: Sequence[str], answered: Sequence[str], method: Method, similarity: Similarity
) -> list[tuple[int, int, float, float]]:
    """Return (i, j, key similarity, value similarity) by i, from the values of both sides.

    Equal keys come first in every method, so only what they leave over is compared with everything.
    """
    known(method)
    if plan.settled:
        return [(i, found[0], 1.0, similarity(wanted[i], answered[found[0]])) for i, found in plan.equal]
    settled = []
    for i, found in plan.equal:  # of several answers to one key the likest counts, then the first
        likeness = [similarity(wanted[i], answered[j]) for j in found]
        best = likeness.index(max(likeness))
        settled.append((i, found[best], 1.0, likeness[best]))
    taken = {j for _, j, _, _ in settled}
    rest = [(key, similarity(wanted[i], answered[j]), i, j) for key, i, j in plan.alike if j not in taken]
    likeness_of = {(i, j): (key, value) for key, value, i, j in rest}
    return sorted(settled + [(i, j, *likeness_of[i, j]) for i, j in _assigned(rest, method)])


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
    return _assigned(candidates, known(method))


def known(method: Method) -> Method:
    """Raises RewardError for a method that nobody knows."""
    if method not in ("greedy", "hungarian"):
        raise RewardError(f"unknown matching method {method!r}; use 'greedy' or 'hungarian'")
    return method


def optimal_assignment(weights: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return the one-to-one pairs (row, column) with the greatest total weight (scipy's Hungarian method, loaded when called)."""
    from scipy.optimize import linear_sum_assignment

    if not weights or not weights[0]:
        return []
    rows, columns = linear_sum_assignment([list(row) for row in weights], maximize=True)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]


def _new_plan(wanted: tuple[str, ...], answered: tuple[str, ...], key_threshold: float) -> Plan:
    by_key: dict[str, list[int]] = {}
    for j, key in enumerate(answered):
        by_key.setdefault(key, []).append(j)
    equal = tuple((i, tuple(by_key[key])) for i, key in enumerate(wanted) if key in by_key) if key_threshold <= 1.0 else ()
    done_i, done_j = {i for i, _ in equal}, {found[0] for _, found in equal if len(found) == 1}
    alike = []
    for i in (i for i in range(len(wanted)) if i not in done_i):
        for j in (j for j in range(len(answered)) if j not in done_j):
            likeness = _key_similarity(wanted[i], answered[j], key_threshold)
            if likeness >= key_threshold:
                alike.append((likeness, i, j))
    return Plan(equal, tuple(alike), settled=not alike and all(len(found) == 1 for _, found in equal))


_kept_plan = lru_cache(maxsize=1024)(_new_plan)


def _key_similarity(a: str, b: str, threshold: float) -> float:
    """The similarity, or 0 where the lengths alone keep it below the threshold (an answer may invent thousands of keys)."""
    longest = max(len(a), len(b))
    if longest and min(len(a), len(b)) / longest < threshold - 1e-9:
        return 0.0
    return _label_similarity(a, b) if longest <= MAX_LABEL_CHARS else folded_similarity(a, b)


_label_similarity = lru_cache(maxsize=16384)(folded_similarity)
"""Labels repeat from answer to answer; long keys are no labels and are not kept."""


def _assigned(candidates: list[Candidate], method: Method) -> list[tuple[int, int]]:
    candidates = sorted(candidates, key=lambda c: (-c[0], -c[1], c[2], c[3]))
    if method == "greedy":
        return sorted(_greedy(candidates))
    # Equal keys are settled first: two values swapped between fields whose labels are alike must not count as right.
    settled = _greedy([c for c in candidates if c[0] == 1.0])
    done_i, done_j = {i for i, _ in settled}, {j for _, j in settled}
    rest = [c for c in candidates if c[2] not in done_i and c[3] not in done_j]
    return sorted(settled + _most_true_positives(rest))


def _greedy(candidates: list[Candidate]) -> list[tuple[int, int]]:
    taken_i: set[int] = set()
    taken_j: set[int] = set()
    pairs = []
    for _, _, i, j in candidates:
        if i not in taken_i and j not in taken_j:
            taken_i.add(i)
            taken_j.add(j)
            pairs.append((i, j))
    return pairs


def _most_true_positives(candidates: list[Candidate]) -> list[tuple[int, int]]:
    rows = sorted({c[2] for c in candidates})
    columns = sorted({c[3] for c in candidates})
    row_of, column_of = {i: n for n, i in enumerate(rows)}, {j: n for n, j in enumerate(columns)}
    weight = [[0.0] * len(columns) for _ in rows]
    for key, value, i, j in candidates:
        # The key similarity only breaks ties (and keeps an allowed pair of worthless value above no pair).
        weight[row_of[i]][column_of[j]] = value**2 + 1e-9 * key
    pairs = optimal_assignment(weight)
    return [(rows[a], columns[b]) for a, b in pairs if weight[a][b] > 0.0]
