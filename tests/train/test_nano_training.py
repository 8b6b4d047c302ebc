"""Training nano from scratch: a few steps teach something, a killed run goes on, bad recipes and checkpoints are told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from certloop.train.errors import CheckpointError, LossError, TrainConfigError
from certloop.train.nano import NanoConfig, load_nano
from certloop.train.nano.recipe import Checks, Recipe, Stage, read_recipe
from certloop.train.nano.train import CHECKPOINT, Run

SHORT = Recipe(
    seed=3,
    glyphs=Stage(steps=4, batch=4, muon=0.02, adam=0.003),
    strips=Stage(steps=2, batch=2, muon=0.01, adam=0.002, frozen=1.0),
    pages=Stage(steps=4, batch=2, muon=0.01, adam=0.002, glyph_weight=0.4),
    checks=Checks(every=2, pages=2, checkpoint_s=0.0, snapshots=1),
    model=NanoConfig.tiny(),
)


def _log(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_few_steps_lower_the_loss_of_a_fresh_model(tmp_path: Path) -> None:
    recipe = replace(
        SHORT,
        glyphs=replace(SHORT.glyphs, steps=70, batch=8),
        strips=replace(SHORT.strips, steps=0),
        pages=replace(SHORT.pages, steps=30, adam=0.02),
        checks=Checks(every=10, pages=1, checkpoint_s=1e9, snapshots=1),
    )
    Run(tmp_path, recipe).go()
    rows = _log(tmp_path)
    glyphs = [row["loss"] for row in rows if row["stage"] == "glyphs"]
    pages = [row["loss"] for row in rows if row["stage"] == "pages"]
    assert glyphs == sorted(glyphs, reverse=True) and glyphs[-1] < glyphs[0] - 0.1
    assert pages == sorted(pages, reverse=True) and pages[-1] < pages[0] - 1.0
    assert load_nano(tmp_path / "final")[0].config.model_type == "qwen3_vl"


def test_a_killed_run_ends_where_an_unbroken_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    Run(tmp_path / "whole", SHORT).go()
    broken = Run(tmp_path / "broken", SHORT)
    step_of = broken._page_step

    def die(step: int, *, strip: bool) -> object:
        if step == 3 and not strip:
            raise KeyboardInterrupt
        return step_of(step, strip=strip)

    monkeypatch.setattr(broken, "_page_step", die)
    with pytest.raises(KeyboardInterrupt):
        broken.go()
    Run(tmp_path / "broken", SHORT).go()
    whole, mended = load_nano(tmp_path / "whole" / "final")[0], load_nano(tmp_path / "broken" / "final")[0]
    for (name, a), b in zip(whole.named_parameters(), mended.parameters(), strict=True):
        assert torch.allclose(a, b, atol=2e-3), name
    files = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert files <= {".json", ".jsonl", ".jinja", ".safetensors"}


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    import torch

    run = Run(tmp_path, SHORT)
    with torch.no_grad():
        run.model.model.visual.merger.linear_fc2.weight.fill_(float("nan"))
    with pytest.raises(LossError, match="glyphs became nan at step 0"):
        run.go()


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"\x00" * 40)
    with pytest.raises(CheckpointError, match="remove it"):
        Run(tmp_path, SHORT).go()


def test_a_recipe_is_checked(tmp_path: Path) -> None:
    assert read_recipe().pages.steps > 0
    (tmp_path / "bad.toml").write_text("seed = 1\n[glyphs]\nsteps = 1\n")
    with pytest.raises(TrainConfigError, match="no recipe of nano"):
        read_recipe(tmp_path / "bad.toml")
    with pytest.raises(TrainConfigError):
        read_recipe(tmp_path / "absent.toml")
