"""What to train on, as data that a person can read and change, and an account of everything that was left out.

The rules, in order: consent; no quarantined source; reliable witnesses only; one answer where several contradict; near-duplicates
once; a cap for each tenant, so that none can poison a shared model; then weights: real over synthetic, hard parts and long text
first, and a share of old classes so that they are not forgotten. Which signal may become a gradient is not decided here: rows are
ground truth already.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from random import Random
from typing import Any

from certloop.agentrl.loop.errors import LoopError


class LeftOut(StrEnum):
    """Why a row is not trained on."""

    CONSENT = "no_consent"
    QUARANTINED = "quarantined"
    UNRELIABLE = "unreliable_witness"
    CONTRADICTED = "contradicted"
    DUPLICATE = "near_duplicate"
    CAP = "tenant_cap"
    BUDGET = "over_budget"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row that could be trained on. ``group`` is its class, ``item`` what it is about (the same page has one item),
    ``answer`` a digest of what is said to be true of it, ``shape`` a digest that near-duplicates share. ``parts`` are the parts
    of the answer."""

    row_id: str
    tenant: str
    group: str
    item: str
    answer: str
    shape: str
    synthetic: bool = False
    consented: bool = False
    source: str = ""
    reliability: float = 1.0
    parts: Sequence[str] = ()
    longest: int = 0


@dataclass(frozen=True, slots=True)
class SelectionConfig:
    """``budget`` rows at most. ``tenant_cap`` is the largest share of the real rows that one tenant may give to a shared model (a
    tenant's own model has none). ``replay`` is the share kept for classes outside of ``focus``."""

    budget: int = 2000
    real_weight: float = 4.0
    synthetic_weight: float = 1.0
    hard_weight: float = 2.0
    long_weight: float = 1.5
    long_from: int = 60
    replay: float = 0.3
    min_reliability: float = 0.8
    tenant_cap: float = 0.34
    duplicates_kept: int = 3
    seed: int = 0

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> SelectionConfig:
        """Read a table of a configuration file. Raises LoopError that names the key."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise LoopError(f"unknown keys in the selection: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        try:
            config = cls(**data)
            config.check()
        except TypeError:
            raise LoopError("the selection's values are numbers") from None
        return config

    def check(self) -> None:
        for f in fields(self):
            if getattr(self, f.name) < 0:
                raise LoopError(f"{f.name} of the selection is not negative")
        for name in ("replay", "min_reliability", "tenant_cap"):
            if getattr(self, name) > 1:
                raise LoopError(f"{name} of the selection lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows with their weights, and how many were left out for which reason; ``left_out`` names every one."""

    rows: tuple[tuple[str, float], ...]
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[str, int]:
        return {str(reason): n for reason, n in sorted(Counter(self.left_out.values()).items())}


def choose(
    candidates: Iterable[Candidate],
    config: SelectionConfig,
    *,
    focus: Sequence[str] = (),
    hard_parts: Iterable[str] = (),
    quarantined: Iterable[str] = (),
    shared: bool = True,
) -> Selection:
    """Choose what a run trains on. ``focus`` are the classes it is for (none: all alike), ``hard_parts`` the parts that are often
    wrong. ``shared`` tells whether the model serves more than one tenant. The same candidates and seed give the same rows."""
    config.check()
    out: dict[str, LeftOut] = {}
    rows = sorted(candidates, key=lambda c: c.row_id)
    rows = _drop(rows, out, LeftOut.CONSENT, lambda c: not (c.consented or c.synthetic))
    suspect = set(quarantined)
    rows = _drop(rows, out, LeftOut.QUARANTINED, lambda c: c.source in suspect)
    rows = _drop(rows, out, LeftOut.UNRELIABLE, lambda c: c.reliability < config.min_reliability)
    rows = _without_contradictions(rows, out)
    rows = _without_duplicates(rows, out, config)
    weighted = [(row, _weight(row, config, set(hard_parts))) for row in rows]
    order = _drawn(weighted, config)
    chosen = _within_budget(order, config, set(focus))
    if shared:
        chosen = _capped(chosen, out, config)
    kept = {row.row_id for row, _ in chosen}
    for row, _ in weighted:
        if row.row_id not in kept:
            out.setdefault(row.row_id, LeftOut.BUDGET)
    return Selection(tuple((row.row_id, weight) for row, weight in chosen), out)


