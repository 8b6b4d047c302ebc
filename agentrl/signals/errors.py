"""What can be wrong with a signal, or with asking a judge for one.

SignalError                signal_invalid      a value out of range, NaN, a scope without its field, no time zone ...
JudgeError                 judge_failed        a judge gave no usable vote
├── JudgeTimeout           judge_timeout       no answer in time
├── JudgeUnavailable       judge_unavailable   no connection, or an error status
└── JudgeMalformed         judge_malformed     an answer that is not a vote
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class SignalError(CertloopError, ValueError):
    """A signal that must not be stored."""

    code = "signal_invalid"


class JudgeError(CertloopError, RuntimeError):
    """No usable vote came back from a judge."""

    code = "judge_failed"


class JudgeTimeout(JudgeError):
    code = "judge_timeout"


class JudgeUnavailable(JudgeError):
    code = "judge_unavailable"


class JudgeMalformed(JudgeError):
    code = "judge_malformed"
