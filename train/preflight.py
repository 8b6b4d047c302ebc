"""What is refused before the first stage begins, so that nothing is found out hours later: columns that a stage needs, too few
rows for a generation, pages or rows larger than the model takes, student and teacher without one vocabulary. Loads processors and
configurations, no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certloop.extract.engine.sources import why_not
from certloop.train import models
from certloop.train.config import ContextDistillStage, DistillStage, GspoStage, ModelSpec, RunConfig, SftStage, Stage
from certloop.train.errors import ModelLoadError, TrainConfigError, TrainDataError
from certloop.train.lengths import check_lengths
from certloop.train.pack.tokens import check_rows
from certloop.train.rows import Row

_COLUMN = {"completion": "completion", "ground_truth": "truth", "second_read": "second_read", "teacher_prompt": "teacher_prompt"}


def preflight(config: RunConfig, rows: Sequence[Row], stages: Sequence[Stage]) -> None:
    """Raises TrainConfigError for devices that are not here, TrainDataError for rows that one of ``stages`` cannot use,
    ModelLoadError and VocabularyError for its models."""
    check_devices(config)
    for stage in stages:
        check_rows_for(config, stage, rows)
    student = models.load_processor(config.student)
    check_sizes(config, student, rows)
    if any(isinstance(stage, DistillStage | ContextDistillStage) for stage in stages):
        assert config.teacher is not None
        teacher = models.load_processor(config.teacher)
        models.check_vocabulary(student, teacher, (_vocabulary(config.student), _vocabulary(config.teacher)))


def check_devices(config: RunConfig) -> None:
    """Raises TrainConfigError when the run wants more GPUs than this machine has."""
    import torch

    here = torch.cuda.device_count()
    if config.hardware.device == "cuda" and here < config.hardware.count:
        raise TrainConfigError(
            f"the run wants {config.hardware.count} cuda devices, this machine has {here}: choose others (cpu is for "
            "small models), or let the swift or tinker backend train it"
        )


def check_device(name: str) -> None:
    """Raises TrainConfigError for a device that is none, or that this machine has not."""
    import torch

    if name not in ("cpu", "cuda"):
        raise TrainConfigError(f"{name!r} is no device: cpu or cuda")
    if name == "cuda" and torch.cuda.device_count() == 0:
        raise TrainConfigError("this machine has no cuda device: give --device cpu (for small models)")


def check_sizes(config: RunConfig, processor: Any, rows: Sequence[Row]) -> None:
    """Raises TrainDataError for pages packed larger than the model is shown them, then for rows longer than ``max_length``: the
    first is often why of the second."""
    check_rows(processor, Path(config.data.train), rows)
    check_lengths(processor, rows, config.data.max_length)


def needed_column(stage: Stage) -> str:
    """The column of a data set without which the stage makes no sense."""
    if isinstance(stage, GspoStage):
        return "second_read" if stage.reward == "agreement" else "ground_truth"
    if isinstance(stage, ContextDistillStage):
        return "teacher_prompt"
    if isinstance(stage, SftStage) or stage.on_policy < 1 or stage.ce_weight:
        return "completion"
    return "prompt"


def check_rows_for(config: RunConfig, stage: Stage, rows: Sequence[Row]) -> None:
    """Raises TrainDataError that names the row that lacks something, or says how many pages a generation asks about."""
    column = needed_column(stage)
    lacking = next((row for row in rows if getattr(row, _COLUMN.get(column, column)) is None), None)
    if lacking is not None:
        raise TrainDataError(f"row {lacking.id} has no {column}, which stage {stage.label} needs")
    if isinstance(stage, GspoStage):
        answers = stage.batch_size * stage.updates_per_generation * config.hardware.count
        pages = answers // stage.group_size
        if len(rows) < pages:
            raise TrainDataError(
                f"stage {stage.label} asks about {pages} pages a generation ({answers} answers in groups of {stage.group_size}), "
                f"and there are {len(rows)} rows: lower batch_size or updates_per_generation, or pack more"
            )


def _vocabulary(spec: ModelSpec) -> int:
    """Rows of a model's output layer, as its configuration says."""
    from transformers import AutoConfig

    try:
        known: Any = AutoConfig.from_pretrained(models.model_source(spec.path), revision=spec.revision, trust_remote_code=False)
        return int(known.get_text_config().vocab_size)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ModelLoadError(f"the model {spec.path} cannot be loaded: {why_not(spec.path, error)}") from None
