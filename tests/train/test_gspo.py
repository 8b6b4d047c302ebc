"""GSPO: the objective's numbers (METHODS §3), groups that teach nothing, a ratio that moves, a run that stops in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from certloop.train.config import GspoStage
from certloop.train.errors import DivergedError, RatioError
from certloop.train.gspo import SAMPLER_STATE, gspo_args, gspo_trainer
from certloop.train.rows import Row

STAGE = {"kind": "gspo", "batch_size": 8, "group_size": 4, "updates_per_generation": 2, "steps": 4, "max_completion_length": 6}


class Digits:
    """A reward that an untrained model can move: how many of the answer's characters are ASCII."""

    __name__ = "digits"

    def __call__(self, completions: list[Any], **_: Any) -> list[float]:
        return [sum(c.isascii() for c in said[0]["content"]) / 6 for said in completions]


def build(tiny: Any, rows: list[Row], folder: Path, reward: Any = None, **changes: Any) -> Any:
    config = tiny.config(STAGE | changes, checkpoint_every=100)
    stage = config.stages[0]
    start = tiny.student().requires_grad_(False) if stage.kl_every else None
    return gspo_trainer(config, stage, tiny.student(), tiny.processor(), rows, folder, start_model=start, reward=reward)


def logged(trainer: Any, name: str) -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def loss_of(trainer: Any, log_ratios: list[float], advantage: float) -> tuple[float, float]:
    """Loss and the size of its gradient for one answer whose tokens have these log-ratios."""
    n = len(log_ratios)
    logps = torch.tensor([log_ratios], requires_grad=True)
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (logps, torch.ones(1, n), None)
    ones = torch.ones(1, n, dtype=torch.long)
    batch = {"prompt_ids": ones[:, :1], "prompt_mask": ones[:, :1], "completion_ids": ones, "completion_mask": ones}
    batch |= {
        "advantages": torch.tensor([advantage]),
        "old_per_token_logps": torch.zeros(1, n),
        "num_items_in_batch": torch.tensor(n),
    }
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    loss = type(trainer).__mro__[2]._compute_loss(trainer, trainer.model, batch)
    loss.backward()
    return float(loss.detach()), float(logps.grad.abs().sum())


@pytest.mark.parametrize(
    ("log_ratios", "advantage", "loss", "moves"),
    [
        ([0.001, -0.0005, 0.0004], 1.0, -1.000300045, True),
        ([0.001, 0.0005, 0.0003], 1.0, -1.0004, False),
        ([0.001, 0.0005, 0.0003], -1.0, 1.00060018, True),
        ([-0.001, -0.0005, 0.0], -1.0, 0.9997, False),
        ([-0.001, -0.0005, 0.0], 1.0, -0.999500125, True),
    ],
)
def test_the_objective_has_the_method_s_numbers(
    tiny: Any, rows: list[Row], tmp_path: Path, log_ratios: list[float], advantage: float, loss: float, moves: bool
) -> None:
    """The sequence ratio is the geometric mean over tokens, clipped at 1 - 3e-4 and 1 + 4e-4."""
    got, gradient = loss_of(build(tiny, rows, tmp_path), log_ratios, advantage)
    assert got == pytest.approx(loss, abs=2e-7)  # two steps of a float32 near 1
    assert (gradient > 0) == moves


def test_the_flags_are_gspo_s(tiny: Any, tmp_path: Path) -> None:
    config = tiny.config(STAGE)
    args = gspo_args(config, config.stages[0], tmp_path)
    assert (args.importance_sampling_level, args.loss_type, args.beta) == ("sequence", "grpo", 0.0)
    assert (args.epsilon, args.epsilon_high, args.steps_per_generation, args.gradient_accumulation_steps) == (3e-4, 4e-4, 2, 1)
    assert args.generation_batch_size == 16
    vllm = gspo_args(tiny.config(STAGE | {"vllm": True}), tiny.config(STAGE | {"vllm": True}).stages[0], tmp_path)
    assert (vllm.use_vllm, vllm.vllm_mode) == (True, "colocate")


