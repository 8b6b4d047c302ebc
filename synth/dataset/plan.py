"""Which sample is what: type, split, layout, profile and seed of every index, computed without looking at any other index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from certloop.synth.config import MakeConfig
from certloop.synth.errors import DatasetError, LayoutError
from certloop.synth.fields.domain import Domain
from certloop.synth.layout import load_layouts
from certloop.synth.layout.drift import SEPARATOR
from certloop.synth.seeds import stream_seed, values_rng

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Assignment:
    index: int
    type_id: str
    split: str
    layouts: tuple[str, ...]
    profile: str
    seed: int
    domain: Domain


@dataclass(frozen=True, slots=True)
class Plan:
    """The split of layouts and values that holds for a whole dataset."""

    config: MakeConfig
    pools: Mapping[tuple[str, str], tuple[str, ...]]
    domains: Mapping[str, Domain]

    def assign(self, index: int) -> Assignment:
        config = self.config
        rng = values_rng(config.seed, "plan", index)
        type_id = config.types[index % len(config.types)]
        turn = index // len(config.types)
        split = _by_weight(config.splits, ((turn + 0.5) * _GOLDEN + (index % len(config.types)) * 0.37) % 1.0)
        profile = rng.choices([p for p, _ in config.profiles], [w for _, w in config.profiles])[0]
        seed = stream_seed(config.seed, "sample", index)
        return Assignment(index, type_id, split, self.pools[type_id, split], profile, seed, self.domains[split])


def make_plan(config: MakeConfig) -> Plan:
    """Divide layouts and values among the splits. Raises DatasetError for weights that make no sense, UnknownTypeError,
    LayoutError."""
    weights = [(name, weight) for name, weight in config.splits if weight > 0]
    if not weights or config.count < 1 or any(w < 0 for _, w in (*config.splits, *config.profiles)) or not config.types:
        raise DatasetError("a dataset needs a count, a type, and splits and profiles with positive weights")
    _check_layouts(config)
    pools = {}
    for type_id in config.types:
        for split, ids in _pools(config, type_id, [name for name, _ in weights]).items():
            pools[type_id, split] = ids
    total, low, domains = sum(w for _, w in weights), 0.0, {}
    for name, weight in weights:
        domains[name] = Domain(low, low + weight / total if name != weights[-1][0] else 1.0)
        low = domains[name].high
    return Plan(config, pools, domains)


def _check_layouts(config: MakeConfig) -> None:
    """Raises LayoutError for a name in ``config.layouts`` that no type has."""
    known = {t: [layout.id for layout in load_layouts(t, config.search_path)] for t in config.types}
    names = {name for type_id, ids in known.items() for i in ids for name in (i, f"{type_id}/{i}")}
    if unknown := [name for name in config.layouts if name not in names]:
        listed = "; ".join(f"{type_id}: {', '.join(ids)}" for type_id, ids in known.items())
        raise LayoutError(f"no layout {', '.join(map(repr, unknown))}; known are {listed}")


def _pools(config: MakeConfig, type_id: str, splits: list[str]) -> dict[str, tuple[str, ...]]:
    """Layout ids by split, disjoint: a form of its own for each smaller split where the type has enough forms, else editions of
    drift."""
    ids = [layout.id for layout in load_layouts(type_id, config.search_path)]
    if config.layouts:
        ids = [i for i in ids if i in config.layouts or f"{type_id}/{i}" in config.layouts] or ids
    values_rng(config.seed, "pools", type_id).shuffle(ids)
    out: dict[str, list[str]] = {}
    smaller = splits[1:]
    if len(ids) >= len(splits) + 1:
        for name in smaller:
            out[name] = [ids.pop()]
    else:
        for number, name in enumerate(smaller):
            out[name] = [f"{i}{SEPARATOR}{900 + number}" for i in ids]
    out[splits[0]] = ids
    for name, base in list(out.items()):
        offset = 1000 * (1 + splits.index(name))
        plain = [i for i in base if SEPARATOR not in i]
        out[name] = base + [f"{i}{SEPARATOR}{offset + n}" for i in plain for n in range(config.drift)]
    return {name: tuple(sorted(values)) for name, values in out.items()}


def _by_weight(weights: tuple[tuple[str, float], ...], place: float) -> str:
    total, low = sum(w for _, w in weights if w > 0), 0.0
    for name, weight in weights:
        low += max(0.0, weight) / total
        if place < low and weight > 0:
            return name
    return next(name for name, weight in reversed(weights) if weight > 0)
