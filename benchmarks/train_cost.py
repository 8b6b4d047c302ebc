"""What training costs: our trainers beside plain TRL ones, and the plan beside measured runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from train_study import GKD, GSPO, HERE, SFT, TRAIN_SEED, Setting, Study, callback_base

from certloop.train.config import parse_config
from certloop.train.nano_data import nano_rows
from certloop.train.rows import Row


def study_overhead(setting: Setting) -> None:
    """Our trainers and plain TRL ones take turns, step for step the same work; medians of CPU seconds a step."""
    study = Study("overhead", setting)
    rows = study.rows("train", TRAIN_SEED, 400)
    lines = [
        "# Overhead of our trainers over plain TRL",
        "",
        "| stage | plain TRL, CPU s a step | ours | ratio | reward, share of step |",
        "|---|---|---|---|---|",
    ]
    for stage in ("sft", "gspo"):
        plain, ours, shares = [], [], []
        for turn in range(setting.seeds):
            for which in (_plain, _ours) if turn % 2 == 0 else (_ours, _plain):
                seconds, share = which(study, stage, rows, setting)
                (plain if which is _plain else ours).extend(seconds)
                shares += [share] if which is _ours and share is not None else []
        ratio = bootstrap_ratio(ours, plain)
        share_text = f"{100 * _median(shares):.2f} %" if shares else ""
        lines.append(f"| {stage} | {_median(plain):.3f} | {_median(ours):.3f} | {ratio} | {share_text} |")
        print(lines[-1], flush=True)
    lines += [
        "",
        f"- medians over {setting.seeds} turns each, alternating, in one process; ratio with its 95 % bootstrap interval",
        f"- `python benchmarks/train.py overhead --seeds {setting.seeds} --steps {setting.steps}`",
    ]
    (HERE / "results" / "train-overhead.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _stage(stage: str, setting: Setting) -> dict[str, Any]:
    if stage == "sft":
        return SFT | {"steps": setting.steps}
    return GSPO | {
        "steps": setting.steps,
        "batch_size": 32,
        "updates_per_generation": 1,
        "hard_sampling": 0.0,
        "flat_groups": "keep",
    }


def _ours(study: Study, stage: str, rows: Sequence[Row], setting: Setting) -> tuple[list[float], float | None]:
    from certloop.train.callbacks import FiniteLoss, MetricsWriter

    config = study.config(0, _stage(stage, setting))
    watch = _StepClock()
    callbacks = [MetricsWriter(study.folder / "metrics.jsonl"), FiniteLoss(), watch]
    if stage == "sft":
        from certloop.train.sft import sft_trainer

        trainer = sft_trainer(config, config.stages[0], study.student(), study.processor(), rows, study.folder, callbacks)
    else:
        from certloop.train.gspo import gspo_trainer

        trainer = gspo_trainer(config, config.stages[0], study.student(), study.processor(), rows, study.folder, callbacks)
        reward = trainer.reward_funcs[0]
        trainer.reward_funcs[0] = timed = _Timed(reward)
    trainer.train()
    share = timed.seconds / sum(watch.all) if stage == "gspo" else None
    return watch.steps, share


def _plain(study: Study, stage: str, rows: Sequence[Row], setting: Setting) -> tuple[list[float], float | None]:
    from trl import GRPOTrainer, SFTConfig, SFTTrainer

    from certloop.agentrl.rewards import f1_power_reward
    from certloop.train.gspo import gspo_args
    from certloop.train.rows import to_dataset
    from certloop.train.trainer_args import common_args

    config = study.config(0, _stage(stage, setting))
    watch = _StepClock()
    common = {"model": study.student(), "processing_class": study.processor(), "callbacks": [watch]}
    if stage == "sft":
        args = SFTConfig(**common_args(config, config.stages[0], study.folder), max_length=None, completion_only_loss=True)
        SFTTrainer(args=args, train_dataset=to_dataset(rows), **common).train()
    else:

        def fields(completions: Any, ground_truth: Any, **_: Any) -> list[float]:
            said = [c[0]["content"] for c in completions]
            return [f1_power_reward(json.loads(t), a).reward for t, a in zip(ground_truth, said, strict=True)]

        args = gspo_args(config, config.stages[0], study.folder)
        GRPOTrainer(reward_funcs=fields, args=args, train_dataset=to_dataset(rows, need="ground_truth"), **common).train()
    return watch.steps, None


class _Timed:
    """A reward whose CPU seconds are counted."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.seconds, self.__name__ = inner, 0.0, inner.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        out = self.inner(*args, **kwargs)
        self.seconds += time.process_time() - began
        return out


