"""The few tests that decisions about releases rest on. Everything is one-sided and says in which direction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from certloop.agentrl.release.errors import GateError


def normal_tail(z: float) -> float:
    """P(Z <= z) of a standard normal."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def two_proportions(successes_new: int, n_new: int, successes_old: int, n_old: int) -> tuple[float, float]:
    """Pooled two-proportion z test that the new rate is lower than the old one; returns (z, one-sided p).

    Without observations, or where both rates are 0 or 1, nothing speaks against the new one: (0, 0.5).
    """
    for successes, n in ((successes_new, n_new), (successes_old, n_old)):
        if not 0 <= successes <= n:
            raise GateError(f"{successes} successes among {n} trials make no proportion")
    if n_new == 0 or n_old == 0:
        return 0.0, 0.5
    pooled = (successes_new + successes_old) / (n_new + n_old)
    spread = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_new + 1.0 / n_old))
    if spread == 0.0:
        return 0.0, 0.5
    z = (successes_new / n_new - successes_old / n_old) / spread
    return z, normal_tail(z)


def holm(p_values: Mapping[str, float], alpha: float) -> tuple[str, ...]:
    """The names whose hypotheses Holm's step-down procedure rejects at family-wise level ``alpha``, smallest p first.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    ordered = sorted(p_values.items(), key=lambda item: (item[1], item[0]))
    rejected: list[str] = []
    for rank, (name, p) in enumerate(ordered):
        if p > alpha / (len(ordered) - rank):
            break
        rejected.append(name)
    return tuple(rejected)


def jensen_shannon(counts_a: Mapping[str, int], counts_b: Mapping[str, int]) -> float:
    """Jensen-Shannon divergence of two histograms in bits: 0 the same, 1 disjoint. An empty histogram differs from nothing: 0."""
    total_a, total_b = sum(counts_a.values()), sum(counts_b.values())
    if total_a == 0 or total_b == 0:
        return 0.0
    divergence = 0.0
    for name in set(counts_a) | set(counts_b):
        p, q = counts_a.get(name, 0) / total_a, counts_b.get(name, 0) / total_b
        middle = (p + q) / 2.0
        divergence += sum(0.5 * share * math.log2(share / middle) for share in (p, q) if share > 0.0)
    return max(0.0, divergence)


def divergence_p(
    counts_a: Mapping[str, int], counts_b: Mapping[str, int], *, draws: int = 500, seed: int = 0
) -> tuple[float, float]:
    """(divergence, p): how often two samples of these sizes from the pooled histogram differ at least as much by chance.

    A plain threshold on the divergence would alarm on small samples, which always differ.
    """
    names = sorted(set(counts_a) | set(counts_b))
    n_a, n_b = sum(counts_a.values()), sum(counts_b.values())
    observed = jensen_shannon(counts_a, counts_b)
    if n_a == 0 or n_b == 0 or len(names) < 2:
        return observed, 1.0
    pooled = np.array([counts_a.get(name, 0) + counts_b.get(name, 0) for name in names], dtype=np.float64)
    generator = np.random.default_rng(seed)
    left_DK = generator.multinomial(n_a, pooled / pooled.sum(), size=draws) / n_a
    right_DK = generator.multinomial(n_b, pooled / pooled.sum(), size=draws) / n_b
    drawn_D = _divergences(left_DK, right_DK)
    return observed, float((1 + np.count_nonzero(drawn_D >= observed)) / (draws + 1))


def _divergences(left_DK: NDArray[np.float64], right_DK: NDArray[np.float64]) -> NDArray[np.float64]:
    middle_DK = (left_DK + right_DK) / 2.0
    total_D = np.zeros(len(left_DK))
    for side_DK in (left_DK, right_DK):
        ratio_DK = np.divide(side_DK, middle_DK, out=np.ones_like(side_DK), where=side_DK > 0)
        total_D += 0.5 * (side_DK * np.log2(ratio_DK)).sum(axis=1)
    return total_D


def rising_p(values: Sequence[float]) -> float:
    """One-sided p of Kendall's test that a series rises (Mann-Kendall trend test); 1 for fewer than four values."""
    if len(values) < 4:
        return 1.0
    from scipy.stats import kendalltau

    tau = kendalltau(range(len(values)), values, alternative="greater")
    return 1.0 if math.isnan(tau.pvalue) else float(tau.pvalue)


def bootstrap_means(groups: Sequence[NDArray[np.float64]], *, draws: int, seed: int) -> NDArray[np.float64]:
    """Resampled means of each group, ``[draws, groups]``: each group is drawn by itself (stratified), with replacement.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993. The items are pairs already (candidate minus baseline).
    """
    generator = np.random.default_rng(seed)
    out_DG = np.empty((draws, len(groups)))
    for index, values in enumerate(groups):
        if len(values) == 0:
            raise GateError("a group without items has no mean")
        distinct, counts = np.unique(values, return_counts=True)
        # Most pairs are ties: drawing how often each distinct value comes up is the same thing, and much faster.
        drawn_DK = generator.multinomial(len(values), counts / len(values), size=draws)
        out_DG[:, index] = drawn_DK @ distinct / len(values)
    return out_DG


def sign_test_p(wins: int, losses: int) -> float:
    """One-sided p that wins and losses are equally likely, ties left out."""
    n = wins + losses
    return sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n if n else 1.0


def sequential_verdict(better: int, worse: int, *, effect: float = 0.65, alpha: float = 0.05, beta: float = 0.2) -> str:
    """Wald's sequential test on discordant pairs, to be looked at after every pair: ``better``, ``worse`` or ``go_on``.

    Both releases answered the same documents; ``better`` and ``worse`` count those that only one of them got right. Two tests run
    side by side, each of p = 1/2 against p = ``effect`` in its direction. Source: A. Wald, Sequential Analysis, 1947.
    """
    if not 0.5 < effect < 1.0:
        raise GateError("the effect of a sequential test lies between 0.5 and 1")
    gain, loss = math.log(effect / 0.5), math.log((1.0 - effect) / 0.5)
    upper, lower = math.log((1.0 - beta) / alpha), math.log(beta / (1.0 - alpha))
    up, down = better * gain + worse * loss, worse * gain + better * loss
    if down >= upper:
        return "worse"
    if up >= upper:
        return "better"
    if up <= lower and down <= lower:
        return "same"
    return "go_on"
