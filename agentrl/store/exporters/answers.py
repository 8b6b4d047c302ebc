"""What the signals make of an answer: the approved truth, and one number."""

from __future__ import annotations

import json
from collections.abc import Sequence

from certloop.agentrl.signals.fusion import fuse, standing
from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source
from certloop.agentrl.trajectory import Trajectory


def approved_answer(trajectory: Trajectory, signals: Sequence[Signal]) -> str | None:
    """The answer as an auditor left it, as JSON text; None until the last word on the whole trajectory is an approval.

    An untouched answer comes back as it was written, byte for byte. Each edit's ``evidence["new"]`` replaces its field;
    None takes the field out, unless ``evidence["printed"]`` says that its label is on the form: then it is null. What was
    superseded or withdrawn does not count. Where nothing was answered, what the auditor wrote is all there is; an answer that is
    no JSON object cannot be edited field by field: None.
    """
    explicit = [s for s in standing(signals) if s.source is Source.AUDITOR] if signals else []
    whole = [s for s in explicit if s.scope is Scope.TRAJECTORY and s.reason in (Reason.APPROVAL, Reason.REJECTION)]
    if not whole or whole[-1].reason == Reason.REJECTION:
        return None
    edits = {s.field: s.evidence for s in explicit if s.reason == Reason.EDIT and s.field and "new" in s.evidence}
    if not edits:
        return trajectory.final_json
    try:
        answer = json.loads(trajectory.final_json or "{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict):
        return None
    for name, said in edits.items():
        if said["new"] is not None or said.get("printed"):
            answer[name] = said["new"]
        else:
            answer.pop(name, None)
    return json.dumps(answer, ensure_ascii=False)


def fused_reward(trajectory: Trajectory, signals: Sequence[Signal]) -> float | None:
    """The value that fusion gives the trajectory (METHODS §1.5), in [-1, 1]; None while nobody has spoken about it as a whole."""
    del trajectory
    return fuse(signals).trajectory.value if signals else None
