"""What can go wrong in the loop.

LoopError               loop_invalid    a plan or a selection that makes no sense, or no such run
├── RunBusyError        run_busy        a run of this kind is under way in this scope
├── NotReadyError       not_ready       something outside (a training job) is not finished; asked again later
└── StepTimeout         step_timeout    a step that took longer than its plan allows
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class LoopError(CertloopError, ValueError):
    """Base of the loop's errors."""

    code = "loop_invalid"


class RunBusyError(LoopError):
    code = "run_busy"


class NotReadyError(LoopError):
    """Not a failure: the step is asked again after ``after_s`` seconds."""

    code = "not_ready"

    def __init__(self, message: str, after_s: float = 60.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class StepTimeout(LoopError):
    code = "step_timeout"
