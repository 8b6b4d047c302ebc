"""Supervised fine-tuning on packed rows: cross-entropy on the answer, the prompt and its image masked (TRL's SFTTrainer)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trl import SFTConfig, SFTTrainer

from certloop.train.checkpoints import SafeCheckpoints
from certloop.train.config import RunConfig, SftStage
from certloop.train.rows import Row, to_dataset
from certloop.train.trainer_args import common_args


class AnswerTrainer(SafeCheckpoints, SFTTrainer):  # type: ignore[misc]
    """SFTTrainer with sealed checkpoints."""


def sft_trainer(
    config: RunConfig,
    stage: SftStage,
    model: Any,
    processor: Any,
    rows: Sequence[Row],
    folder: Path,
    callbacks: Sequence[Any] = (),
) -> AnswerTrainer:
    """A trainer over ``rows``. Rows are never cut: :func:`certloop.train.lengths.check_lengths` refuses long ones before."""
    args = SFTConfig(**common_args(config, stage, folder), max_length=None, completion_only_loss=True, packing=False)
    return AnswerTrainer(
        model=model, args=args, train_dataset=to_dataset(rows), processing_class=processor, callbacks=list(callbacks)
    )
