"""The loop: when to learn, what from, and runs that survive whatever happens to the processes that do it.

triggers.py    is a run due, and why          runs.py      durable runs, step by step
selection.py   what to train on, as data      errors.py    what can go wrong
"""

from certloop.agentrl.loop.errors import LoopError, NotReadyError, RunBusyError, StepTimeout
from certloop.agentrl.loop.runs import Plan, Run, Runs, RunState, Stop
from certloop.agentrl.loop.selection import Candidate, LeftOut, Selection, SelectionConfig, choose
from certloop.agentrl.loop.triggers import Learned, Trigger, TriggerConfig, look

__all__ = [
    "Candidate", "Learned", "LeftOut", "LoopError", "NotReadyError", "Plan", "Run", "RunBusyError", "RunState", "Runs",
    "Selection", "SelectionConfig", "StepTimeout", "Stop", "Trigger", "TriggerConfig", "choose", "look",
]  # fmt: skip
