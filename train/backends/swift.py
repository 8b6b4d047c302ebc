"""ms-swift 4.6 on a cluster: certloop writes rows, a script of all stages and the teacher's server; somebody starts it there.

ms-swift needs an environment of its own (it pins older trl, peft and transformers), so nothing of it is imported here. Its rows
are checked against ``swift_row.schema.json``. The run is waiting until the script's first stage begins, and done when
``exit_code`` is 0.
"""

from __future__ import annotations

import json
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

from certloop.agentrl.backend import Candidate, Plan, RunState, Status, TrainSpec
from certloop.agentrl.store.exporters import swift_row
from certloop.train.backends import recipe_of
from certloop.train.backends.folder import candidate, keep_spec, last_metrics, need_done, read_spec
from certloop.train.config import ContextDistillStage, DistillStage, GspoStage, RunConfig, SftStage, Stage, parse_config
from certloop.train.errors import BackendError, TrainConfigError
from certloop.train.models import model_source
from certloop.train.plan import make_plan
from certloop.train.rows import Row, read_rows

SCRIPT, TEACHER, EXIT, REWARD = "run.sh", "teacher.sh", "exit_code", "reward.py"
TOP_LOGPROBS = 64
"""Teacher's candidates a token: its server answers log-probabilities of the likeliest only."""


class SwiftBackend:
    """Writes runs below ``root`` and watches what the cluster leaves there."""

    name = "swift"

    def __init__(self, root: Path) -> None:
        self.root = root

    def plan(self, spec: TrainSpec) -> Plan:
        config = parse_config(dict(spec.recipe))
        _check(config)
        return make_plan(config.with_(backend="swift"))

    def submit(self, spec: TrainSpec) -> str:
        config = recipe_of(spec)
        _check(config)
        folder = self.root / spec.run_id
        if not (folder / SCRIPT).exists():
            keep_spec(folder, spec)
            _write(folder, config)
        return spec.run_id

    def status(self, run_id: str) -> Status:
        folder = self.root / run_id
        spec = read_spec(folder)
        begun = [s for n, s in enumerate(parse_config(dict(spec.recipe)).stages, 1) if _output(folder, n, s).exists()]
        stage = begun[-1].label if begun else ""
        logs = sorted(folder.glob("*/**/logging.jsonl"))
        metrics = last_metrics(logs[-1]) if logs else {}
        step = int(metrics.get("global_step", metrics.get("step", 0)))
        code = _exit_code(folder)
        if code == 0:
            return Status(run_id, RunState.DONE, stage, step, metrics)
        if code is not None:
            error = {"code": BackendError.code, "message": f"{SCRIPT} ended with exit code {code}"}
            return Status(run_id, RunState.FAILED, stage, step, metrics, error)
        return Status(run_id, RunState.RUNNING if begun else RunState.WAITING, stage, step, metrics)

    def fetch(self, run_id: str) -> Candidate:
        folder = self.root / run_id
        spec = read_spec(folder)
        status = self.status(run_id)
        need_done(status)
        config = parse_config(dict(spec.recipe))
        model = _last_checkpoint(_output(folder, len(config.stages), config.stages[-1]))
        return candidate(spec, run_id, model, config.student.path, dict(status.metrics))


def swift_rows(rows: list[Row], stage: Stage) -> list[dict[str, Any]]:
    """The rows of one stage: with the answer for SFT and mixed distillation, with the truth for GSPO, with ``teacher_prompt`` for
    context distillation."""
    out = []
    for row in rows:
        images = [str(path.resolve()) for path in row.images]
        needs_answer = isinstance(stage, SftStage) or (
            isinstance(stage, DistillStage) and (stage.on_policy < 1 or stage.ce_weight > 0)
        )
        columns = {"solution": json.dumps(dict(row.truth or {}), ensure_ascii=False)} if isinstance(stage, GspoStage) else {}
        helped = row.teacher_prompt if isinstance(stage, ContextDistillStage) else None
        out.append(swift_row(row.prompt, row.completion if needs_answer else None, images, teacher_prompt=helped, **columns))
    return out


