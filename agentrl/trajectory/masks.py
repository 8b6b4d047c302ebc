"""Segments and loss mask from turns (METHODS §1.2): only what the policy decided is trained.

A mask over the wrong tokens teaches a model to predict what a tool returns instead of when to call it. Text that a tool read,
decoded payloads, validator messages and image tokens are observations or part of the user's turn: mask 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from certloop.agentrl.trajectory.errors import MaskError, TokenLengthError
from certloop.agentrl.trajectory.schema import Role, Segment


@dataclass(frozen=True, slots=True)
class Turn:
    """Tokens of one role as they stood in the context. ``logprobs`` are the sampling policy's, and only the assistant's count."""

    role: Role
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token part of a trajectory."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]
    loss_mask: tuple[int, ...]
    segments: tuple[Segment, ...]


def build_tokens(turns: Iterable[Turn]) -> Tokens:
    """Lay turns end to end; empty turns vanish, and log-probabilities of tokens that were not sampled are dropped.

    Raises TokenLengthError when an assistant's turn has log-probabilities of another length.
    """
    token_ids: list[int] = []
    logprobs: list[float | None] = []
    segments: list[Segment] = []
    for turn in turns:
        if not turn.token_ids:
            continue
        start = len(token_ids)
        token_ids.extend(turn.token_ids)
        if turn.role is Role.ASSISTANT:
            if len(turn.logprobs) != len(turn.token_ids):
                raise TokenLengthError(f"{len(turn.logprobs)} log-probabilities for {len(turn.token_ids)} sampled tokens")
            logprobs.extend(turn.logprobs)
        else:
            logprobs.extend([None] * len(turn.token_ids))
        segments.append(Segment(turn.role, start, len(token_ids)))
    return Tokens(tuple(token_ids), tuple(logprobs), loss_mask(segments), tuple(segments))


def loss_mask(segments: Iterable[Segment]) -> tuple[int, ...]:
    """Return 1 for each token of the assistant and 0 for every other. The segments must tile."""
    mask: list[int] = []
    for segment in segments:
        mask.extend([int(segment.role is Role.ASSISTANT)] * (segment.end - segment.start))
    return tuple(mask)


def masked_mean(losses_T: Sequence[float], mask_T: Sequence[int]) -> float:
    """Return ``sum(m_t * l_t) / sum(m_t)``. Masked losses are never touched, so not even a NaN there matters.

    Raises MaskError when the mask selects nothing, TokenLengthError when the lengths differ.
    """
    if len(losses_T) != len(mask_T):
        raise TokenLengthError(f"{len(losses_T)} losses for a mask of {len(mask_T)}")
    chosen = [loss for loss, bit in zip(losses_T, mask_T, strict=True) if bit]
    if not chosen:
        raise MaskError("the mask selects no token, so there is no mean loss")
    return sum(chosen) / len(chosen)
