"""A run from start to end, on this machine: stages in order, each from what the one before left, everything written down.

A run folder holds ``run.toml`` (the configuration), ``environment.json``, ``data.json`` (hashes of the rows), ``status.json`` and
for each stage ``NN-name/`` with ``metrics.jsonl``, ``checkpoints/``, ``model/`` (safetensors, processor) and ``stage.json``. The
same command again resumes: finished stages are kept, an unfinished one goes on from its last complete checkpoint.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from certloop.train.config import RunConfig, Stage, dump_config, load_config
from certloop.train.errors import CheckpointError, DeviceMemoryError, TrainConfigError, TrainDataError, TrainError
from certloop.train.rows import Row, data_sha256, read_rows

CONFIG, STATUS, DATA, ENVIRONMENT, STAGE = "run.toml", "status.json", "data.json", "environment.json", "stage.json"
LOCK = "lock"
_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "safetensors", "numpy", "certloop")
Say = Callable[[str], None]


def run(config: RunConfig, out: Path, say: Say = lambda line: None) -> Path:
    """Train every stage of ``config`` into the folder ``out`` and return the last model's folder.

    Raises TrainConfigError when ``out`` belongs to another run or another process trains there, TrainDataError when the rows
    changed under it, and whatever stops a stage; ``status.json`` then says where and why.
    """
    rows, data = prepare(config, out)
    open_stages = [s for n, s in enumerate(config.stages, 1) if not (stage_folder(out, n, s) / STAGE).exists()]
    try:
        if open_stages:
            _preflight(config, rows, open_stages)
        claim(config, out, data)
        with alone(out):
            return _stages(config, out, say)
    except TrainError:
        raise
    except OSError as error:
        raise typed(error, out) or error from error


def _preflight(config: RunConfig, rows: Sequence[Row], stages: Sequence[Stage]) -> None:
    from certloop.train.models import need_extra

    need_extra()
    from certloop.train.preflight import preflight

    preflight(config, rows, stages)


def _stages(config: RunConfig, out: Path, say: Say) -> Path:
    start: Path | None = None
    for number, stage in enumerate(config.stages, 1):
        folder = stage_folder(out, number, stage)
        model = folder / "model"
        if (folder / STAGE).exists():
            say(f"{folder.name}: done before")
        else:
            write_json(out / STATUS, {"state": "running", "stage": folder.name})
            say(f"{folder.name}: {stage.kind}")
            try:
                run_stage(config, number, out, start)
            except Exception as error:
                told = typed(error, out)
                if told is None:
                    raise
                with suppress(OSError):  # a full disk has no room for this either
                    write_json(out / STATUS, {"state": "failed", "stage": folder.name, "error": told.to_json()})
                if told is error:
                    raise
                raise told from error
        start = model
    write_json(out / STATUS, {"state": "done", "model": str(start.relative_to(out)) if start else None})
    assert start is not None
    return start


def typed(error: Exception, out: Path) -> TrainError | None:
    """The error that it is: a device that is full, a disk that is full or not ours, a picture that is damaged behind its header.

    None for a bug."""
    if isinstance(error, TrainError):
        return error
    if type(error).__name__ == "OutOfMemoryError":  # torch's
        return DeviceMemoryError(
            "a step does not fit the device's memory: begin another run with lower batch_size or max_pixels (certloop train plan)"
        )
    if not isinstance(error, OSError):
        return None
    if error.errno is None:  # pillow's own
        return TrainDataError(f"a picture of the rows cannot be decoded ({type(error).__name__}); pack the rows again")
    return CheckpointError(f"{out.name} cannot be used ({error.strerror or type(error).__name__}); mend that, then resume")


def prepare(config: RunConfig, out: Path) -> tuple[list[Row], dict[str, Any]]:
    """Check that ``out`` is this run's or nobody's and that the rows are still those it began with; returns them with their hash.

    Raises TrainConfigError for another run's folder, TrainDataError for rows that are missing, incomplete or changed.
    """
    if not config.data.train:
        raise TrainDataError("the run names no rows: set data.train in its file, or give --data DIR")
    if (out / CONFIG).exists() and (other := load_config(out / CONFIG)) != config:
        what = ", ".join(_differences(other.to_dict(), config.to_dict()))
        raise TrainConfigError(f"{out.name} holds another run ({CONFIG} differs in {what}); give another folder")
    rows = read_rows(Path(config.data.train))
    data = {"train": {"rows": len(rows), "sha256": data_sha256(Path(config.data.train))}}
    if (out / DATA).exists() and json.loads((out / DATA).read_text(encoding="utf-8")) != data:
        raise TrainDataError("the training rows are not those this run began with; start a new run")
    return rows, data


def claim(config: RunConfig, out: Path, data: dict[str, Any]) -> None:
    """Make the run folder; ``run.toml`` comes last, so that a folder that names its run also says the rest."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not (out / DATA).exists():
            write_json(out / DATA, data)
        if not (out / CONFIG).exists():
            write_json(out / ENVIRONMENT, environment(config))
            write_text(out / CONFIG, dump_config(config))
    except OSError as error:
        raise CheckpointError(f"{out.name} cannot be written: {error.strerror or type(error).__name__}") from None


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the run folder: two processes would write the same checkpoints. The system lets go when a process dies."""
    import fcntl

    with (out / LOCK).open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainConfigError(f"another process is training in {out.name}; wait for it, or give another folder") from None
        yield


def _differences(one: Any, other: Any, where: str = "") -> list[str]:
    """The keys under which two runs differ, at most three of them."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(str(key), one.get(key), other.get(key)) for key in dict.fromkeys([*one, *other])]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(str(n), a, b) for n, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return [] if one == other else [where]
    return [key for name, a, b in pairs for key in _differences(a, b, f"{where}.{name}".lstrip("."))][:3]