def _drop(rows: list[Candidate], out: dict[str, LeftOut], reason: LeftOut, bad: Any) -> list[Candidate]:
    for row in rows:
        if bad(row):
            out[row.row_id] = reason
    return [row for row in rows if not bad(row)]


def _without_contradictions(rows: list[Candidate], out: dict[str, LeftOut]) -> list[Candidate]:
    """Where answers about one item differ, the more reliable majority wins; a tie loses all of them."""
    by_item: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        by_item[(row.tenant, row.item)][row.answer] += row.reliability
    winner: dict[tuple[str, str], str | None] = {}
    for key, answers in by_item.items():
        ranked = sorted(answers.items(), key=lambda pair: (-pair[1], pair[0]))
        winner[key] = None if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]
    return _drop(rows, out, LeftOut.CONTRADICTED, lambda c: winner[(c.tenant, c.item)] != c.answer)


def _without_duplicates(rows: list[Candidate], out: dict[str, LeftOut], config: SelectionConfig) -> list[Candidate]:
    """An item once; of one shape a few."""
    items: set[tuple[str, str]] = set()
    shapes: Counter[str] = Counter()
    kept = []
    for row in rows:
        if (row.tenant, row.item) in items or shapes[row.shape] >= max(1, config.duplicates_kept):
            out[row.row_id] = LeftOut.DUPLICATE
            continue
        items.add((row.tenant, row.item))
        shapes[row.shape] += 1
        kept.append(row)
    return kept


def _weight(row: Candidate, config: SelectionConfig, hard: set[str]) -> float:
    weight = config.synthetic_weight if row.synthetic else config.real_weight
    weight *= config.hard_weight if hard & set(row.parts) else 1.0
    return weight * (config.long_weight if row.longest >= config.long_from else 1.0)


def _drawn(weighted: list[tuple[Candidate, float]], config: SelectionConfig) -> list[tuple[Candidate, float]]:
    """A random order in which heavier rows tend to come first (Efraimidis and Spirakis, 2006: keys u^(1/w))."""
    rng = Random(config.seed)
    keyed = [(rng.random() ** (1.0 / weight), row, weight) for row, weight in weighted if weight > 0.0]
    return [(row, weight) for _, row, weight in sorted(keyed, key=lambda k: (-k[0], k[1].row_id))]


def _within_budget(
    order: list[tuple[Candidate, float]], config: SelectionConfig, focus: set[str]
) -> list[tuple[Candidate, float]]:
    """Without a focus the first of the order; with one, its classes and a share of all others (replay)."""
    if not focus:
        return order[: config.budget]
    old = [pair for pair in order if pair[0].group not in focus][: round(config.budget * config.replay)]
    new = [pair for pair in order if pair[0].group in focus][: config.budget - len(old)]
    return [*new, *old]


def _capped(
    chosen: list[tuple[Candidate, float]], out: dict[str, LeftOut], config: SelectionConfig
) -> list[tuple[Candidate, float]]:
    """No tenant gives more than its share of the real rows (always at least one row). A sole tenant has nobody to poison."""
    real = [row for row, _ in chosen if not row.synthetic]
    tenants = {row.tenant for row in real}
    if len(tenants) < 2:
        return chosen
    counts = Counter(row.tenant for row in real)
    limit = _limit(list(counts.values()), config.tenant_cap)
    taken: Counter[str] = Counter()
    kept = []
    for row, weight in chosen:
        if not row.synthetic:
            if taken[row.tenant] >= limit:
                out[row.row_id] = LeftOut.CAP
                continue
            taken[row.tenant] += 1
        kept.append((row, weight))
    return kept


def _limit(counts: list[int], share: float) -> int:
    """The largest number of rows a tenant may give so that it has at most ``share`` of what all give then."""
    share = max(share, 1.0 / len(counts))
    for limit in range(max(counts), 0, -1):
        given = [min(count, limit) for count in counts]
        if max(given) <= share * sum(given) + 1e-9:
            return limit
    return 1
