"""What can go wrong with memory. Messages never hold what an item says.

RuleError                memory_invalid     an item that is not well formed
├── UnknownRuleError     rule_unknown       no such item in this tenant
├── RuleRefusedError     rule_refused       a value or an instruction where a rule is wanted
├── ReplayFailedError    replay_failed      a rule that does not help, or breaks what works
└── QuotaError           memory_full        too many items of a tenant, of one key or of one author
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class RuleError(CertloopError, ValueError):
    """Base of the memory's errors."""

    code = "memory_invalid"


class UnknownRuleError(RuleError, LookupError):
    code = "rule_unknown"


class RuleRefusedError(RuleError):
    code = "rule_refused"


class ReplayFailedError(RuleError):
    code = "replay_failed"


class QuotaError(RuleError):
    code = "memory_full"
