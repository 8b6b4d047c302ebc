"""Token advantages from a hinted teacher and a reward, and the PPO loss on them (METHODS §5)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.signals import NextMessageConfig, judged_mask, next_message_advantages, ppo_token_loss, topk_reverse_kl
from certloop.agentrl.trajectory import Role, Segment


def test_a_token_the_hinted_teacher_likes_better() -> None:
    assert next_message_advantages([-1.1], [1], teacher_logprobs_T=[-0.3]) == pytest.approx([0.8])
    assert next_message_advantages([-1.1], [1], teacher_logprobs_T=[-0.3], reward=-1.0) == pytest.approx([-0.2])


def test_the_ppo_loss_of_a_token() -> None:
    assert ppo_token_loss(1.5, 0.8) == pytest.approx(-1.024)
    assert ppo_token_loss(0.5, -0.2) == pytest.approx(0.16)
    assert ppo_token_loss(1.0, 0.8) == pytest.approx(-0.8)


def test_the_published_settings() -> None:
    c = NextMessageConfig()
    assert (c.clip_low, c.clip_high, c.w_rl, c.w_opd, c.kl_coef) == (0.2, 0.28, 1.0, 1.0, 0.02)
    assert (c.learning_rate, c.batch_size, c.samples_per_prompt, c.temperature) == (1e-5, 16, 1, 0.6)
    assert (c.adam_betas, c.weight_decay, c.top_k) == ((0.9, 0.98), 0.1, 50)


def test_a_validators_message_reaches_only_the_tokens_of_its_field() -> None:
    out = next_message_advantages([-1.0] * 6, [0, 1, 1, 1, 1, 0], reward=-1.0, reward_span=(2, 4))
    assert out == [0.0, 0.0, -1.0, -1.0, 0.0, 0.0]


def test_a_hint_on_one_field_moves_mostly_that_fields_tokens() -> None:
    """A scripted teacher: the hint makes the tokens of field A unlikely and leaves a little noise elsewhere."""
    old = [-0.5] * 12
    teacher = [-0.5 + 0.02 * (-1) ** t - (2.0 if 3 <= t < 7 else 0.0) for t in range(12)]
    out = next_message_advantages(old, [1] * 12, teacher_logprobs_T=teacher)
    inside, outside = sum(map(abs, out[3:7])), sum(map(abs, out[:3] + out[7:]))
    assert inside > 0.9 * (inside + outside)


@given(st.lists(st.tuples(st.floats(-9, 0), st.floats(-9, 0), st.integers(0, 1)), min_size=1), st.floats(-1, 1))
def test_masked_tokens_have_no_advantage(tokens: list[tuple[float, float, int]], reward: float) -> None:
    old = [o if bit else None for o, _, bit in tokens]
    teacher = [t if bit else math.nan for _, t, bit in tokens]
    mask = [bit for _, _, bit in tokens]
    out = next_message_advantages(old, mask, reward=reward, teacher_logprobs_T=teacher)
    assert all(a == 0.0 for a, bit in zip(out, mask, strict=True) if not bit)
    assert all(math.isfinite(a) for a in out)


@pytest.mark.parametrize(
    ("old", "mask", "teacher", "reward"),
    [
        ([-1.0], [1, 1], None, 0.0),
        ([-1.0], [1], [-1.0, -1.0], 0.0),
        ([None], [1], None, 0.0),
        ([math.nan], [1], None, 0.0),
        ([-1.0], [1], [-math.inf], 0.0),
        ([-1.0], [1], None, math.nan),
        ([-(10**400)], [1], None, 0.0),
        ([-1.0], [1], None, 10**400),
        (["-1"], [1], None, 0.0),
    ],
)
def test_numbers_that_are_missing_or_not_finite_are_refused(old: list, mask: list, teacher: list | None, reward: float) -> None:
    with pytest.raises(CertloopError) as caught:
        next_message_advantages(old, mask, teacher_logprobs_T=teacher, reward=reward)
    assert caught.value.code == "signal_invalid"


def test_a_last_turn_that_nobody_answered_is_not_trained_unless_it_is_the_only_one() -> None:
    two = [Segment(Role.USER, 0, 1), Segment(Role.ASSISTANT, 1, 3), Segment(Role.USER, 3, 4), Segment(Role.ASSISTANT, 4, 6)]
    assert judged_mask([0, 1, 1, 0, 1, 1], two, {0}) == (0, 1, 1, 0, 0, 0)
    assert judged_mask([0, 1, 1, 0, 1, 1], two, {0, 1}) == (0, 1, 1, 0, 1, 1)
    assert judged_mask([0, 1, 1], two[:2], set()) == (0, 1, 1)
    for mask, segments in (([0, 1, 1, 0, 1], two), ([0] * 7, two), ([1], [])):
        with pytest.raises(CertloopError):
            judged_mask(mask, segments, {0})


def test_reverse_kl_over_the_top_tokens_and_a_bin_for_the_rest() -> None:
    student, teacher = (0.6, 0.3), (0.2, 0.7)  # the rest: 0.1 and 0.1
    expected = 0.6 * math.log(0.6 / 0.2) + 0.3 * math.log(0.3 / 0.7)
    assert topk_reverse_kl([*map(math.log, student)], [*map(math.log, teacher)]) == pytest.approx(expected)
    assert topk_reverse_kl([math.log(0.5)], [math.log(0.5)]) == pytest.approx(0.0)
    whole = ([math.log(0.8), math.log(0.2)], [math.log(0.5), math.log(0.5)])
    assert topk_reverse_kl(*whole) == pytest.approx(0.192745, abs=1e-6)
    for student_logprobs, teacher_logprobs in (
        ([0.0], []),
        ([math.log(0.9)] * 2, [math.log(0.1)] * 2),
        ([1000.0], [0.0]),
        ([math.nan], [0.0]),
    ):
        with pytest.raises(CertloopError):
            topk_reverse_kl(student_logprobs, teacher_logprobs)
