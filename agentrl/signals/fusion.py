"""Rewards as a fold over signals (METHODS §1.5). Folding is pure: order and repetition of the signals do not matter.

Who is believed: explicit (auditor) > confirmed hard validator failure (fields only) > implicit > judge. Business outcomes never
enter a reward. A validator's pass proves little and is no signal; its hard fail counts only when an independent second read of
the print, or an auditor, reads something else than the answer: the paper itself may be misprinted, and an answer that "repairs"
it must never come out above the verbatim one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from certloop.agentrl.signals.errors import SignalError
from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source, validate

PRIORITY: Mapping[Source, int] = {Source.AUDITOR: 4, Source.VALIDATOR: 3, Source.IMPLICIT: 2, Source.JUDGE: 1, Source.BUSINESS: 0}

Reliability = Callable[[str], float]
"""From an auditor to how often he is right, in (0, 1]. See ``reliability.py``."""


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """How implicit feedback and judges are mixed when nobody spoke explicitly."""

    implicit: float = 0.7
    judge: float = 0.3

    def __post_init__(self) -> None:
        both = (self.implicit, self.judge)
        if not (all(0.0 <= weight < math.inf for weight in both) and sum(both) > 0):  # NaN is neither
            raise SignalError("fusion weights must be finite, >= 0 and not both 0")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the signals on one target add up to. ``value`` is None when nothing that counts was said.

    ``flagged``: the document needs a person's eye (its print itself seems wrong). ``reason`` says which rule decided.
    """

    value: float | None = None
    confidence: float = 0.0
    source: Source | None = None
    reason: str = "no_signal"
    flagged: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """One line of the audit view: who decided, when, about what, and which signals that replaced (they stay stored)."""

    field: str | None
    signal_id: str
    actor: str
    at: str
    value: float
    replaced: tuple[Signal, ...]


@dataclass(frozen=True, slots=True)
class Fused:
    """The fold of all signals of one trajectory."""

    traj_id: str
    trajectory: Verdict
    fields: Mapping[str, Verdict]
    overrides: tuple[Override, ...] = ()
    hints: tuple[Signal, ...] = ()
    business: tuple[Signal, ...] = ()

    @property
    def flagged(self) -> tuple[str, ...]:
        return tuple(name for name, verdict in self.fields.items() if verdict.flagged)


@dataclass(slots=True)
class _Target:
    """The signals that still stand on one field, or on the trajectory."""

    active: list[Signal] = field(default_factory=list)

    def of(self, source: Source) -> list[Signal]:
        return [signal for signal in self.active if signal.source is source]


def fuse(
    signals: Iterable[Signal],
    *,
    weights: FusionWeights | None = None,
    reliability: Reliability = lambda _: 1.0,
    contested: frozenset[str] = frozenset(),
) -> Fused:
    """Fold the signals of one trajectory.

    ``contested`` fields take nothing from judges and implicit feedback (see :func:`fuse_group`). Signals of scope token or step
    are not folded: they are used where they point. Raises SignalError for an invalid signal or signals of several trajectories.
    """
    ordered = _ordered(signals)
    gone = _superseded(ordered)
    targets: dict[str | None, _Target] = {None: _Target()}
    for signal in ordered:
        if signal.scope in (Scope.FIELD, Scope.TRAJECTORY) and signal.source is not Source.BUSINESS:
            name = signal.field if signal.scope is Scope.FIELD else None
            target = targets.setdefault(name, _Target())
            if signal.signal_id not in gone and signal.reason != Reason.WITHDRAWN:
                target.active.append(signal)
    mixed = weights or FusionWeights()
    verdicts: dict[str | None, Verdict] = {}
    overrides = [_override(new, [old]) for old, new in gone.values()]
    for name, target in targets.items():
        if name is None:
            verdicts[name] = _trajectory(target, mixed, reliability)
        else:
            verdicts[name] = _field(target, mixed, reliability, name in contested)
        overrides += _silenced(target, verdicts[name])
    fields = {name: verdicts[name] for name in sorted(n for n in targets if n is not None)}
    return Fused(
        traj_id=ordered[0].traj_id,
        trajectory=verdicts[None],
        fields=fields,
        overrides=tuple(sorted(overrides, key=lambda o: (datetime.fromisoformat(o.at), o.signal_id))),
        hints=tuple(s for s in ordered if s.hint and s.signal_id not in gone and _still_wrong(s, fields, verdicts[None])),
        business=tuple(s for s in _standing(ordered, gone) if s.source is Source.BUSINESS),
    )


