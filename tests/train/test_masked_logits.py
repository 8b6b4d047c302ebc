"""What stands under a mask of 0 changes neither loss nor gradient of the losses that really train (METHODS §1.2): TRL's and the
model's own, on the episode of the pin with 13 trained tokens of 31."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from certloop.agentrl.trajectory import Role, Tokens, Turn, build_tokens
from certloop.train.gspo import gspo_trainer
from certloop.train.rows import Row

PROMPT = [(Role.SYSTEM, 5), (Role.USER, 4)]
REST = [(Role.ASSISTANT, 6), (Role.OBSERVATION, 7), (Role.ASSISTANT, 3), (Role.OBSERVATION, 2), (Role.ASSISTANT, 4)]
START, VOCABULARY = 9, 17

Loss = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture
def tokens() -> Tokens:
    built = build_tokens(
        Turn(role, tuple((7 * n + i) % VOCABULARY for i in range(n)), (-0.5,) * n if role is Role.ASSISTANT else ())
        for role, n in PROMPT + REST
    )
    assert (len(built.loss_mask), sum(built.loss_mask)) == (31, 13)
    return built


def loss_and_gradient(loss_of: Loss, logits_TV: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    leaf_TV = logits_TV.clone().requires_grad_()
    loss = loss_of(leaf_TV)
    loss.backward()
    assert leaf_TV.grad is not None
    return loss.detach(), leaf_TV.grad


def compare(loss_of: Loss, free_T: torch.Tensor) -> None:
    """``free_T`` is True where a logit predicts a token that is not trained."""
    generator = torch.Generator().manual_seed(3)
    logits_TV = torch.randn(len(free_T), VOCABULARY, generator=generator)
    loss, gradient = loss_and_gradient(loss_of, logits_TV)
    assert gradient[~free_T].abs().sum() > 0
    for _ in range(5):
        noise_TV = 20 * torch.randn(len(free_T), VOCABULARY, generator=generator) * free_T[:, None]
        noisy_loss, noisy_gradient = loss_and_gradient(loss_of, logits_TV + noise_TV)
        assert torch.equal(loss, noisy_loss)
        assert torch.equal(gradient[~free_T], noisy_gradient[~free_T])
        assert not noisy_gradient[free_T].any()
    moved = loss_and_gradient(loss_of, logits_TV + torch.randn(len(free_T), VOCABULARY, generator=generator) * ~free_T[:, None])
    assert not torch.equal(loss, moved[0]), "a trained token's logits do change the loss"


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_the_loss_of_trl_for_episodes_with_tools(
    tiny: Any, rows: list[Row], tmp_path: Path, tokens: Tokens, advantage: float
) -> None:
    stage = {"kind": "gspo", "batch_size": 8, "group_size": 4, "updates_per_generation": 2, "max_completion_length": 6}
    config = tiny.config(stage | {"steps": 4}, checkpoint_every=100)
    trainer: Any = gspo_trainer(config, config.stages[0], tiny.student(), tiny.processor(), rows, tmp_path)
    trainer.epsilon_low, trainer.epsilon_high = 0.9, 9.0  # so wide that nothing is clipped
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    prompt, said = torch.tensor([tokens.token_ids[:START]]), torch.tensor([tokens.token_ids[START:]])
    mask = torch.tensor([tokens.loss_mask[START:]])
    batch = {
        "prompt_ids": prompt, "prompt_mask": torch.ones_like(prompt), "completion_ids": said,
        "completion_mask": torch.ones_like(said), "tool_mask": mask, "advantages": torch.tensor([advantage]),
        "old_per_token_logps": torch.full(said.shape, -2.8), "num_items_in_batch": mask.sum(),
    }  # fmt: skip

    def loss_of(logits_TV: torch.Tensor) -> torch.Tensor:
        logps = logits_TV.log_softmax(-1).gather(1, said[0][:, None]).T
        trainer._get_per_token_logps_and_entropies = lambda *a, **k: (logps, torch.ones_like(logps), None)
        loss: torch.Tensor = type(trainer).__mro__[2]._compute_loss(trainer, trainer.model, batch)
        return loss

    compare(loss_of, mask[0] == 0)


def test_the_loss_of_the_model_under_supervised_training(tiny: Any, tokens: Tokens) -> None:
    model = tiny.student()
    trained_T = torch.tensor(tokens.loss_mask) == 1
    labels = torch.tensor(tokens.token_ids).where(trained_T, torch.tensor(-100))[None]
    next_T = torch.cat([trained_T[1:], torch.tensor([False])])  # the logits of a token predict the one after it

    def loss_of(logits_TV: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model.loss_function(logits=logits_TV[None], labels=labels, vocab_size=VOCABULARY)
        return loss

    compare(loss_of, ~next_T)
