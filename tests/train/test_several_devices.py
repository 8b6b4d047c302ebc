"""Weights spread over several devices, as the built-in run of the large models has them: two processes, real shards and trainers.

accelerate shards on accelerators only, so these processes tell it that the CPU is one. Everything else is as on a cluster: each
process holds half of every layer, a frozen teacher too, and what a stage leaves is whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from certloop.train.config import dump_config
from certloop.train.launch import LAYERS, accelerate_yaml

WORKER = """
import json, os, sys
from pathlib import Path
import torch
from accelerate import state
from torch.distributed.tensor import DTensor

torch.set_num_threads(1)
begin = state.PartialState.__init__

def as_an_accelerator(self, *args, **kwargs):
    begin(self, *args, **kwargs)
    if self.__dict__.get("distributed_type") == state.DistributedType.MULTI_CPU:
        self.__dict__["distributed_type"] = state.DistributedType.MULTI_GPU

state.PartialState.__init__ = as_an_accelerator
from certloop.train.checkpoints import save_result
from certloop.train.config import load_config
from certloop.train.models import base_mark
from certloop.train.run import build_trainer, stage_folder

config, out = load_config(sys.argv[1]), Path(sys.argv[2])
seen, start = [], None
for number, stage in enumerate(config.stages, 1):
    folder = stage_folder(out, number, stage)
    folder.mkdir(parents=True, exist_ok=True)
    trainer, processor = build_trainer(config, stage, folder, None if stage.label == "same" else start)
    base = base_mark(trainer.model, config.student.path)
    trainer.train()
    save_result(trainer, processor, folder / "model", base)
    start = folder / "model" if stage.label != "same" else start
    teacher = getattr(trainer, "teacher_model", None)
    layers = [] if teacher is None else [p for n, p in teacher.named_parameters() if ".layers." in n or ".blocks." in n]
    shards = [isinstance(p, DTensor) and 2 * p.to_local().numel() == p.numel() for p in layers if p.numel() % 2 == 0]
    logs = {k: v for entry in trainer.state.log_history for k, v in entry.items() if k in ("loss", "kl_from_start")}
    seen.append({"stage": stage.label, "teacher_shards": sum(shards), "teacher_layers": len(shards)} | logs)
(out / f"seen-{os.environ['RANK']}.json").write_text(json.dumps(seen))
"""


def test_the_launcher_s_file_says_how_weights_are_sharded(tiny: Any) -> None:
    from certloop.train.config import load_config

    text = accelerate_yaml(load_config("qwen3vl-4b"))
    for line in (
        "distributed_type: FSDP",
        "num_processes: 8",
        "mixed_precision: 'bf16'",
        "fsdp_state_dict_type: FULL_STATE_DICT",
    ):
        assert line in text
    assert f"fsdp_transformer_layer_cls_to_wrap: {','.join(LAYERS)}" in text
    assert "distributed_type: MULTI_GPU" in accelerate_yaml(load_config("qwen3vl-4b-local"))


@pytest.mark.slow
def test_sharded_stages_train_and_leave_whole_adapters(tiny: Any, tmp_path: Path) -> None:
    """A sharded teacher with the student's weights teaches nothing (loss 0), GSPO's drift starts at 0, adapters load anywhere."""
    import torch

    from certloop.train.models import load_student

    short = {"max_completion_length": 4, "batch_size": 2, "steps": 1}
    gspo = {"kind": "gspo", "batch_size": 4, "group_size": 4, "updates_per_generation": 2, "steps": 2, "kl_every": 1}
    config = tiny.config(
        {"kind": "sft", "batch_size": 2},
        {"kind": "distill", "name": "same"} | short,
        {"kind": "distill", "name": "mixed", "on_policy": 0.5, "ce_weight": 0.1} | short,
        gspo | {"max_completion_length": 4},
        lora=True,
        teacher={"path": str(tiny.student_folder), "dtype": "float32"},
        hardware={"device": "cpu", "count": 2, "sharding": "fsdp"},
    )
    (tmp_path / "c.toml").write_text(dump_config(config), encoding="utf-8")
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    told = {
        "ACCELERATE_USE_CPU": "true",
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_TRANSFORMER_CLS_TO_WRAP": ",".join(LAYERS),
        "FSDP_RESHARD_AFTER_FORWARD": "true",
        "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run(
        [*command, str(tmp_path / "worker.py"), str(tmp_path / "c.toml"), str(tmp_path / "r")],
        env=os.environ | told,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in range(2):
        sft, same, mixed, drift = json.loads((tmp_path / "r" / f"seen-{rank}.json").read_text(encoding="utf-8"))
        assert sft["loss"] > 1
        assert same["loss"] == pytest.approx(0.0, abs=1e-6)
        assert mixed["loss"] > 0
        assert same["teacher_shards"] == same["teacher_layers"] == mixed["teacher_shards"] > 10
        assert drift["kl_from_start"] == pytest.approx(0.0, abs=1e-6)
    adapter = load_student(config.student, tmp_path / "r" / "04-gspo" / "model")
    assert sum(float(p.detach().abs().sum()) for name, p in adapter.named_parameters() if "lora_B" in name) > 0
    assert all(torch.isfinite(p).all() for p in adapter.parameters())
    assert list((tmp_path / "r" / "01-sft" / "checkpoints").glob("checkpoint-2/complete.json"))
