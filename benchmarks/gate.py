"""The gate over simulated candidates whose truth is known: how many good ones pass, how many bad ones slip through.

    python benchmarks/gate.py [--candidates 200] [--sizes 150:1000 300:2000 600:4000] [--seeds 5]

A document's score is 1 in most cases and lower in the rest; a candidate answers some documents differently. Its truth is the
mean change over the population, fixed before any document is drawn. Kinds: better on the target by 2, 3 or 4 points and nothing
lost; no change; target worse by half a point, one or two; better on the target, but one retained type worse by three points or
everything retained worse by one and a half. Printed: how often each kind is promoted, rejected or put off, at each sample size.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass

import numpy as np

from certloop.agentrl.release import Evidence, GateConfig, Pair, Verdict, judge

TYPES = {"licence": 0.45, "permit": 0.25, "account": 0.15, "card": 0.10, "letter": 0.05}


@dataclass(frozen=True)
class Kind:
    """True mean change of the target, of every retained type, and of one retained type on top."""

    name: str
    target: float
    retained: float = 0.0
    one_type: float = 0.0
    better: bool = False
    worse: bool = False


KINDS = (
    Kind("target +2", 0.02, better=True),
    Kind("target +3", 0.03, better=True),
    Kind("target +4", 0.04, better=True),
    Kind("no change", 0.0),
    Kind("target -0.5", -0.005, worse=True),
    Kind("target -1", -0.01, worse=True),
    Kind("target -2", -0.02, worse=True),
    Kind("target +4, one type -3", 0.04, one_type=-0.03, worse=True),
    Kind("target +4, all else -1.5", 0.04, retained=-0.015, worse=True),
)


def pairs(generator: np.random.Generator, group: str, n: int, change: float, churn: float) -> list[Pair]:
    """``n`` documents whose score changes by ``change`` in the mean; ``churn`` of them change at all, up or down."""
    before = np.where(generator.random(n) < 0.6, 1.0, generator.beta(8, 2, n))
    touched = generator.random(n) < churn
    size = generator.uniform(0.1, 0.3, n)  # mean 0.2
    up = generator.random(n) < 0.5 + change / (2 * churn * 0.2)
    middle = np.where(touched, np.clip(before, 0.3, 0.7), before)  # room for the step both ways, so that the truth holds
    after = np.where(touched, middle + np.where(up, size, -size), middle)
    return [Pair(f"{group}-{i}", group, float(middle[i]), float(after[i])) for i in range(n)]


def run(candidates: int, n_target: int, n_retained: int, seed: int) -> dict[str, Counter[str]]:
    generator = np.random.default_rng(seed)
    verdicts: dict[str, Counter[str]] = {kind.name: Counter() for kind in KINDS}
    for number in range(candidates):
        kind = KINDS[number % len(KINDS)]
        target = pairs(generator, "target", n_target, kind.target, 0.25)
        retained: list[Pair] = []
        for index, (group, share) in enumerate(TYPES.items()):
            change = kind.retained + (kind.one_type if index == 1 else 0.0)
            retained += pairs(generator, group, round(n_retained * share), change, 0.16 if change else 0.05)
        result = judge(Evidence(target, retained), GateConfig(draws=2000, seed=number))
        verdicts[kind.name][str(result.verdict)] += 1
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=200, help="candidates a seed and size")
    parser.add_argument("--sizes", nargs="+", default=["150:1000", "300:2000", "600:4000"], help="target:retained documents")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    for size in arguments.sizes:
        n_target, n_retained = map(int, size.split(":"))
        seeds = [run(arguments.candidates, n_target, n_retained, seed) for seed in range(arguments.seeds)]
        print(
            f"{n_target} target and {n_retained} retained documents, {arguments.candidates} candidates, {arguments.seeds} seeds"
        )
        for kind in KINDS:
            counted = sum((verdicts[kind.name] for verdicts in seeds), Counter[str]())
            print(f"  {kind.name:26s}", "  ".join(f"{v}: {counted[str(v)]}" for v in Verdict))
        better, worse = ([_promoted(verdicts, what) for verdicts in seeds] for what in ("better", "worse"))
        print(
            f"  better by two points or more, promoted: {min(better):.2f} to {max(better):.2f} over seeds (goal: at least 0.80)"
        )
        print(f"  worse, promoted: {min(worse):.2f} to {max(worse):.2f} over seeds (goal: at most 0.05)")
        print(json.dumps({"size": size, "better_promoted": better, "worse_promoted": worse}))


def _promoted(verdicts: dict[str, Counter[str]], what: str) -> float:
    kinds = [kind.name for kind in KINDS if getattr(kind, what)]
    return sum(verdicts[k][str(Verdict.PROMOTE)] for k in kinds) / sum(verdicts[k].total() for k in kinds)


if __name__ == "__main__":
    main()
