"""From a stage to the arguments that every trainer of TRL takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from certloop.train.config import RunConfig, Stage


def common_args(config: RunConfig, stage: Stage, folder: Path) -> dict[str, Any]:
    """Keyword arguments shared by SFTConfig, DistillationConfig, GOLDConfig and GRPOConfig. ``folder`` takes the checkpoints."""
    on_gpu = config.hardware.device == "cuda"
    return {
        "output_dir": str(folder),
        "seed": config.seed,
        "data_seed": config.seed,
        "learning_rate": stage.learning_rate,
        "per_device_train_batch_size": stage.batch_size,
        "gradient_accumulation_steps": stage.accumulation,
        "max_steps": stage.steps or -1,
        "num_train_epochs": stage.epochs or 1.0,
        "warmup_steps": stage.warmup_steps,
        "lr_scheduler_type": stage.schedule,
        "weight_decay": stage.weight_decay,
        "adam_beta2": stage.beta2,
        "max_grad_norm": stage.max_grad_norm,
        "bf16": on_gpu,
        "use_cpu": not on_gpu,
        "activation_checkpointing": on_gpu and stage.gradient_checkpointing,
        "logging_steps": config.log_every,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": config.checkpoint_every,
        "save_total_limit": config.keep,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": on_gpu,
        "remove_unused_columns": False,
        "ddp_find_unused_parameters": None if on_gpu else False,
    }