def row_schema() -> dict[str, Any]:
    """The committed JSON schema of a row."""
    text = files("certloop.train.backends").joinpath("swift_row.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def stage_command(config: RunConfig, number: int, folder: Path) -> list[str]:
    """The ``swift`` command of one stage; each starts from the adapter or weights of the one before."""
    stage = config.stages[number - 1]
    lora = config.student.lora
    options: dict[str, object] = {
        "model": model_source(config.student.path),
        "model_type": "qwen3_vl",
        "torch_dtype": config.student.dtype,
        "dataset": folder / f"{number:02d}-{stage.label}.jsonl",
        "output_dir": _output(folder, number, stage),
        "seed": config.seed,
        "learning_rate": stage.learning_rate,
        "per_device_train_batch_size": stage.batch_size,
        "gradient_accumulation_steps": stage.accumulation,
        "max_length": config.data.max_length,
        "truncation_strategy": "delete",
        "strict": "true",
        "warmup_steps": stage.warmup_steps,
        "lr_scheduler_type": stage.schedule,
        "weight_decay": stage.weight_decay,
        "adam_beta2": stage.beta2,
        "max_grad_norm": stage.max_grad_norm,
        "logging_steps": config.log_every,
        "save_steps": config.checkpoint_every,
        "save_total_limit": config.keep,
        "save_only_model": "true",
        "gradient_checkpointing": str(stage.gradient_checkpointing).lower(),
    }
    options |= {"max_steps": stage.steps} if stage.steps is not None else {"num_train_epochs": stage.epochs}
    if lora is not None:
        options |= {"tuner_type": "lora", "lora_rank": lora.rank, "lora_alpha": lora.alpha, "lora_dropout": lora.dropout}
        options["target_modules"] = "all-linear"
        frozen = lora.targets == "language"
    else:
        options["tuner_type"] = "full"
        frozen = config.student.freeze_vision
    options |= {"freeze_vit": str(frozen).lower(), "freeze_aligner": str(frozen).lower()}
    options |= _own_options(config, stage, folder)
    verb = ["swift", "sft"] if isinstance(stage, SftStage) else ["swift", "rlhf"]
    return [*verb, *(word for key, value in options.items() for word in (f"--{key}", str(value)))]


def _own_options(config: RunConfig, stage: Stage, folder: Path) -> dict[str, object]:
    further: dict[str, object] = dict(config.swift.options)
    if isinstance(stage, DistillStage | ContextDistillStage):
        mixed = stage.on_policy if isinstance(stage, DistillStage) else 1.0
        further |= {
            "rlhf_type": "gkd",
            "teacher_model_server": config.swift.teacher_url,
            "gkd_logits_topk": TOP_LOGPROBS,
            "beta": stage.divergence,
            "lmbda": mixed,
            "temperature": stage.temperature,
            "max_completion_length": stage.max_completion_length,
        }
        if isinstance(stage, DistillStage) and stage.ce_weight:
            further["sft_alpha"] = stage.ce_weight
    if isinstance(stage, GspoStage):
        further |= {
            "rlhf_type": "grpo",
            "importance_sampling_level": "sequence",
            "loss_type": "grpo",
            "beta": 0.0,
            "epsilon": stage.clip_low,
            "epsilon_high": stage.clip_high,
            "num_generations": stage.group_size,
            "steps_per_generation": stage.updates_per_generation,
            "scale_rewards": "group" if stage.normalise else "none",
            "temperature": stage.temperature,
            "top_p": stage.top_p,
            "max_completion_length": stage.max_completion_length,
            "external_plugins": folder / REWARD,
            "reward_funcs": "certloop_fields",
        }
    if getattr(stage, "vllm", False):
        further |= {"use_vllm": "true", "vllm_mode": "colocate"}
    return further


def teacher_command(config: RunConfig) -> list[str]:
    """The command that serves the teacher's log-probabilities."""
    assert config.teacher is not None
    port = config.swift.teacher_url.rpartition(":")[2].strip("/") or "8000"
    options = {"model": model_source(config.teacher.path), "infer_backend": "vllm", "port": port, "max_logprobs": TOP_LOGPROBS}
    options["vllm_tensor_parallel_size"] = config.swift.teacher_gpus
    return ["swift", "deploy", *(word for key, value in options.items() for word in (f"--{key}", str(value)))]


def _check(config: RunConfig) -> None:
    for stage in config.stages:
        if isinstance(stage, GspoStage) and (stage.tools or stage.reward != "fields" or stage.power != 4):
            raise TrainConfigError("swift trains GSPO on F1^4 of labelled fields, without tools; the local backend does the rest")
        if isinstance(stage, GspoStage) and stage.max_kl is not None:
            raise TrainConfigError("swift does not stop at max_kl; use the local backend, or take the bound out")


def _write(folder: Path, config: RunConfig) -> None:
    """Rows, the reward as ms-swift's plugin, the teacher's command, and last the script that runs all stages in order."""
    rows = read_rows(Path(config.data.train))
    lines = [
        "#!/usr/bin/env bash",
        "# Start this where ms-swift 4.6 is installed, with the teacher's server (teacher.sh) running.",
        "set -uo pipefail",
    ]
    lines += [f'cd "$(dirname "$0")"; trap \'echo $? > {EXIT}\' EXIT; set -e']
    lines += [f"export NPROC_PER_NODE={config.hardware.count}"] if config.hardware.count > 1 else []
    lines += [f"export MAX_PIXELS={config.student.max_pixels}"] if config.student.max_pixels else []
    lines += [f"export MIN_PIXELS={config.student.min_pixels}"] if config.student.min_pixels else []
    before: str | None = None
    for number, stage in enumerate(config.stages, 1):
        data = folder / f"{number:02d}-{stage.label}.jsonl"
        data.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in swift_rows(rows, stage)), encoding="utf-8")
        command = shlex.join(stage_command(config, number, folder.resolve()))
        if before is not None:
            latest = f'"$(ls -td {shlex.quote(before)}/**/checkpoint-* | head -1)"'
            command += f" --adapters {latest}" if config.student.lora is not None else f" --model {latest}"
        lines += ["shopt -s globstar", command]
        before = str(_output(folder.resolve(), number, stage))
    (folder / REWARD).write_text(
        files("certloop.train.backends").joinpath("swift_reward.txt").read_text(encoding="utf-8"), encoding="utf-8"
    )
    if config.teacher is not None:
        (folder / TEACHER).write_text("#!/usr/bin/env bash\n" + shlex.join(teacher_command(config)) + "\n", encoding="utf-8")
        (folder / TEACHER).chmod(0o755)
    (folder / SCRIPT).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / SCRIPT).chmod(0o755)


def _output(folder: Path, number: int, stage: Stage) -> Path:
    return folder / f"{number:02d}-{stage.label}"


def _last_checkpoint(output: Path) -> Path:
    found = sorted(output.glob("**/checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    if not found:
        raise BackendError(f"{output.name} holds no checkpoint")
    return found[-1]


def _exit_code(folder: Path) -> int | None:
    try:
        return int((folder / EXIT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