def stage_folder(out: Path, number: int, stage: Stage) -> Path:
    return out / f"{number:02d}-{stage.label}"


def run_stage(config: RunConfig, number: int, out: Path, start: Path | None) -> None:
    """One stage in this process, or under ``accelerate launch`` when the run has several devices."""
    if config.hardware.count > 1:
        from certloop.train.launch import launch_stage

        launch_stage(config, number, out, start)
        return
    train_stage(config, number, out, start)


def train_stage(config: RunConfig, number: int, out: Path, start: Path | None) -> None:
    """Load what the stage needs, train it from its last complete checkpoint on, and save its model."""
    from certloop.train.models import need_extra

    need_extra()
    from transformers import PrinterCallback

    from certloop.train.callbacks import Progress, learned_nothing, reward_outcome
    from certloop.train.checkpoints import latest_complete, save_result
    from certloop.train.models import base_mark, without_bars

    without_bars()
    stage = config.stages[number - 1]
    folder = stage_folder(out, number, stage)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    trainer, processor = build_trainer(config, stage, folder, start)
    trainer.remove_callback(PrinterCallback)  # it prints to standard output, where the model's folder goes
    trainer.add_callback(Progress(stage.label))
    base = base_mark(trainer.model, config.student.path)
    checkpoint = latest_complete(folder / "checkpoints")
    cpu = time.process_time()
    result = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    cpu = time.process_time() - cpu
    trainer.accelerator.wait_for_everyone()
    save_result(trainer, processor, folder / "model", base)
    if trainer.is_world_process_zero():
        outcome = reward_outcome(trainer.state.log_history)
        summary = {
            "kind": stage.kind,
            "steps": trainer.state.global_step,
            "resumed_from": None if checkpoint is None else checkpoint.name,
            "seconds": round(time.monotonic() - began, 1),
            "cpu_seconds_training": round(cpu, 2),
            "loss": result.training_loss,
            "peak_memory_bytes": peak_memory_bytes(config),
            **outcome,
        }
        write_json(folder / STAGE, summary)
        if (warning := learned_nothing(stage.label, outcome)) is not None:
            sys.stderr.write(warning + "\n")


def build_trainer(config: RunConfig, stage: Stage, folder: Path, start: Path | None) -> tuple[Any, Any]:
    """The stage's trainer and the processor, after all checks: rows, lengths, vocabularies."""
    from transformers import set_seed

    from certloop.train import models
    from certloop.train.callbacks import FiniteLoss, MetricsWriter
    from certloop.train.preflight import check_sizes

    set_seed(config.seed)
    rows = read_rows(Path(config.data.train))
    processor = models.load_processor(config.student, start)
    check_sizes(config, processor, rows)
    student = models.load_student(config.student, start)
    callbacks = [MetricsWriter(folder / "metrics.jsonl"), FiniteLoss()]
    common = (processor, rows, folder / "checkpoints", callbacks)
    if stage.kind == "sft":
        from certloop.train.sft import sft_trainer

        return sft_trainer(config, stage, student, *common), processor
    if stage.kind == "gspo":
        from certloop.train.gspo import gspo_trainer

        needs_start = stage.kl_every and not hasattr(student, "peft_config")  # an adapter's start is kept by the trainer
        begin = models.load_student(config.student, start).requires_grad_(False).eval() if needs_start else None
        return gspo_trainer(config, stage, student, *common, start_model=begin), processor
    assert config.teacher is not None
    teacher_processor = models.load_processor(config.teacher)
    models.check_vocabulary(processor, teacher_processor)
    teacher = models.load_base(config.teacher, frozen=True)
    models.check_vocabulary(processor, teacher_processor, (_head_rows(student), _head_rows(teacher)))
    sharded = config.hardware.count > 1 and config.hardware.sharding == "fsdp"  # then each device takes its share of it
    if config.hardware.device == "cuda" and not sharded:
        teacher = teacher.to(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")  # of several processes each has its own device
    if stage.kind == "distill":
        from certloop.train.distill import distill_trainer

        return distill_trainer(config, stage, student, teacher, *common), processor
    from certloop.train.context_distill import context_distill_trainer

    return context_distill_trainer(config, stage, student, teacher, *common), processor


def environment(config: RunConfig) -> dict[str, Any]:
    """Versions and device: what a number depends on beside data and configuration."""
    packages: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    out: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine(), "packages": packages}
    if config.hardware.device == "cuda":
        import torch

        out["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        out["cuda"] = torch.version.cuda
    return out


def peak_memory_bytes(config: RunConfig) -> int:
    """The most this process has held: on the GPU as torch counts it, on the CPU as the system does."""
    if config.hardware.device == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _head_rows(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[0])


def write_json(path: Path, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a small file at once, so that a reader never sees half of it."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