def standing(signals: Iterable[Signal]) -> list[Signal]:
    """The signals of one trajectory that still stand, by time: neither replaced nor taken back. Raises as fuse does."""
    ordered = _ordered(signals)
    return _standing(ordered, _superseded(ordered))


def fuse_group(
    groups: Sequence[Sequence[Signal]], *, weights: FusionWeights | None = None, reliability: Reliability = lambda _: 1.0
) -> list[Fused]:
    """Fold the answers of one group (same input). A field on which any answer fails a hard rule is contested for all of them:
    a judge who likes the valid code must not lift a repaired answer above the verbatim one."""
    contested = frozenset(
        signal.field
        for signals in groups
        for signal in signals
        if signal.field and signal.source is Source.VALIDATOR and signal.reason == Reason.HARD_FAIL
    )
    return [fuse(signals, weights=weights, reliability=reliability, contested=contested) for signals in groups]


def _standing(ordered: Sequence[Signal], gone: Collection[str]) -> list[Signal]:
    return [signal for signal in ordered if signal.signal_id not in gone and signal.reason != Reason.WITHDRAWN]


def _ordered(signals: Iterable[Signal]) -> list[Signal]:
    """Each signal once, by time: what arrives late or twice folds to the same."""
    by_id = {signal.signal_id: validate(signal) for signal in signals}
    ordered = sorted(by_id.values(), key=lambda s: (s.instant, s.signal_id))
    if not ordered or len({signal.traj_id for signal in ordered}) != 1:
        raise SignalError("a fold needs the signals of exactly one trajectory")
    return ordered


def _superseded(ordered: Sequence[Signal]) -> dict[str, tuple[Signal, Signal]]:
    """By id, what a signal of equal or higher priority replaced, and that signal; a judge cannot replace what an auditor said.

    What was taken back replaces nothing: it is as if it had never been said.
    """
    by_id = {signal.signal_id: signal for signal in ordered}
    replacing: dict[str, list[Signal]] = defaultdict(list)
    for new in ordered:
        old = by_id.get(new.supersedes) if new.supersedes is not None else None
        if old is not None and PRIORITY[new.source] >= PRIORITY[old.source]:
            replacing[old.signal_id].append(new)
    taken_back: set[str] = set()
    for signal_id in reversed(_originals_first(ordered, replacing)):  # whoever speaks about a signal is settled before it
        if any(new.reason == Reason.WITHDRAWN and new.signal_id not in taken_back for new in replacing[signal_id]):
            taken_back.add(signal_id)
    out = {}
    for signal_id, news in replacing.items():
        if standing := [new for new in news if new.signal_id not in taken_back]:
            out[signal_id] = (by_id[signal_id], standing[-1])
    return out


def _originals_first(ordered: Sequence[Signal], replacing: Mapping[str, Sequence[Signal]]) -> list[str]:
    """Ids so that a signal comes after the one it replaces (ids are hashes of what they name: there are no circles)."""
    answers = {new.signal_id for news in replacing.values() for new in news}
    out = [signal.signal_id for signal in ordered if signal.signal_id not in answers]
    for signal_id in out:  # grows as it goes
        out += [new.signal_id for new in replacing.get(signal_id, ())]
    return out


def _still_wrong(hint: Signal, fields: Mapping[str, Verdict], whole: Verdict) -> bool:
    """Whether what the hint is about was judged wrong in the end; hints on tokens and steps always stand."""
    if hint.scope in (Scope.TOKEN, Scope.STEP):
        return True
    verdict = fields.get(hint.field, Verdict()) if hint.scope is Scope.FIELD and hint.field else whole
    return verdict.value is not None and verdict.value < 0


def _trajectory(target: _Target, weights: FusionWeights, reliability: Reliability) -> Verdict:
    if explicit := target.of(Source.AUDITOR):
        return _explicit(explicit, reliability)
    return _soft(target, weights)


