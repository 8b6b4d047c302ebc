"""What the training studies have in common: the setting, held-out pages, arms whose results are kept as they come, the table."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from certloop.train.config import RunConfig, parse_config
from certloop.train.evaluate import Evaluation, evaluate, mean_of_seeds, paired, read_rows_with
from certloop.train.nano_data import nano_rows
from certloop.train.rows import Row, read_rows

HERE = Path(__file__).resolve().parent
HELD_OUT_SEED, TRAIN_SEED = 770_001, 31_000
GSPO = {
    "kind": "gspo", "learning_rate": 5e-5, "warmup_steps": 5, "beta2": 0.99, "group_size": 8, "temperature": 0.8,
    "max_completion_length": 160, "schedule": "linear", "max_entropy_growth": 6.0,
}  # fmt: skip
SFT = {"kind": "sft", "batch_size": 16, "learning_rate": 2e-4, "warmup_steps": 5, "beta2": 0.99, "schedule": "linear"}
GKD = {"kind": "distill", "batch_size": 16, "learning_rate": 2e-4, "warmup_steps": 5, "beta2": 0.99, "max_completion_length": 160}


@dataclass(frozen=True)
class Setting:
    """What a study runs with."""

    start: str
    teacher: str
    out: Path
    seeds: int
    steps: int
    pages: int
    batch: int
    updates: int


class Study:
    """Results so far, and the work common to all studies."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.name, self.setting = name, setting
        self.folder = setting.out / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = setting.out / f"{name}.jsonl"
        self.held = self.rows("held-out", HELD_OUT_SEED, setting.pages)
        self.start = self._start()

    def rows(self, name: str, seed: int, n: int, **kind: Any) -> list[Row]:
        folder = self.setting.out / "pages" / f"{name}-{seed}-{n}"
        if not (folder / "manifest.json").exists():
            nano_rows(folder, seed, n, **kind)
        return read_rows(folder)

    def config(self, seed: int, *stages: dict[str, Any], start: str | None = None) -> RunConfig:
        return parse_config(
            {
                "name": self.name,
                "seed": seed,
                "student": {"path": start or self.setting.start, "dtype": "float32"},
                "teacher": {"path": self.setting.teacher, "dtype": "float32"},
                "data": {"train": "rows"},
                "hardware": {"device": "cpu"},
                "checkpoint_every": 10**6,
                "stages": list(stages),
            }
        )

    def arm(
        self, arm: str, seed: int, work: Callable[..., tuple[Any, dict[str, Any]]], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Run one arm with one seed unless it is there already; ``work`` returns the trained model and what else to keep."""
        for line in self.lines():
            if (line["arm"], line["seed"]) == (arm, seed):
                return line
        began = time.process_time()
        model, extra = work(*args, **kwargs)
        cpu = time.process_time() - began
        after = evaluate(model, self.processor(), self.held)
        line = {"arm": arm, "seed": seed, "cpu_s": round(cpu, 1), **extra, "score": after.to_json()}
        line["gain"] = _three(paired([p.reward for p in after.pages], [p.reward for p in self.start.pages]))
        line["f1_gain"] = _three(paired([p.f1 for p in after.pages], [p.f1 for p in self.start.pages]))
        line["rewards"] = [round(p.reward, 4) for p in after.pages]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(f"{arm} {seed}: reward {after.reward} gain {line['gain']} cpu {cpu:.0f} s {extra}", flush=True)
        return line

    def lines(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines() if '"arm": "start"' not in line]

    def processor(self) -> Any:
        from certloop.train.models import load_processor

        return load_processor(self.config(0, SFT | {"steps": 1}).student)

    def student(self, path: str | None = None) -> Any:
        from certloop.train.models import load_base

        return load_base(self.config(0, SFT | {"steps": 1}, start=path).student)

    def _start(self) -> Evaluation:
        evaluation = evaluate(self.student(), self.processor(), self.held)
        print(f"start: reward {evaluation.reward} F1 {evaluation.f1} valid {evaluation.valid:.3f}", flush=True)
        return evaluation

    def sft(
        self, seed: int, rows: Sequence[Row], *, steps: int, cpu_s: float | None = None, start: str | None = None, **changes: Any
    ):
        from certloop.train.sft import sft_trainer

        config = self.config(seed, SFT | {"steps": steps} | changes, start=start)
        stops = [_CpuBudget(cpu_s)] if cpu_s is not None else []
        trainer = sft_trainer(config, config.stages[0], self.student(start), self.processor(), rows, self.folder, stops)
        trainer.train()
        return trainer.model, {"steps": trainer.state.global_step}

    def gspo(self, seed: int, rows: Sequence[Row], *, start: str | None = None, **changes: Any):
        from certloop.train.gspo import gspo_trainer
        from certloop.train.models import load_base

        setting = self.setting
        stage = GSPO | {
            "steps": setting.steps,
            "batch_size": setting.batch,
            "updates_per_generation": setting.updates,
            "kl_every": 5,
        }
        config = self.config(seed, stage | changes, start=start)
        begin = load_base(config.student, frozen=True)
        trainer = gspo_trainer(
            config, config.stages[0], self.student(start), self.processor(), rows, self.folder, start_model=begin
        )
        trainer.train()
        logs = trainer.state.log_history
        kept: dict[str, Any] = {"steps": trainer.state.global_step}
        for name in ("reward", "kl_from_start", "entropy", "groups_kept"):
            values = [entry[name] for entry in logs if entry.get(name) is not None]
            kept[name] = [round(values[0], 4), round(values[-1], 4)] if values else None
        clipped = [entry["clip_ratio/region_mean"] for entry in logs if "clip_ratio/region_mean" in entry]
        kept["clipped"] = round(math.fsum(clipped) / max(len(clipped), 1), 3)
        return trainer.model, kept

    def gkd(self, seed: int, rows: Sequence[Row], *, steps: int, **changes: Any):
        from certloop.train.distill import distill_trainer
        from certloop.train.models import load_base

        config = self.config(seed, GKD | {"steps": steps} | changes)
        assert config.teacher is not None
        teacher = load_base(config.teacher, frozen=True)
        trainer = distill_trainer(config, config.stages[0], self.student(), teacher, self.processor(), rows, self.folder)
        trainer.train()
        return trainer.model, {"steps": trainer.state.global_step}

    def sft_on_answers(self, seed: int, rows: Sequence[Row], *, steps: int) -> tuple[Any, dict[str, Any]]:
        """SFT where the teacher's greedy answer stands for the label."""
        import dataclasses

        from certloop.train.models import load_base

        config = self.config(seed, GKD | {"steps": steps})
        assert config.teacher is not None
        answers = read_rows_with(load_base(config.teacher, frozen=True), self.processor(), rows)
        said = [dataclasses.replace(row, completion=answer, truth=None) for row, answer in zip(rows, answers, strict=True)]
        return self.sft(seed, said, steps=steps)

    def against(self, arm: str) -> list[str]:
        """Every other arm's mean reward less ``arm``'s, seed by seed (or less its only seed's), with the paired 95 % bootstrap
        interval over pages."""
        runs = {(line["arm"], line["seed"]): line["rewards"] for line in self.lines()}
        out: dict[str, list[str]] = {}
        for (name, seed), rewards in runs.items():
            other = runs.get((arm, seed), runs.get((arm, 0)))
            if name != arm and other:
                gain, low, high = _three(paired(rewards, other))
                out.setdefault(name, []).append(f"seed {seed}: {gain:+.3f} [{low:+.3f}, {high:+.3f}]")
        return [f"{name} against {arm}, reward: {'; '.join(each)}" for name, each in out.items()]

    def table(self, title: str, notes: Sequence[str]) -> str:
        """Markdown: an arm a row, mean over seeds, and each field's exact rate."""
        arms: dict[str, list[dict[str, Any]]] = {}
        for line in self.lines():
            arms.setdefault(line["arm"], []).append(line)
        exact = self.start.exact()
        fields = list(exact)
        head = ["arm", "seeds", "steps", "CPU s", "reward", "gain on start", "each seed's gain [95 %]", "F1", "JSON", *fields]
        lines = [f"# {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        first = self.start.to_json()
        cells = ["start", "", "", "", f"{first['reward'][0]:.3f}", "", "", f"{first['f1'][0]:.3f}", f"{first['json_valid']:.3f}"]
        lines.append("| " + " | ".join([*cells, *(f"{exact[f]:.2f}" for f in fields)]) + " |")
        for arm, runs in arms.items():
            gains = [run["gain"][0] for run in runs]
            mean, error = mean_of_seeds(gains)
            each = "; ".join(f"{g[0]:+.3f} [{g[1]:+.3f}, {g[2]:+.3f}]" for g in (run["gain"] for run in runs))
            cells = [
                arm,
                str(len(runs)),
                str(runs[0].get("steps", "")),
                f"{_mean([r['cpu_s'] for r in runs]):.0f}",
                f"{_mean([r['score']['reward'][0] for r in runs]):.3f}",
                f"{mean:+.3f} ± {error:.3f}" if len(runs) > 1 else f"{mean:+.3f}",
                each,
                f"{_mean([r['score']['f1'][0] for r in runs]):.3f}",
                f"{_mean([r['score']['json_valid'] for r in runs]):.3f}",
                *(f"{_mean([r['score']['exact'].get(f, 0.0) for r in runs]):.2f}" for f in fields),
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines += ["", *(f"- {note}" for note in [*notes, *self._about()])]
        return "\n".join(lines) + "\n"

    def _about(self) -> list[str]:
        setting = self.setting
        start, teacher = (p if p.startswith("nano:") else Path(p).name for p in (setting.start, setting.teacher))
        options = f"--seeds {setting.seeds} --steps {setting.steps} --pages {setting.pages}"
        return [
            f"start {start}, teacher {teacher}; {len(self.held)} held-out pages of seen layouts, never used otherwise",
            "gain: change of the mean reward 0.05 + 0.95 F1^4 against the start on the same pages",
            "± is the standard error over seeds, brackets are 95 % paired bootstrap intervals over pages",
            f"`python benchmarks/train.py {self.name} {options} --batch {setting.batch} --updates {setting.updates}`",
        ]

    def save(self, title: str, notes: Sequence[str]) -> None:
        text = self.table(title, notes)
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / f"train-{self.name}.md").write_text(text, encoding="utf-8")
        print(text)


def callback_base() -> Any:
    from transformers import TrainerCallback

    return TrainerCallback


class _CpuBudget(callback_base()):
    """Stops when the process used so many CPU seconds since training began."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if time.process_time() - self.began > self.seconds:
            control.should_training_stop = True


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _three(interval: Any) -> list[float]:
    return [round(x, 4) for x in (interval.mean, interval.low, interval.high)]
