"""From next-message feedback to token advantages and a PPO loss (METHODS §5, OpenClaw-RL), on the tokens as they were sampled.

The teacher is the same model with the hint in its prompt; its log-probabilities of the *same* response tokens are compared with
the stored ones. Plain Python on one sample: the reference that a tensor implementation is tested against.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from certloop.agentrl.signals.errors import SignalError
from certloop.agentrl.trajectory import Role, Segment


@dataclass(frozen=True, slots=True)
class NextMessageConfig:
    """The published settings. ``kl_coef`` is 0.02 with binary rewards and 0.0 when reward and hint are combined."""

    w_rl: float = 1.0
    w_opd: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    kl_coef: float = 0.02
    learning_rate: float = 1e-5
    batch_size: int = 16
    samples_per_prompt: int = 1
    temperature: float = 0.6
    adam_betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.1
    top_k: int = 50


def next_message_advantages(
    old_logprobs_T: Sequence[float | None],
    mask_T: Sequence[int],
    *,
    reward: float = 0.0,
    teacher_logprobs_T: Sequence[float | None] | None = None,
    reward_span: tuple[int, int] | None = None,
    config: NextMessageConfig | None = None,
) -> list[float]:
    """Return ``A_t = w_rl * r + w_opd * (log teacher - log old)`` where the mask is 1, and 0 elsewhere. Nothing is normalised.

    ``reward_span`` limits the reward to the tokens of one field (a validator's message speaks of no other). Without teacher the
    second term is 0. Raises SignalError for other lengths and for numbers that are missing or not finite where the mask is 1.
    """
    weights = config or NextMessageConfig()
    teacher = old_logprobs_T if teacher_logprobs_T is None else teacher_logprobs_T
    if not len(old_logprobs_T) == len(mask_T) == len(teacher):
        raise SignalError(f"{len(old_logprobs_T)} old and {len(teacher)} teacher log-probabilities for a mask of {len(mask_T)}")
    if not _is_finite(reward):
        raise SignalError("the reward must be finite")
    start, end = reward_span or (0, len(mask_T))
    advantages = []
    for t, (old, new, bit) in enumerate(zip(old_logprobs_T, teacher, mask_T, strict=True)):
        if not bit:
            advantages.append(0.0)
            continue
        if not (_is_finite(old) and _is_finite(new)):
            raise SignalError(f"token {t} is trained but has no finite log-probability")
        assert old is not None and new is not None
        advantages.append(weights.w_rl * reward * (start <= t < end) + weights.w_opd * (new - old))
    return advantages


def _is_finite(number: float | None) -> bool:
    return isinstance(number, (int, float)) and abs(number) <= sys.float_info.max


def ppo_token_loss(ratio: float, advantage: float, config: NextMessageConfig | None = None) -> float:
    """Return ``-min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)`` of one token."""
    bounds = config or NextMessageConfig()
    clipped = min(max(ratio, 1.0 - bounds.clip_low), 1.0 + bounds.clip_high)
    return -min(ratio * advantage, clipped * advantage)


def judged_mask(mask_T: Sequence[int], segments: Sequence[Segment], judged_turns: Collection[int]) -> tuple[int, ...]:
    """Return the mask without the assistant's turns that no next state answered, unless the only turn is such a one.

    ``judged_turns`` number the assistant's turns from 0. Raises SignalError for a mask of another length than the segments.
    """
    if len(mask_T) != (segments[-1].end if segments else 0):
        raise SignalError(f"a mask of {len(mask_T)} for segments of {segments[-1].end if segments else 0} tokens")
    turns = [segment for segment in segments if segment.role is Role.ASSISTANT]
    if len(turns) == 1:
        return tuple(mask_T)
    out = list(mask_T)
    for number, turn in enumerate(turns):
        if number not in judged_turns:
            out[turn.start : turn.end] = [0] * (turn.end - turn.start)
    return tuple(out)


def topk_reverse_kl(student_logprobs_K: Sequence[float], teacher_logprobs_K: Sequence[float]) -> float:
    """Return the reverse KL over the student's K likeliest tokens and one bin for all others, ``log(1 - sum p)``.

    Raises SignalError when the lengths differ or a side's probabilities add up to more than 1.
    """
    if len(student_logprobs_K) != len(teacher_logprobs_K):
        raise SignalError("student and teacher need the same K tokens")
    student, teacher = _with_tail(student_logprobs_K), _with_tail(teacher_logprobs_K)
    return math.fsum(math.exp(s) * (s - t) for s, t in zip(student, teacher, strict=True) if s > -math.inf)


def _with_tail(logprobs_K: Sequence[float]) -> list[float]:
    if any(not logprob <= 1e-6 for logprob in logprobs_K):
        raise SignalError("a log-probability must be a number <= 0")
    rest = 1.0 - math.fsum(math.exp(logprob) for logprob in logprobs_K)
    if rest < -1e-6:
        raise SignalError("the probabilities of the K tokens add up to more than 1")
    return [*logprobs_K, math.log(max(rest, 1e-12))]
