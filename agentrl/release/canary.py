"""A canary's stages: 5 %, 25 %, everything; when it may go on, and when it goes back. METHODS §1.6, §1.7.

Which documents a candidate gets is decided by a hash of tenant and document, so the same document always meets the same release
and those of the 5 % stay among the 25 %."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from certloop.agentrl.release.errors import ReleaseError
from certloop.agentrl.release.guards import DEFAULT as GUARDS
from certloop.agentrl.release.guards import ArmWindow, Finding, GuardConfig, check
from certloop.agentrl.release.statistics import sequential_verdict

WEEK_S = 7 * 86400.0


def position(tenant: str, document: str) -> float:
    """Where a document stands in [0, 1): a candidate with share s gets those below s."""
    name = f"{len(tenant)}:{tenant}:{document}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") / 2**64


class CanaryAction(StrEnum):
    CONTINUE = "continue"
    ADVANCE = "advance"
    PROMOTE = "promote"
    ROLL_BACK = "roll_back"
    ASK = "ask_a_person"


@dataclass(frozen=True, slots=True)
class CanaryPolicy:
    """Shares of the stages, and what each asks for before the next: the age (business outcomes come late) and the documents that
    the candidate answered.

    Below ``low_traffic_per_week`` documents a week the stages would take months. There the candidate gets ``low_traffic_share``
    at once, both releases read every document (shadow replay), and a sequential test on the documents that only one of them got
    right decides; after ``max_age_s`` without an answer a person does."""

    shares: tuple[float, ...] = (0.05, 0.25, 1.0)
    min_age_s: float = 86400.0
    min_documents: int = 200
    low_traffic_per_week: float = 500.0
    low_traffic_share: float = 0.5
    low_traffic_effect: float = 0.65
    max_age_s: float = 4 * WEEK_S
    guards: GuardConfig = GUARDS

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.shares, self.shares[1:], strict=False))
        if not self.shares or not rising or self.shares[0] <= 0.0 or self.shares[-1] != 1.0:
            raise ReleaseError("a canary's shares rise and end at 1")
        if not 0.0 < self.low_traffic_share <= 1.0:
            raise ReleaseError("the share at low traffic lies between 0 and 1")

    def first_share(self, documents_per_week: float) -> float:
        return self.low_traffic_share if self.is_low(documents_per_week) else self.shares[0]

    def is_low(self, documents_per_week: float) -> bool:
        return documents_per_week < self.low_traffic_per_week


DEFAULT = CanaryPolicy()


@dataclass(frozen=True, slots=True)
class CanaryState:
    """Where a canary stands: its share, since when, and what both arms did since. ``better`` and ``worse`` count the documents
    that only the candidate or only the baseline got right when both read them."""

    share: float
    since: datetime
    new: ArmWindow
    old: ArmWindow
    documents_per_week: float
    better: int = 0
    worse: int = 0


@dataclass(frozen=True, slots=True)
class CanaryDecision:
    """What to do now, the share after it, and why."""

    action: CanaryAction
    share: float
    reasons: tuple[str, ...]
    findings: Sequence[Finding] = field(default=())


def decide(state: CanaryState, now: datetime, policy: CanaryPolicy = DEFAULT) -> CanaryDecision:
    """The next step of a canary. A clock that went back counts as no age at all: it never promotes anything."""
    findings = check(state.new, state.old, policy.guards)
    if findings:
        return CanaryDecision(CanaryAction.ROLL_BACK, 0.0, tuple(f"{f.alarm}: {f.reason}" for f in findings), findings)
    age_s = max(0.0, (now - state.since).total_seconds())
    if policy.is_low(state.documents_per_week):
        return _at_low_traffic(state, age_s, policy)
    waiting = []
    if age_s < policy.min_age_s:
        waiting.append(f"{age_s / 3600:.1f} of {policy.min_age_s / 3600:.1f} hours old")
    if state.new.documents < policy.min_documents:
        waiting.append(f"{state.new.documents} of {policy.min_documents} documents")
    if state.new.decided < min(policy.min_documents, policy.guards.min_decided):
        waiting.append(
            f"auditors decided {state.new.decided} of {min(policy.min_documents, policy.guards.min_decided)} documents"
        )
    if waiting:
        return CanaryDecision(CanaryAction.CONTINUE, state.share, tuple(waiting))
    later = [share for share in policy.shares if share > state.share]
    if len(later) <= 1:
        return CanaryDecision(CanaryAction.PROMOTE, 1.0, ("every stage passed without an alarm",))
    return CanaryDecision(CanaryAction.ADVANCE, later[0], (f"no alarm at {state.share:.0%}",))


def _at_low_traffic(state: CanaryState, age_s: float, policy: CanaryPolicy) -> CanaryDecision:
    counted = f"{state.better} documents only the candidate got right, {state.worse} only the baseline"
    match sequential_verdict(state.better, state.worse, effect=policy.low_traffic_effect):
        case "worse":
            return CanaryDecision(CanaryAction.ROLL_BACK, 0.0, (f"shadow replay: {counted}",))
        case "better" | "same" if age_s >= policy.min_age_s:
            return CanaryDecision(CanaryAction.PROMOTE, 1.0, (f"shadow replay: {counted}",))
        case _ if age_s >= policy.max_age_s:
            return CanaryDecision(CanaryAction.ASK, state.share, (f"no answer after {age_s / 86400:.0f} days: {counted}",))
        case _:
            return CanaryDecision(CanaryAction.CONTINUE, state.share, (f"shadow replay goes on: {counted}",))
