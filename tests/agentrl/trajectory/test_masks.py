"""Only the policy's own tokens are trained (METHODS §1.2)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.trajectory import Role, Turn, build_tokens, masked_mean

SEED = [
    (Role.SYSTEM, 5), (Role.USER, 4), (Role.ASSISTANT, 6), (Role.OBSERVATION, 7), (Role.ASSISTANT, 3), (Role.OBSERVATION, 2),
    (Role.ASSISTANT, 4),
]  # fmt: skip


def seed_turns() -> list[Turn]:
    return [Turn(role, tuple(range(n)), (-0.5,) * n if role is Role.ASSISTANT else ()) for role, n in SEED]


def test_the_seed_episode_trains_13_of_31_tokens() -> None:
    tokens = build_tokens(seed_turns())
    assert sum(tokens.loss_mask) == 13
    assert len(tokens.loss_mask) == 31
    expected = "".join(("1" if role is Role.ASSISTANT else "0") * n for role, n in SEED)
    assert "".join(map(str, tokens.loss_mask)) == expected
    assert [lp is not None for lp in tokens.logprobs] == [bit == 1 for bit in tokens.loss_mask]


def test_sampled_tokens_need_their_logprobs() -> None:
    with pytest.raises(CertloopError) as caught:
        build_tokens([Turn(Role.ASSISTANT, (1, 2), (-0.5,))])
    assert caught.value.code == "token_lengths"


def test_logprobs_of_what_was_not_sampled_are_dropped() -> None:
    assert build_tokens([Turn(Role.OBSERVATION, (1, 2), (-0.5, -0.5))]).logprobs == (None, None)


@given(st.lists(st.floats(-5, 5), min_size=31, max_size=31), st.floats(allow_nan=True, allow_infinity=True))
def test_masked_losses_never_reach_the_mean(losses: list[float], poison: float) -> None:
    mask = build_tokens(seed_turns()).loss_mask
    poisoned = [loss if bit else poison for loss, bit in zip(losses, mask, strict=True)]
    assert masked_mean(losses, mask) == masked_mean(poisoned, mask)


def test_the_mean_is_over_trained_tokens() -> None:
    assert masked_mean([1.0, 9.0, 2.0], [1, 0, 1]) == 1.5
    for losses, mask in (([1.0], [0]), ([1.0], [1, 1])):
        with pytest.raises(CertloopError):
            masked_mean(losses, mask)


def test_perturbing_masked_logits_changes_neither_loss_nor_gradient() -> None:
    generator = torch.Generator().manual_seed(7)
    mask_T = torch.tensor(build_tokens(seed_turns()).loss_mask, dtype=torch.float64)
    logits_TV = torch.randn(31, 11, generator=generator, dtype=torch.float64)
    target_T = torch.randint(11, (31,), generator=generator)

    def loss_and_gradient(values_TV: object) -> tuple[object, object]:
        leaf_TV = values_TV.clone().requires_grad_()  # type: ignore[attr-defined]
        loss_T = torch.nn.functional.cross_entropy(leaf_TV, target_T, reduction="none")
        loss = (loss_T * mask_T).sum() / mask_T.sum()
        loss.backward()
        return loss.detach(), leaf_TV.grad

    for _ in range(10):
        noise_TV = torch.randn(31, 11, generator=generator, dtype=torch.float64) * 100 * (1 - mask_T)[:, None]
        loss, gradient = loss_and_gradient(logits_TV)
        noisy_loss, noisy_gradient = loss_and_gradient(logits_TV + noise_TV)
        assert torch.equal(loss, noisy_loss)
        assert torch.equal(gradient[mask_T == 1], noisy_gradient[mask_T == 1])
        assert not noisy_gradient[mask_T == 0].any()
