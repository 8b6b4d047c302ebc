"""Context distillation: the student under the plain prompt learns what the teacher says when it also sees help.

The teacher's prompt (column ``teacher_prompt``: the prompt with hints, notes or the experience of METHODS §5-6) is tokenised with
the same images in the same order; the student's own answer is appended to both prompts, and the divergence is taken over the
answer's tokens. With the same prompt and the same weights the loss is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from trl import DistillationConfig, DistillationTrainer
from trl.data_utils import prepare_multimodal_messages

from certloop.train.checkpoints import SafeCheckpoints
from certloop.train.config import ContextDistillStage, RunConfig
from certloop.train.launch import spread_teacher
from certloop.train.rows import Row, to_dataset
from certloop.train.trainer_args import common_args

_TEACHER = "teacher_"


def context_distill_trainer(
    config: RunConfig,
    stage: ContextDistillStage,
    model: Any,
    teacher: Any,
    processor: Any,
    rows: Sequence[Row],
    folder: Path,
    callbacks: Sequence[Any] = (),
) -> ContextTrainer:
    """A trainer over rows with ``teacher_prompt``. The teacher may be the student's own start, as a module of its own."""
    args = DistillationConfig(
        **common_args(config, stage, folder),
        beta=stage.divergence,
        temperature=stage.temperature,
        max_completion_length=stage.max_completion_length,
        use_vllm=stage.vllm,
    )
    trainer = ContextTrainer(
        model=model,
        teacher_model=teacher,
        args=args,
        train_dataset=to_dataset(rows, need="teacher_prompt"),
        processing_class=processor,
        callbacks=list(callbacks),
    )
    spread_teacher(trainer)
    return trainer


class ContextTrainer(SafeCheckpoints, DistillationTrainer):  # type: ignore[misc]
    """DistillationTrainer whose teacher reads another prompt."""

    _teacher_inputs: dict[str, Any] | None = None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        messages = [prepare_multimodal_messages(row["teacher_prompt"], images=row["images"]) for row in inputs]
        texts = [self.processing_class.apply_chat_template(m, add_generation_prompt=True, tokenize=False) for m in messages]
        encoded = self.processing_class(
            images=[row["images"] for row in inputs], text=texts, padding=True, padding_side="left", return_tensors="pt"
        ).to(self.accelerator.device)
        output[_TEACHER + "ids"] = encoded["input_ids"]
        output[_TEACHER + "mask"] = encoded["attention_mask"]
        if "mm_token_type_ids" in encoded:
            output[_TEACHER + "kinds"] = encoded["mm_token_type_ids"]
        return output

    def _compute_loss(self, unwrapped_student: Any, inputs: dict[str, Any], num_items_in_batch: Any) -> Any:
        self._teacher_inputs = inputs
        try:
            return super()._compute_loss(unwrapped_student, inputs, num_items_in_batch)
        finally:
            self._teacher_inputs = None

    def _get_last_hidden_state(
        self, unwrapped_model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **extra: Any
    ) -> torch.Tensor:
        """The teacher's turn: its own prompt stands before the same answer; pixels are the student's, they are the same pages."""
        inputs = self._teacher_inputs
        if inputs is not None and unwrapped_model is self.accelerator.unwrap_model(self.teacher_model):
            completion_BC = inputs["completion_ids"]
            input_ids = torch.cat([inputs[_TEACHER + "ids"], completion_BC], dim=1)
            attention_mask = torch.cat([inputs[_TEACHER + "mask"], inputs["completion_mask"]], dim=1)
            if _TEACHER + "kinds" in inputs:
                kinds_BP = inputs[_TEACHER + "kinds"]
                extra["mm_token_type_ids"] = torch.cat([kinds_BP, kinds_BP.new_zeros(completion_BC.shape)], dim=1)
        hidden: torch.Tensor = super()._get_last_hidden_state(unwrapped_model, input_ids, attention_mask, logits_to_keep, **extra)
        return hidden
