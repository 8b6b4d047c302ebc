"""Context distillation: only the teacher sees the help, and it sees the same pages."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from certloop.train.context_distill import context_distill_trainer
from certloop.train.rows import Row


def first_loss(tiny: Any, rows: list[Row], folder: Path, teacher: Any) -> float:
    config = tiny.config({"kind": "context-distill", "steps": 1, "max_completion_length": 8})
    trainer = context_distill_trainer(config, config.stages[0], tiny.student(), teacher, tiny.processor(), rows, folder)
    trainer.train()
    return float(next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry))


def test_the_same_prompt_and_weights_give_loss_zero(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    plain = [dataclasses.replace(row, teacher_prompt=row.prompt) for row in rows]
    assert first_loss(tiny, plain, tmp_path, tiny.student().requires_grad_(False)) == pytest.approx(0.0, abs=1e-7)


def test_help_makes_the_same_weights_a_teacher(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    assert first_loss(tiny, rows, tmp_path, tiny.student().requires_grad_(False)) > 1e-7


def test_the_teacher_reads_its_own_prompt_with_the_same_pages(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """The teacher's hidden states equal those of a plain forward over its prompt, the page and the student's answer."""
    config = tiny.config({"kind": "context-distill", "max_completion_length": 8})
    processor, teacher = tiny.processor(), tiny.teacher()
    trainer = context_distill_trainer(config, config.stages[0], tiny.student(), teacher, processor, rows, tmp_path)
    trainer.model.train()
    with torch.no_grad():
        inputs = trainer._generate_and_score_completions([trainer.train_dataset[i] for i in range(2)])
        text = processor.tokenizer.batch_decode(inputs["teacher_ids"], skip_special_tokens=False)
        assert all(f"名称是{(row.truth or {})['名称']}" in said for row, said in zip(rows, text, strict=False))
        student_text = processor.tokenizer.batch_decode(inputs["prompt_ids"], skip_special_tokens=False)
        assert not any("名称是" in said for said in student_text)
        trainer._teacher_inputs = inputs
        keep = inputs["completion_ids"].size(1)
        extra = {k: inputs[k] for k in ("pixel_values", "image_grid_thw", "mm_token_type_ids")}
        student_ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        student_mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        swapped = trainer._get_last_hidden_state(trainer.teacher_model, student_ids, student_mask, keep, **extra)
        trainer._teacher_inputs = None
        ids = torch.cat([inputs["teacher_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["teacher_mask"], inputs["completion_mask"]], dim=1)
        kinds = (ids == teacher.config.image_token_id).long()
        pages = {k: inputs[k] for k in ("pixel_values", "image_grid_thw")}
        plain = teacher.model(input_ids=ids, attention_mask=mask, mm_token_type_ids=kinds, **pages).last_hidden_state
    assert torch.allclose(swapped, plain[:, -keep - 1 : -1], atol=1e-5)


def test_the_command_trains_a_model_with_its_own_start_as_teacher(tiny: Any, tmp_path: Path) -> None:
    from certloop.cli import app

    out = tmp_path / "run"
    words = ["train", "context-distill", str(tiny.student_folder), str(tiny.rows_folder), "--out", str(out), "--device", "cpu"]
    done = CliRunner().invoke(app, [*words, "--steps", "1", "--batch", "2", "--answer-tokens", "4"])
    assert done.exit_code == 0, done.output
    assert (out / "01-context-distill" / "model" / "model.safetensors").is_file()
