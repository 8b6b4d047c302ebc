"""A candidate on trial: its first share, the guards, and the end of it. The same for rules, calibrations and trained weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from certloop.agentrl.loop import NotReadyError
from certloop.agentrl.release import CanaryAction, CanaryPolicy, CanaryState, Pointer, Registry, decide

ACTOR = "serve:loop"
ASK_AGAIN_S = 3600.0


@dataclass(frozen=True, slots=True)
class Trial:
    """``forget`` is told of every move, so that routers look again at once."""

    registry: Registry
    policy: CanaryPolicy
    clock: Callable[[], datetime]
    forget: Callable[[], None] = lambda: None

    def stage(self, scope: str, name: str, per_week: float, reason: str) -> Pointer:
        """The first share. Repeated after a kill it finds itself on trial already."""
        pointer = self.registry.pointer(scope)
        if name in (pointer.candidate, pointer.active):
            return pointer
        pointer = self.registry.stage(name, self.policy.first_share(per_week), actor=ACTOR, reason=reason, scope=scope)
        self.forget()
        return pointer

    def watch(self, scope: str, name: str, state: Callable[[Pointer], CanaryState]) -> tuple[bool, str]:
        """One look: (does it serve everybody, why); ``state`` is asked only while it is on trial.

        Raises NotReadyError while the trial goes on.
        """
        pointer = self.registry.pointer(scope)
        if pointer.active == name:
            return True, "it serves everybody"
        if pointer.candidate != name:
            return False, f"{name} was taken back by hand"
        decision = decide(state(pointer), self.clock(), self.policy)
        why = "; ".join(decision.reasons)
        if decision.action is CanaryAction.PROMOTE:
            self.registry.promote(actor=ACTOR, reason=why, scope=scope)
        elif decision.action is CanaryAction.ROLL_BACK:
            self.registry.roll_back(actor=ACTOR, reason=why, scope=scope)
        elif decision.action is CanaryAction.ADVANCE:
            self.registry.widen(decision.share, actor=ACTOR, reason=why, scope=scope)
        if decision.action is not CanaryAction.CONTINUE:
            self.forget()
        if decision.action in (CanaryAction.PROMOTE, CanaryAction.ROLL_BACK):
            return decision.action is CanaryAction.PROMOTE, why
        raise NotReadyError(why, ASK_AGAIN_S)

    def since(self, scope: str) -> datetime:
        """When the share of the candidate was last changed."""
        moves = self.registry.history(scope)
        return datetime.fromisoformat(next(row.at for row in reversed(moves) if str(row.move) in ("staged", "widened")))
