"""Reward templates: tasks that can be scored and proven without a model. ``validate(template)`` is their conformance test."""

from certloop.agentrl.rewards.templates.base import RewardTemplate, Score, register, template_kind, template_kinds, validate
from certloop.agentrl.rewards.templates.code import Case, CodeTask
from certloop.agentrl.rewards.templates.extraction import FieldExtraction
from certloop.agentrl.rewards.templates.sandbox import CallResult, SandboxLimits, SandboxUnavailable, call_function
from certloop.agentrl.rewards.templates.service import ServiceTask, service_reward

__all__ = [
    "CallResult", "Case", "CodeTask", "FieldExtraction", "RewardTemplate", "SandboxLimits", "SandboxUnavailable", "Score",
    "ServiceTask", "call_function", "register", "service_reward", "template_kind", "template_kinds", "validate",
]  # fmt: skip
