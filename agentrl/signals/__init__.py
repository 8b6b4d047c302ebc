"""Signals: feedback of every kind in one schema, where it comes from, and the fold that makes rewards of it."""

from certloop.agentrl.signals.advantages import (
    NextMessageConfig,
    judged_mask,
    next_message_advantages,
    ppo_token_loss,
    topk_reverse_kl,
)
from certloop.agentrl.signals.emit import (
    Origin,
    SecondRead,
    business_signal,
    judge_signal,
    rejection_signal,
    review_signals,
    silent_approval_signal,
    upload_signal,
    validator_signals,
    where_to_look,
    withdrawal_signals,
)
from certloop.agentrl.signals.errors import JudgeError, JudgeMalformed, JudgeTimeout, JudgeUnavailable, SignalError
from certloop.agentrl.signals.fusion import Fused, FusionWeights, Override, Verdict, fuse, fuse_group, standing
from certloop.agentrl.signals.hints import HintVote, between_markers, choose_hint, field_named, with_hint, without_answer
from certloop.agentrl.signals.implicit import Feedback, classify_message, classify_tool_result, next_message_signals
from certloop.agentrl.signals.judge import JudgeConfig, LlmJudge
from certloop.agentrl.signals.reliability import AuditorRecord, records, reliability_of
from certloop.agentrl.signals.schema import SCHEMA, Reason, Scope, Signal, Source, from_json, to_json, validate

__all__ = [
    "SCHEMA", "AuditorRecord", "Feedback", "Fused", "FusionWeights", "HintVote", "JudgeConfig", "JudgeError", "JudgeMalformed",
    "JudgeTimeout", "JudgeUnavailable", "LlmJudge", "NextMessageConfig", "Origin", "Override", "Reason", "Scope", "SecondRead",
    "Signal", "SignalError", "Source", "Verdict", "between_markers", "business_signal", "choose_hint", "classify_message",
    "classify_tool_result", "field_named", "from_json", "fuse", "fuse_group", "judge_signal", "judged_mask",
    "next_message_advantages", "next_message_signals", "ppo_token_loss", "records", "rejection_signal", "reliability_of",
    "review_signals", "silent_approval_signal", "standing", "to_json", "topk_reverse_kl", "upload_signal", "validate",
    "validator_signals", "where_to_look", "with_hint", "withdrawal_signals", "without_answer",
]  # fmt: skip
