"""Several devices: a stage under ``accelerate launch``, with a configuration file that says how the model is spread.

The file stands in the run folder, so that a cluster's scheduler can start the same command on its own:
``accelerate launch --config_file RUN/accelerate.yaml -m certloop.train.launch RUN NUMBER [START]``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from certloop.train.config import RunConfig, load_config
from certloop.train.errors import BackendError, error_of

ACCELERATE, FAILED = "accelerate.yaml", "failed.json"
LAYERS = ("Qwen3VLTextDecoderLayer", "Qwen3VLVisionBlock")
"""What is gathered at a time where weights are sharded."""


def accelerate_yaml(config: RunConfig) -> str:
    """Data parallel, or fully sharded (weights, gradients and optimiser states, one transformer layer at a time)."""
    on_gpu = config.hardware.device == "cuda"
    # on the CPU too: accelerate starts several local processes for this kind only, and they find no GPU
    kind = "FSDP" if on_gpu and config.hardware.sharding == "fsdp" else "MULTI_GPU"
    lines = [
        "compute_environment: LOCAL_MACHINE",
        "debug: false",
        f"distributed_type: {kind}",
        "machine_rank: 0",
        f"mixed_precision: '{'bf16' if on_gpu and config.student.dtype == 'bfloat16' else 'no'}'",
        "num_machines: 1",
        f"num_processes: {config.hardware.count}",
        "rdzv_backend: static",
        "same_network: true",
        f"use_cpu: {str(not on_gpu).lower()}",
    ]
    if kind == "FSDP":
        lines += [
            "fsdp_config:",
            "  fsdp_version: 2",
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
            f"  fsdp_transformer_layer_cls_to_wrap: {','.join(LAYERS)}",
            "  fsdp_reshard_after_forward: true",
            "  fsdp_state_dict_type: FULL_STATE_DICT",
            "  fsdp_activation_checkpointing: false",
            "  fsdp_cpu_ram_efficient_loading: true",
        ]
    return "\n".join(lines) + "\n"


def command(number: int, out: Path, start: Path | None) -> list[str]:
    """The command that trains stage ``number`` of the run in ``out``."""
    head = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(out / ACCELERATE)]
    return [*head, "-m", "certloop.train.launch", str(out), str(number), *([str(start)] if start else [])]


def launch_stage(config: RunConfig, number: int, out: Path, start: Path | None) -> None:
    """Raises what stopped a process of the stage, or BackendError when none could say; its words stand on standard error."""
    (out / ACCELERATE).write_text(accelerate_yaml(config), encoding="utf-8")
    (out / FAILED).unlink(missing_ok=True)
    done = subprocess.run(command(number, out, start), check=False)  # noqa: S603 - our own module
    if done.returncode != 0:
        with suppress(OSError, ValueError, KeyError):
            told = json.loads((out / FAILED).read_text(encoding="utf-8"))
            raise error_of(told["code"], told["message"])
        raise BackendError(f"stage {number} ended with exit code {done.returncode}; see the messages above")


def spread_teacher(trainer: Any) -> None:
    """Shard a trainer's frozen teacher as its student is: the trainers leave it whole, and a 32B does not fit beside the rest.

    The tables of the vocabulary stay whole after the first forward: the loss reads the head's weight outside of one.
    """
    if not trainer.is_fsdp_enabled:
        return
    from torch.distributed.fsdp import fully_shard

    for module in trainer.teacher_model.modules():
        if type(module).__name__ in LAYERS:
            fully_shard(module)
    fully_shard(trainer.teacher_model, reshard_after_forward=False)


def main(arguments: list[str]) -> None:
    from certloop.train.run import CONFIG, train_stage, typed, write_json

    out, number = Path(arguments[0]), int(arguments[1])
    try:
        train_stage(load_config(out / CONFIG), number, out, Path(arguments[2]) if len(arguments) > 2 else None)
    except Exception as error:
        if (told := typed(error, out)) is not None:
            write_json(out / FAILED, told.to_json())
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
