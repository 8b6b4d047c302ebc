"""Signals: feedback of every kind in one schema."""

from certloop.agentrl.signals.errors import JudgeError, JudgeMalformed, JudgeTimeout, JudgeUnavailable, SignalError
from certloop.agentrl.signals.schema import SCHEMA, Reason, Scope, Signal, Source, from_json, to_json, validate

__all__ = [
    "SCHEMA", "JudgeError", "JudgeMalformed", "JudgeTimeout", "JudgeUnavailable", "Reason", "Scope", "Signal", "SignalError",
    "Source", "from_json", "to_json", "validate",
]  # fmt: skip