def _field(target: _Target, weights: FusionWeights, reliability: Reliability, contested: bool) -> Verdict:
    if explicit := target.of(Source.AUDITOR):
        return _explicit(explicit, reliability)
    checks = target.of(Source.VALIDATOR)
    failed = [s for s in checks if s.reason == Reason.HARD_FAIL]
    reads = {(s.actor, s.reason): s for s in checks}.values()  # who looks twice and sees the same has seen it once
    differs = sum(s.confidence for s in reads if s.reason == Reason.SECOND_READ_DIFFERS)
    agrees = sum(s.confidence for s in reads if s.reason == Reason.SECOND_READ_AGREES)
    if failed and differs > agrees:
        confidence = max(s.confidence for s in failed) * min(1.0, differs - agrees)
        return Verdict(-1.0, confidence, Source.VALIDATOR, "confirmed_hard_fail")
    if failed and agrees > 0:
        return Verdict(0.0, 1.0, Source.VALIDATOR, "print_is_wrong", flagged=True)
    if contested:
        return Verdict(None, 0.0, None, "contested", flagged=bool(failed))
    soft = _soft(target, weights)
    if differs > agrees and (soft.value is None or soft.value > 0):
        return Verdict(0.0, soft.confidence, Source.VALIDATOR, "second_read_differs")  # nobody's liking outweighs the print
    return soft


def _explicit(signals: Sequence[Signal], reliability: Reliability) -> Verdict:
    """Each auditor's last word; several auditors are averaged by reliability, which also becomes the confidence."""
    last = {signal.actor: signal for signal in signals}
    weight = {actor: _checked_reliability(reliability(actor)) for actor in last}
    total = sum(weight.values())
    value = next(iter(last.values())).value if len(last) == 1 else sum(weight[a] * s.value for a, s in last.items()) / total
    confidence = sum(weight[a] * weight[a] * s.confidence for a, s in last.items()) / total
    latest = signals[-1]
    return Verdict(
        value, confidence, Source.AUDITOR, latest.reason, flagged=any(s.reason == Reason.PRINT_IS_WRONG for s in last.values())
    )


def _soft(target: _Target, weights: FusionWeights) -> Verdict:
    """``(w_i c_i r_i + w_j r_j) / (w_i c_i + w_j)`` of the last implicit signal and the judges' confidence-weighted mean.

    An implicit signal that says nothing (0: a question, another document) takes back nothing that was said before it.
    """
    said = [s for s in target.of(Source.IMPLICIT) if s.confidence > 0]
    implicit = ([s for s in said if s.value != 0] or said)[-1:]
    judged = list({signal.actor: signal for signal in target.of(Source.JUDGE) if signal.confidence > 0}.values())
    judge_value = sum(s.confidence * s.value for s in judged) / sum(s.confidence for s in judged) if judged else 0.0
    implicit_weight = weights.implicit * implicit[0].confidence if implicit else 0.0
    judge_weight = weights.judge if judged else 0.0
    total = implicit_weight + judge_weight
    if total == 0.0:
        return Verdict()
    value = ((implicit_weight * implicit[0].value if implicit else 0.0) + judge_weight * judge_value) / total
    sure = [s.confidence for s in (*implicit, *judged)]
    source = Source.IMPLICIT if implicit_weight > 0 else Source.JUDGE
    return Verdict(
        min(1.0, max(-1.0, value)), sum(sure) / len(sure), source, "mixed" if implicit_weight and judge_weight else str(source)
    )


def _silenced(target: _Target, verdict: Verdict) -> list[Override]:
    """What the deciding source silenced: weaker sources, and an auditor's earlier words."""
    deciding = [s for s in target.active if s.source is verdict.source]
    if verdict.source not in (Source.AUDITOR, Source.VALIDATOR) or not deciding:
        return []
    silenced = [s for s in target.active if PRIORITY[s.source] < PRIORITY[verdict.source]]
    if verdict.source is Source.AUDITOR:
        last = {s.actor: s for s in deciding}
        silenced += [s for s in deciding if s is not last[s.actor]]
    return [_override(deciding[-1], silenced)] if silenced else []


def _override(by: Signal, replaced: Sequence[Signal]) -> Override:
    return Override(by.field, by.signal_id, by.actor, by.at, by.value, tuple(replaced))


def _checked_reliability(value: float) -> float:
    if not 0.0 < value <= 1.0:
        raise SignalError(f"the reliability of an auditor must lie in (0, 1], got {value!r}")
    return value
