"""Memory: rules learned from corrections, each with evidence, checked, replayed, in use at once, removable.

memory.py      Memory: a tenant's overlay      lifecycle.py   trial, active, archived
refuse.py      what must not stand in a rule   snapshot.py    the rules of a release
schema.py      Item, and the table of events
"""

from certloop.agentrl.memory.errors import QuotaError, ReplayFailedError, RuleError, RuleRefusedError, UnknownRuleError
from certloop.agentrl.memory.lifecycle import LifecycleConfig, State, next_state, reliability
from certloop.agentrl.memory.memory import Memory, MemoryConfig
from certloop.agentrl.memory.refuse import check_against_values, check_keys, check_text
from certloop.agentrl.memory.schema import Item
from certloop.agentrl.memory.snapshot import read_snapshot, write_snapshot

__all__ = [
    "Item", "LifecycleConfig", "Memory", "MemoryConfig", "QuotaError", "ReplayFailedError", "RuleError", "RuleRefusedError",
    "State", "UnknownRuleError", "check_against_values", "check_keys", "check_text", "next_state", "read_snapshot",
    "reliability", "write_snapshot",
]  # fmt: skip
