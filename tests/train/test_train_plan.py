"""Plans: parameter counts are exact, memory terms are those that torch counts, and the built-in runs fit their devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from certloop.train.architecture import architecture_of, model_config, parse_architecture
from certloop.train.config import ModelSpec, load_config
from certloop.train.errors import ModelLoadError
from certloop.train.nano import NanoConfig, build_nano
from certloop.train.plan import Shape, activation_elements, make_plan, plan_table, stage_memory
from certloop.train.rows import Row

SMALL, LARGE = "Qwen/Qwen3-VL-4B-Instruct", "Qwen/Qwen3-VL-32B-Instruct"


def on_meta(name: str) -> Any:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    with torch.device("meta"):
        return Qwen3VLForConditionalGeneration(Qwen3VLConfig(**model_config(ModelSpec(path=name))))


@pytest.mark.parametrize(("name", "billions", "layers", "hidden"), [(SMALL, 4.438, 36, 2560), (LARGE, 33.357, 64, 5120)])
def test_the_real_models_have_the_shapes_the_plan_counts_with(name: str, billions: float, layers: int, hidden: int) -> None:
    model = on_meta(name)
    architecture = architecture_of(ModelSpec(path=name))
    assert sum(p.numel() for p in model.parameters()) == architecture.parameters
    assert architecture.parameters / 1e9 == pytest.approx(billions, abs=0.001)
    assert sum(p.numel() for p in model.model.visual.parameters()) == architecture.vision_parameters
    blocks = model.model.language_model.layers
    assert (len(blocks), blocks[0].mlp.gate_proj.in_features) == (layers, hidden)
    assert model.lm_head.weight.shape == (151936, hidden)


def test_the_adapter_s_targets_are_the_language_model_s_linear_layers() -> None:
    from certloop.train.config import LoraSpec
    from certloop.train.models import with_lora

    with torch.device("meta"):
        model = with_lora(on_meta(SMALL), LoraSpec(rank=64))
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert sum(p.numel() for p in trained.values()) == architecture_of(ModelSpec(path=SMALL)).lora_parameters(64) == 132_120_576
    assert len(trained) == 36 * 7 * 2
    assert not [name for name in trained if "visual" in name or "lm_head" in name]


def test_an_adapter_over_all_linear_layers_is_counted_too() -> None:
    """The vision tower's as well; the convolution that cuts a page into patches is none."""
    from certloop.train.config import LoraSpec
    from certloop.train.models import with_lora
    from certloop.train.plan import trained_parameters

    spec = ModelSpec(path=SMALL, lora=LoraSpec(rank=16, targets="all"))
    assert spec.lora is not None
    with torch.device("meta"):
        model = with_lora(on_meta(SMALL), spec.lora)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert sum(p.numel() for p in trained.values()) == trained_parameters(spec, architecture_of(spec))
    assert any("visual.blocks" in name for name in trained) and any("merger" in name for name in trained)
    assert not any("patch_embed" in name for name in trained)


@pytest.mark.parametrize("config", [NanoConfig(), NanoConfig.tiny(), NanoConfig(layers=6, intermediate=896)])
def test_nano_is_counted_exactly_too(config: NanoConfig) -> None:
    model, _ = build_nano(config)
    assert parse_architecture(model.config.to_dict()).parameters == model.num_parameters()


@pytest.mark.parametrize(
    "sizes",
    [
        NanoConfig(),
        NanoConfig(layers=6),
        NanoConfig(intermediate=896),
        NanoConfig(vision_depth=6),
        NanoConfig(hidden=320, heads=10),
    ],
)
def test_the_activations_are_those_that_torch_keeps(tiny: Any, rows: list[Row], tmp_path: Path, sizes: NanoConfig) -> None:
    """What one forward pass of a training step stores for its backward pass, counted by storage, against the formula."""
    from certloop.train.sft import sft_trainer

    model, processor = build_nano(sizes)
    config = tiny.config({"kind": "sft"})
    trainer = sft_trainer(config, config.stages[0], model, processor, rows, tmp_path)
    batch = dict(trainer.data_collator([trainer.train_dataset[i] for i in range(4)]))
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        trainer.compute_loss(model, batch)
    measured = sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / 4
    tokens, patches = batch["input_ids"].numel(), batch["pixel_values"].shape[0]
    planned = activation_elements(parse_architecture(model.config.to_dict()), tokens, patches, checkpointing=False)
    assert planned == pytest.approx(measured, rel=0.12)