class _StepClock(callback_base()):
    """CPU seconds of each step; the first one warms up and is left out of ``steps``."""

    def __init__(self) -> None:
        self.all: list[float] = []
        self.last = 0.0

    @property
    def steps(self) -> list[float]:
        return self.all[1:]

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.last = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = time.process_time()
        self.all.append(now - self.last)
        self.last = now


def bootstrap_ratio(ours: Sequence[float], plain: Sequence[float]) -> str:
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = np.asarray(ours), np.asarray(plain)
    drawn = [np.median(rng.choice(a, len(a))) / np.median(rng.choice(b, len(b))) for _ in range(2000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{np.median(a) / np.median(b):.3f} [{low:.3f}, {high:.3f}]"


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def study_plan(setting: Setting) -> None:
    """Short runs in processes of their own: the most memory each held, and its CPU seconds a step, beside the plan's."""
    from certloop.train.config import dump_config
    from certloop.train.plan import make_plan

    rows = setting.out / "pages" / "plan"
    if not (rows / "manifest.json").exists():
        nano_rows(rows, TRAIN_SEED, 200)
    lines = [
        "# The plan against measured nano runs",
        "",
        "| stage | batch | planned GiB | peak of the process, GiB | ratio | planned s a step | CPU s a step |",
        "|---|---|---|---|---|---|---|",
    ]
    stages = [SFT | {"batch_size": 16}, SFT | {"batch_size": 64}, GKD, GSPO | {"batch_size": 32, "updates_per_generation": 2}]
    for number, stage in enumerate(stages):
        config = parse_config(
            {
                "name": f"plan-{number}",
                "student": {"path": setting.start, "dtype": "float32"},
                "teacher": {"path": setting.teacher, "dtype": "float32"},
                "data": {"train": str(rows.resolve()), "max_length": 1024},
                "hardware": {"device": "cpu", "peak_tflops": 0.08, "memory_gbps": 20.0, "utilisation": 0.4, "memory_gib": 8},
                "stages": [stage | {"steps": setting.steps}],
            }
        )
        plan = make_plan(config).stages[0]
        out = (setting.out / "plan" / config.name).resolve()
        out.mkdir(parents=True, exist_ok=True)
        (out.parent / f"{config.name}.toml").write_text(dump_config(config), encoding="utf-8")
        if not (out / f"01-{config.stages[0].label}" / "stage.json").exists():
            command = [
                sys.executable,
                "-m",
                "certloop",
                "train",
                "run",
                str(out.parent / f"{config.name}.toml"),
                "--out",
                str(out),
            ]
            subprocess.run(command, check=True, capture_output=True)
        done = json.loads((out / f"01-{config.stages[0].label}" / "stage.json").read_text(encoding="utf-8"))
        peak = done["peak_memory_bytes"] / (1 << 30)
        planned = plan.hours * 3600 / plan.steps
        cells = [
            stage["kind"],
            str(config.stages[0].batch_size),
            f"{plan.peak_gib:.2f}",
            f"{peak:.2f}",
            f"{plan.peak_gib / peak:.2f}",
        ]
        lines.append("| " + " | ".join([*cells, f"{planned:.2f}", f"{done['cpu_seconds_training'] / setting.steps:.2f}"]) + " |")
        print(lines[-1], flush=True)
    lines += ["", "- a whole process each, interpreter and libraries included; one torch thread"]
    lines += [f"- `python benchmarks/train.py plan --steps {setting.steps}`"]
    (HERE / "results" / "train-plan.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
