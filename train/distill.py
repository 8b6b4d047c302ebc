"""Generalised knowledge distillation: ``GKD + mu * CE`` (METHODS §4, arXiv 2306.13649).

The teacher scores under the same generic prompt as the student. Purely on-policy runs use TRL's DistillationTrainer, mixed ones
its GOLDTrainer; neither has a cross-entropy term, which the two subclasses here add with the model's own loss.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from trl import DistillationConfig, DistillationTrainer
from trl.data_utils import apply_chat_template
from trl.trainer.utils import pad

from certloop.train.checkpoints import SafeCheckpoints
from certloop.train.config import DistillStage, RunConfig
from certloop.train.launch import spread_teacher
from certloop.train.rows import Row, to_dataset
from certloop.train.trainer_args import common_args

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it calls itself experimental; the version is pinned and tests hold what is used of it
    from trl.experimental.gold import GOLDConfig, GOLDTrainer


def distill_trainer(
    config: RunConfig,
    stage: DistillStage,
    model: Any,
    teacher: Any,
    processor: Any,
    rows: Sequence[Row],
    folder: Path,
    callbacks: Sequence[Any] = (),
) -> OnPolicyTrainer | MixedTrainer:
    """The trainer that ``stage.on_policy`` asks for. ``teacher`` is a separate, frozen model."""
    shared = common_args(config, stage, folder) | {
        "beta": stage.divergence,
        "temperature": stage.temperature,
        "max_completion_length": stage.max_completion_length,
        "use_vllm": stage.vllm,
    }
    data = {"processing_class": processor, "callbacks": list(callbacks)}
    if stage.on_policy == 1.0:
        need = "completion" if stage.ce_weight else "prompt"
        trainer = OnPolicyTrainer(
            model=model,
            teacher_model=teacher,
            args=DistillationConfig(**shared),
            train_dataset=to_dataset(rows, need=need),
            **data,
        )
    else:
        mixed = GOLDConfig(**shared, lmbda=stage.on_policy, use_uld_loss=False, max_length=None, top_k=0)
        trainer = MixedTrainer(model=model, teacher_model=teacher, args=mixed, train_dataset=to_dataset(rows), **data)
        # as DistillationTrainer does: a sampled image token would stand for an image that is not there
        trainer.generation_config.suppress_tokens = [model.config.image_token_id]
    trainer.ce_weight = stage.ce_weight
    spread_teacher(trainer)
    return trainer


class OnPolicyTrainer(SafeCheckpoints, DistillationTrainer):  # type: ignore[misc]
    """On-policy distillation plus ``ce_weight`` times the cross-entropy on the labelled answer of the same pages."""

    ce_weight = 0.0

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.ce_weight:
            pairs = [{name: row[name] for name in ("prompt", "completion")} for row in inputs]
            texts = [apply_chat_template(pair, self.processing_class)["completion"] for pair in pairs]
            ids = [torch.tensor(self._tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
            device = self.accelerator.device
            output["label_ids_BT"] = pad(ids, padding_value=self._tokenizer.pad_token_id, padding_side="right").to(device)
            output["label_mask_BT"] = pad([torch.ones_like(i) for i in ids], padding_value=0, padding_side="right").to(device)
        return output

    def _compute_loss(self, unwrapped_student: Any, inputs: dict[str, Any], num_items_in_batch: Any) -> Any:
        loss, entropy, count = super()._compute_loss(unwrapped_student, inputs, num_items_in_batch)
        if self.ce_weight:
            ce = labelled_loss(unwrapped_student, inputs)
            mode = "train" if self.model.training else "eval"
            self._metrics[mode]["ce"].append(ce.item())
            loss = loss + self.ce_weight * ce / self.current_gradient_accumulation_steps
        return loss, entropy, count


class MixedTrainer(SafeCheckpoints, GOLDTrainer):  # type: ignore[misc]
    """Distillation on a mix of own and labelled answers. The cross-entropy applies where the answer is the label; its weight
    there is ``ce_weight / (1 - lambda)``, so that its expectation is ``ce_weight * CE`` whatever the mix."""

    ce_weight = 0.0

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        labelled = (
            not self.model.training or not self._buffered_on_policy[(self._step - 1) % self.args.gradient_accumulation_steps]
        )
        if self.ce_weight and labelled:
            vocabulary = outputs.logits.size(-1)
            ce = model.loss_function(logits=outputs.logits, labels=inputs["labels"], vocab_size=vocabulary)
            # without a count of tokens the Trainer itself divides by the accumulation steps
            share = 1 if num_items_in_batch is None else self.args.gradient_accumulation_steps
            loss = loss + self.ce_weight / max(1 - self.lmbda, 1e-6) * ce / share
        return (loss, outputs) if return_outputs else loss


def labelled_loss(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """The model's own mean cross-entropy on the labelled answers, under the prompts and images of this batch."""
    prompt_ids_BP, label_ids_BT = inputs["prompt_ids"], inputs["label_ids_BT"]
    mask_BT = inputs["label_mask_BT"]
    extra: dict[str, Any] = {k: inputs[k] for k in ("pixel_values", "image_grid_thw") if k in inputs}
    if "mm_token_type_ids" in inputs:
        kinds_BP = inputs["mm_token_type_ids"][:, : prompt_ids_BP.size(1)]
        extra["mm_token_type_ids"] = torch.cat([kinds_BP, kinds_BP.new_zeros(label_ids_BT.shape)], dim=1)
    keep = label_ids_BT.size(1) + 1  # the logits of the last prompt token predict the first token of the answer
    labels_BT = label_ids_BT.masked_fill(mask_BT == 0, -100)
    outputs = model(
        input_ids=torch.cat([prompt_ids_BP, label_ids_BT], dim=1),
        attention_mask=torch.cat([inputs["prompt_mask"], mask_BT], dim=1),
        labels=torch.cat([torch.full_like(labels_BT[:, :1], -100), labels_BT], dim=1),
        logits_to_keep=keep,
        use_cache=False,
        **extra,
    )
    loss: torch.Tensor = outputs.loss
    return loss
