"""Supervised fine-tuning trains exactly the answer, on exactly the tokens that serving will build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from certloop.train.pack.tokens import check_same_ids, row_ids
from certloop.train.rows import Row
from certloop.train.sft import sft_trainer


def test_the_trainer_feeds_serving_s_ids_and_trains_the_answer_only(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    config = tiny.config({"kind": "sft"})
    processor = tiny.processor()
    trainer = sft_trainer(config, config.stages[0], tiny.student(), processor, rows, tmp_path)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(4)])
    for n, row in enumerate(rows[:4]):
        ids = batch["input_ids"][n][batch["attention_mask"][n] == 1].tolist()
        check_same_ids(processor, row, ids)
        wanted = row_ids(processor, row)
        trained = batch["labels"][n][batch["labels"][n] != -100].tolist()
        assert tuple(trained[: len(wanted.completion)]) == wanted.completion
        assert len(trained) <= len(wanted.completion) + 1  # the line break that the template writes after the turn


def test_the_answer_s_loss_falls(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    config = tiny.config({"kind": "sft", "steps": 8, "learning_rate": 5e-3}, checkpoint_every=100)
    trainer = sft_trainer(config, config.stages[0], tiny.student(), tiny.processor(), rows, tmp_path)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.5


def test_an_adapter_is_all_that_moves(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    from certloop.train.models import load_student

    config = tiny.config({"kind": "sft"}, lora=True)
    model = load_student(config.student)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    trainer = sft_trainer(config, config.stages[0], model, tiny.processor(), rows, tmp_path)
    trainer.train()
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert moved
    assert all("lora_" in name and "language_model" in name for name in moved)