def test_a_run_moves_its_ratio_and_logs_every_field(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """The labels' reward sees nothing in an untrained model's answers; a second, learnable one is added to it here."""
    from certloop.train.gspo_reward import FieldReward

    class Both(FieldReward):
        def __call__(self, completions: Any, **columns: Any) -> list[float]:
            fields = super().__call__(completions, **columns)
            return [a + b for a, b in zip(fields, Digits()(completions), strict=True)]

    trainer = build(tiny, rows, tmp_path, Both(), kl_every=1, learning_rate=5e-3)
    trainer.train()
    assert logged(trainer, "ratio_deviation/update_0") == [0.0, 0.0]
    assert all(moved > 0 for moved in logged(trainer, "ratio_deviation/update_1"))
    assert logged(trainer, "f1") == [0.0, 0.0]
    assert logged(trainer, "parsed") == [0.0, 0.0]
    first, second = logged(trainer, "kl_from_start")
    assert first == pytest.approx(0.0, abs=1e-6)
    assert second > 1e-5


def test_a_frozen_policy_is_told(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """An optimiser that holds none of the model's weights: everything runs, nothing is learned."""
    trainer = build(tiny, rows, tmp_path, Digits())
    stray = torch.nn.Parameter(torch.zeros(1))
    trainer.optimizer = torch.optim.SGD([stray], lr=1.0)
    with pytest.raises(RatioError, match="ratio is still exactly 1"):
        trainer.train()


def test_without_any_spread_there_is_nothing_to_prove(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    trainer = build(tiny, rows, tmp_path)  # an untrained model writes no JSON: every answer earns 0
    trainer.train()
    assert logged(trainer, "groups_kept") == [0.0, 0.0]
    assert logged(trainer, "grad_norm") == [0.0] * 4


class Uneven:
    """The first group of each generation earns the same for every answer, the others not."""

    __name__ = "uneven"

    def __call__(self, completions: list[Any], **_: Any) -> list[float]:
        return [1.0 if n < 4 else float(n % 4) for n in range(len(completions))]


@pytest.mark.parametrize(("flat", "factor"), [("drop", 4 / 3), ("keep", 1.0)])
def test_flat_groups_are_dropped_and_the_others_keep_their_weight(
    tiny: Any, rows: list[Row], tmp_path: Path, flat: str, factor: float
) -> None:
    """One of four groups is flat: the mean over the three others is 4/3 of the mean over all."""
    trainer = build(tiny, rows, tmp_path, Uneven(), flat_groups=flat)
    trainer.model.train()
    trainer._get_train_sampler()
    inputs = [trainer.train_dataset[i] for i in range(4) for _ in range(4)]
    advantages = trainer._generate_and_score_completions(inputs)["advantages"]
    assert advantages[:4].tolist() == [0.0] * 4
    sample_std = 1.2909944  # of 0, 1, 2, 3
    assert advantages[4:8].tolist() == pytest.approx([factor * (n - 1.5) / (sample_std + 1e-4) for n in range(4)], rel=1e-5)


def test_rewards_may_stay_unscaled(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    trainer = build(tiny, rows, tmp_path, Uneven(), normalise=False, flat_groups="keep")
    trainer.model.train()
    inputs = [trainer.train_dataset[i] for i in range(4) for _ in range(4)]
    advantages = trainer._generate_and_score_completions(inputs)["advantages"]
    assert advantages[4:8].tolist() == pytest.approx([-1.5, -0.5, 0.5, 1.5])


def test_hard_pages_are_known_to_the_sampler_and_to_its_checkpoint(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    trainer = build(tiny, rows, tmp_path)
    trainer.model.train()
    sampler = trainer._get_train_sampler()
    trainer._generate_and_score_completions([trainer.train_dataset[i] for i in range(4) for _ in range(4)])
    assert sampler.settled == {0, 1, 2, 3}  # no spread anywhere
    trainer.save_extra(tmp_path)
    again = build(tiny, rows, tmp_path / "b")
    again._resume_folder = str(tmp_path)
    assert again._get_train_sampler().settled == {0, 1, 2, 3}
    assert (tmp_path / SAMPLER_STATE).is_file()


def test_growing_entropy_stops_the_run() -> None:
    from types import SimpleNamespace

    from certloop.train.callbacks import DivergenceBound

    bound = DivergenceBound(3.0, 0.1)
    state = SimpleNamespace(global_step=7)
    bound.on_log(None, state, None, logs={"entropy": 0.2, "kl_from_start": 0.0})
    bound.on_log(None, state, None, logs={"entropy": 0.59})
    with pytest.raises(DivergedError, match=r"entropy 0\.610 at step 7"):
        bound.on_log(None, state, None, logs={"entropy": 0.61})
    with pytest.raises(DivergedError, match=r"KL from the start 0\.1100"):
        bound.on_log(None, state, None, logs={"kl_from_start": 0.11})


def test_a_run_past_its_bound_ends_with_that_error(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    trainer = build(tiny, rows, tmp_path, Digits(), kl_every=1, max_kl=1e-9, learning_rate=5e-3)
    with pytest.raises(DivergedError, match="KL from the start"):
        trainer.train()


def test_an_adapter_s_start_is_its_base(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """No second model in memory: the divergence is measured with the adapter switched off."""
    from certloop.train.models import load_student

    config = tiny.config(STAGE | {"kl_every": 1, "learning_rate": 2e-2}, lora=True, checkpoint_every=100)
    student = load_student(config.student)
    stage = config.stages[0]
    assert isinstance(stage, GspoStage)
    trainer = gspo_trainer(config, stage, student, tiny.processor(), rows, tmp_path, reward=Digits())
    trainer.train()
    first, second = logged(trainer, "kl_from_start")
    assert first == pytest.approx(0.0, abs=1e-6)
    assert second > 1e-7


def test_an_adapter_that_an_earlier_stage_began_is_measured_from_where_this_stage_starts(
    tiny: Any, rows: list[Row], tmp_path: Path
) -> None:
    """Not from its base: what SFT moved before is no drift of this run. Measuring leaves the weights as they are."""
    from certloop.train.models import base_mark, load_student, save_model

    config = tiny.config(STAGE | {"kl_every": 1, "learning_rate": 2e-2, "max_kl": 0.5}, lora=True, checkpoint_every=100)
    trained = load_student(config.student)
    with torch.no_grad():
        for name, parameter in trained.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.5)
    save_model(trained, tiny.processor(), tmp_path / "sft", base=base_mark(trained, "tiny"))
    student = load_student(config.student, tmp_path / "sft")
    before = {name: p.detach().clone() for name, p in student.named_parameters()}
    trainer = gspo_trainer(config, config.stages[0], student, tiny.processor(), rows, tmp_path / "g", reward=Digits())
    trainer.model.train()
    trainer._generate_and_score_completions([trainer.train_dataset[i] for i in range(4) for _ in range(4)])
    assert trainer._metrics["train"]["kl_from_start"] == [pytest.approx(0.0, abs=1e-6)]
    assert all(torch.equal(p, before[name]) for name, p in student.named_parameters())
    with torch.no_grad():
        for name, parameter in student.named_parameters():
            if "lora_B" in name:
                parameter.mul_(0.5)
    trainer._generate_and_score_completions([trainer.train_dataset[i] for i in range(4) for _ in range(4)])
    assert trainer._metrics["train"]["kl_from_start"][1] > 1e-4


def test_a_resumed_run_is_bounded_by_its_first_entropy() -> None:
    from types import SimpleNamespace

    from certloop.train.callbacks import DivergenceBound

    bound = DivergenceBound(3.0, None)
    bound.on_train_begin(None, SimpleNamespace(log_history=[{"loss": 1.0}, {"entropy": 0.2}, {"entropy": 0.5}]), None)
    with pytest.raises(DivergedError, match=r"0\.200 at the start"):
        bound.on_log(None, SimpleNamespace(global_step=9), None, logs={"entropy": 0.61})
