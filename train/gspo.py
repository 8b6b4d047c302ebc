"""Group sequence policy optimisation (GSPO, arXiv 2507.18071) with TRL's GRPOTrainer and the flags of METHODS §3.

What is added: groups whose answers all earn the same are dropped without weakening the others, hard pages are asked about more
often, the trainer proves that its ratio moves inside a generation, and the distance from the start is measured and bounded.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from certloop.train.callbacks import DivergenceBound
from certloop.train.checkpoints import SafeCheckpoints
from certloop.train.config import GspoStage, RunConfig
from certloop.train.errors import RatioError
from certloop.train.gspo_reward import FieldReward, FieldStats, make_reward
from certloop.train.gspo_sampling import HardSampler, truths_of
from certloop.train.rows import Row, to_dataset
from certloop.train.trainer_args import common_args

SAMPLER_STATE = "sampler.json"


def gspo_trainer(
    config: RunConfig,
    stage: GspoStage,
    model: Any,
    processor: Any,
    rows: Sequence[Row],
    folder: Path,
    callbacks: Sequence[Any] = (),
    *,
    start_model: Any = None,
    reward: Any = None,
) -> GspoTrainer:
    """A trainer over ``rows``, whose labels only the reward sees.

    ``start_model`` is a frozen copy of the model as it starts, from which the divergence is measured (needed with
    ``kl_every``, unless the model is an adapter: then a copy of its own weights is kept). ``reward`` replaces the stage's own.
    """
    start_weights = _trained_weights(model) if stage.kl_every and start_model is None else None
    stats = FieldStats()
    column = "second_read" if stage.reward == "agreement" else "ground_truth"
    dataset = to_dataset(rows, need=column)
    bound = DivergenceBound(stage.max_entropy_growth, stage.max_kl)
    extra: dict[str, Any] = {}
    if stage.tools:
        from certloop.train.episodes import zoom_environment

        extra["environment_factory"] = zoom_environment
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You are using 'environment_factory'")  # experimental; the version is pinned
        trainer = GspoTrainer(
            model=model,
            reward_funcs=reward if reward is not None else make_reward(stage, config.seed, stats),
            args=gspo_args(config, stage, folder),
            train_dataset=dataset,
            processing_class=processor,
            callbacks=[*callbacks, bound],
            **extra,
        )
    trainer.stage = stage
    if start_model is not None:
        add_fused_lm_head(start_model, temperature=stage.temperature)  # the trainer reads log-probabilities from the head
        trainer.start_model = start_model.to(trainer.accelerator.device)
    trainer.start_weights = start_weights
    return trainer


def _trained_weights(model: Any) -> dict[str, torch.Tensor]:
    """Copies of what is trained, by name. Of an adapter that an earlier stage began this is not nothing: its base is not where
    this stage starts."""
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def gspo_args(config: RunConfig, stage: GspoStage, folder: Path) -> GRPOConfig:
    """The flags that make GRPOTrainer do GSPO: sequence ratio, no token weighting by length, two-sided clipping of METHODS §3."""
    vllm: dict[str, Any] = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": stage.vllm_memory}
    return GRPOConfig(
        **common_args(config, stage, folder),
        importance_sampling_level="sequence",
        loss_type="grpo",
        beta=0.0,
        epsilon=stage.clip_low,
        epsilon_high=stage.clip_high,
        num_generations=stage.group_size,
        steps_per_generation=stage.updates_per_generation,
        scale_rewards="group" if stage.normalise else "none",
        temperature=stage.temperature,
        top_p=stage.top_p,
        top_k=0,
        max_completion_length=stage.max_completion_length,
        max_tool_calling_iterations=stage.max_tool_rounds if stage.tools else None,
        **(vllm if stage.vllm else {}),
    )


class GspoTrainer(SafeCheckpoints, GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with the additions of this module. ``stage`` and the start to measure from are set before training."""

    stage: GspoStage
    start_model: Any = None
    start_weights: dict[str, torch.Tensor] | None = None
    _hard: HardSampler | None = None
    _group_rewards: torch.Tensor | None = None
    _last_logps: torch.Tensor | None = None
    _pushed = False
    _generations = 0

    def _get_train_sampler(self, dataset: Any = None) -> HardSampler:
        data = self.train_dataset if dataset is None else dataset
        column = "second_read" if self.stage.reward == "agreement" else "ground_truth"
        self._hard = HardSampler(
            truths_of(data[column]),
            batch=self.args.generation_batch_size // self.num_generations,
            group=self.num_generations,
            repeats=self.num_iterations * self.args.steps_per_generation,
            hard=self.stage.hard_sampling,
            seed=self.args.seed,
        )
        if (saved := self._resumed_state()) is not None:
            self._hard.restore(saved)
        return self._hard

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        rewards: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._group_rewards = rewards.nansum(dim=1).view(-1, self.num_generations)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if not self.model.training or self._group_rewards is None:
            return output
        differs_G = self._group_rewards.amax(dim=1) - self._group_rewards.amin(dim=1) > 1e-6
        if self.stage.flat_groups == "drop":
            self._drop_flat(output, differs_G)
        self._note_hard(inputs, differs_G)
        self._generations += 1
        self._pushed = False
        every = self.stage.kl_every
        if every and (self._generations - 1) % every == 0:
            self._metrics["train"]["kl_from_start"].append(self._kl_from_start(output))
        return output

    def _drop_flat(self, output: dict[str, Any], differs_G: torch.Tensor) -> None:
        """A flat group's advantages are (nearly) zero: it adds nothing but dilutes the mean. Exactly zero, and the others' full
        weight back, is the same as not having sampled it."""
        kept = float(differs_G.float().mean())
        self._metrics["train"]["groups_kept"].append(kept)
        scale_B = (differs_G.float() / max(kept, 1e-9)).repeat_interleave(self.num_generations)
        n = output["advantages"].size(0)
        start = self.accelerator.process_index * n
        output["advantages"] = output["advantages"] * scale_B[start : start + n].to(output["advantages"].device)

    def _note_hard(self, inputs: list[dict[str, Any]], differs_G: torch.Tensor) -> None:
        """Tell the sampler, on every process alike, what this generation showed."""
        reward = self.reward_funcs[0]
        if self._hard is None or not isinstance(reward, FieldReward):
            return
        ids = gather_object([row["id"] for row in inputs[:: self.num_generations]]) if "id" in inputs[0] else []
        index = {row_id: i for i, row_id in enumerate(self.train_dataset["id"])} if ids else {}
        spread = {index[row_id]: bool(d) for row_id, d in zip(ids, differs_G, strict=False)}
        rates = gather_object([reward.stats.exact])
        labels = sorted({label for rate in rates for label in rate})
        self._hard.note({label: sum(r.get(label, 0.5) for r in rates) / len(rates) for label in labels}, spread)

    def _kl_from_start(self, output: dict[str, Any]) -> float:
        """Mean over sampled tokens of ``exp(d) - d - 1``, d = log start - log now (Schulman's k3 of KL(now || start))."""
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        trained = output["completion_mask"] * output.get("tool_mask", 1)
        names = ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")
        extra = {name: output[name] for name in names if name in output}
        keep, batch = output["completion_ids"].size(1), self.args.per_device_train_batch_size

        def logps(which: Any) -> torch.Tensor:
            values: torch.Tensor = self._get_per_token_logps_and_entropies(which, ids, mask, keep, batch_size=batch, **extra)[0]
            return values

        with torch.no_grad():
            now_BC = logps(self.model)
            if self.start_model is not None:
                start_BC = logps(self.start_model)
            else:
                with self._as_it_started():
                    start_BC = logps(self.model)
        delta_BC = start_BC - now_BC
        return float((((delta_BC.exp() - delta_BC - 1) * trained).sum() / trained.sum().clamp(min=1)).item())

    @contextmanager
    def _as_it_started(self) -> Iterator[None]:
        """The trained weights are the start's for a while. Where they are spread over devices, so is the start."""
        assert self.start_weights is not None
        model = self.accelerator.unwrap_model(self.model)
        trained = {name: p for name, p in model.named_parameters() if name in self.start_weights}
        now = {name: p.detach().clone() for name, p in trained.items()}
        try:
            for name, parameter in trained.items():
                parameter.data.copy_(_spread_like(self.start_weights[name], parameter))
            yield
        finally:
            for name, parameter in trained.items():
                parameter.data.copy_(now[name])

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._last_logps = result[0]
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        if self.model.training:
            self._check_ratio(inputs)
        return loss

    def _check_ratio(self, inputs: dict[str, Any]) -> None:
        """From the second update of a generation on, the policy has moved: the ratio must differ from 1 (METHODS §3).

        With no earlier update of weight in this generation (flat groups only, or a learning rate of zero in warm-up) there is
        nothing to prove."""
        position = self._step % self.args.steps_per_generation
        old_BC, mask_BC = inputs.get("old_per_token_logps"), inputs["completion_mask"] * inputs.get("tool_mask", 1)
        if old_BC is not None and self._last_logps is not None:
            log_ratio_B = ((self._last_logps.detach() - old_BC) * mask_BC).sum(-1) / mask_BC.sum(-1).clamp(min=1)
            moved = float(log_ratio_B.exp().sub(1).abs().max())
            self._metrics["train"][f"ratio_deviation/update_{position}"].append(moved)
            if position > 0 and self._pushed and moved == 0.0:
                raise RatioError(
                    f"after {position} updates on one generation the policy's ratio is still exactly 1: it is not learning"
                )
        rate = self._get_learning_rate()
        self._pushed = self._pushed or (rate > 0 and bool((inputs["advantages"] != 0).any()))

    def save_extra(self, folder: Path) -> None:
        if self._hard is not None and self.accelerator.is_main_process:
            (folder / SAMPLER_STATE).write_text(json.dumps(self._hard.state(), ensure_ascii=False), encoding="utf-8")

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any) -> Any:
        self._resume_folder = resume_from_checkpoint
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)

    def _resumed_state(self) -> dict[str, Any] | None:
        folder = getattr(self, "_resume_folder", None)
        if not isinstance(folder, str):
            return None
        state: dict[str, Any] = json.loads((Path(folder) / SAMPLER_STATE).read_text(encoding="utf-8"))
        return state


def _spread_like(whole: torch.Tensor, parameter: Any) -> Any:
    """A whole tensor at the place of ``parameter``: on its device, or sharded over several as it is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    here = whole.to(parameter.device)
    shard = parameter.data
    return distribute_tensor(here, shard.device_mesh, shard.placements) if isinstance(shard, DTensor) else here