def test_weights_gradients_and_optimiser_are_what_a_step_leaves(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    from certloop.train.sft import sft_trainer

    config = tiny.config({"kind": "sft", "steps": 1}, checkpoint_every=100)
    trainer = sft_trainer(config, config.stages[0], tiny.student(), tiny.processor(), rows, tmp_path)
    trainer.train()
    states = [t for state in trainer.optimizer.state.values() for t in state.values() if t.numel() > 1]
    architecture = architecture_of(config.student)
    parts = stage_memory(config, config.stages[0], architecture, None, Shape(16, 384 * 256, 60, 80))
    assert parts["optimiser"] * (1 << 30) == pytest.approx(sum(t.numel() * 4 for t in states), rel=0.01)
    assert parts["weights"] * (1 << 30) == architecture.parameters * 4


@pytest.mark.parametrize("name", ["qwen3vl-4b", "qwen3vl-4b-local", "swift"])
def test_the_built_in_runs_fit_their_devices(name: str) -> None:
    config = load_config(name)
    plan = make_plan(config)
    assert plan.fits
    assert all(stage.peak_gib < 0.9 * config.hardware.memory_gib for stage in plan.stages)
    assert plan.hours > 0


def test_one_small_device_does_not_hold_the_teacher_and_the_plan_says_so() -> None:
    config = load_config("qwen3vl-4b")
    alone = config.with_(hardware={"device": "cuda", "count": 1, "memory_gib": 48})
    plan = make_plan(alone)
    assert plan.fits is False
    assert dict(plan.stages[1].memory_gib)["teacher"] == pytest.approx(33.357e9 * 2 / (1 << 30), rel=0.001)
    assert "does NOT fit" in plan_table(plan)


def test_sharding_an_adapter_and_fewer_pixels_take_less() -> None:
    config = load_config("qwen3vl-4b-local")
    shape = Shape(1000, 1_003_520, 400, 700)
    base = make_plan(config, shape).stages[0]
    full = config.with_(student=config.student.model_dump(exclude={"lora"}, exclude_none=True))
    assert make_plan(full, shape).stages[0].peak_gib > base.peak_gib + 20  # gradients and two Adam states of 4.4 billion
    sharded = config.with_(hardware=config.hardware.model_dump() | {"sharding": "fsdp"})
    assert make_plan(sharded, shape).stages[0].memory_gib["weights"] == pytest.approx(base.memory_gib["weights"] / 2)
    less = make_plan(config, Shape(1000, 501_760, 400, 700)).stages[0]
    assert less.memory_gib["activations"] < base.memory_gib["activations"]
    assert less.hours < base.hours


def test_cost_is_hours_times_devices_times_price() -> None:
    config = load_config("qwen3vl-4b")
    plan = make_plan(config)
    assert plan.usd == pytest.approx(plan.hours * 8 * 2.5)
    assert "USD" in plan_table(plan)


def test_a_model_that_is_not_here_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="download the model first"):
        architecture_of(ModelSpec(path="somebody/other"))
    (tmp_path / "config.json").write_text('{"model_type": "llava"}', encoding="utf-8")
    with pytest.raises(ModelLoadError, match="is a llava"):
        architecture_of(ModelSpec(path=str(tmp_path)))


def test_a_plan_counts_the_rows_that_are_there(tiny: Any) -> None:
    plan = make_plan(tiny.config({"kind": "sft", "epochs": 3.0}))
    assert plan.stages[0].steps == 12  # 16 rows, 4 a step, three times
    assert plan.notes == ()


def test_a_cloud_s_plan_says_nothing_that_it_does_not_know(tmp_path: Path) -> None:
    from certloop.train.backends import make_backend, make_spec

    table = plan_table(make_backend("tinker", tmp_path).plan(make_spec(load_config("tinker"))))
    assert "      100 steps\n" in table
    assert "total: 24.19 USD" in table  # 48.4 million tokens at half a dollar a million
    assert "trained parameters" not in table and "minutes" not in table


def test_a_cpu_is_not_planned_as_if_it_were_a_gpu() -> None:
    """A run file that says no more than ``device = "cpu"`` takes what nano.toml says it takes; short runs in seconds."""
    config = load_config("nano")
    bare = config.with_(hardware={"device": "cpu", "utilisation": 0.4})
    assert make_plan(bare).hours == make_plan(config).hours > 0.1
    assert (
        make_plan(config.with_(hardware={"device": "cpu", "utilisation": 0.4, "peak_tflops": 0.8})).hours < make_plan(bare).hours
    )
    gpu = config.with_(hardware={"device": "cuda", "utilisation": 0.4})
    assert make_plan(gpu).hours < make_plan(bare).hours / 100
    one = config.with_(stages=[config.stages[0].model_dump(exclude_none=True) | {"steps": 1}])
    assert re.search(r"total: \d+\.\d seconds", plan_table(make_plan(one)))


def test_a_data_folder_that_is_not_there_is_named() -> None:
    plan = make_plan(load_config("nano").with_(data={"train": "my/rows", "max_length": 1024}))
    assert plan.notes[0].startswith("there is no folder my/rows: 1000 pages of")


def test_without_rows_the_small_model_s_run_is_planned_with_its_own_pages() -> None:
    plan = make_plan(load_config("nano").with_(data={"train": "", "max_length": 1024}))
    assert plan.fits
    assert plan.notes == ("no rows at hand: 1000 pages of 0.098 megapixels and 110 answer tokens assumed",)
    assert sum(stage.hours for stage in plan.stages) < 1
