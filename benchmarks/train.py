"""Training studies on nano: what each method brings on held-out pages, with seeds and intervals. One command each.

    python benchmarks/train.py overhead        our step against a plain TRL script of the same configuration
    python benchmarks/train.py gkd             early student: SFT against distillation, the same number of student updates
    python benchmarks/train.py few-labels      64 labelled pages: SFT on them, or distillation on pages without a label
    python benchmarks/train.py gspo            GSPO, random reward, SFT on fresh labels in the same CPU time
    python benchmarks/train.py fixed-labels    500 labelled pages: SFT until it gains no more, then GSPO or more SFT
    python benchmarks/train.py no-labels       no label at all: what two reads agree on is the reward
    python benchmarks/train.py ablation        {F1, F1^2, F1^4} x {group-normalised, not}
    python benchmarks/train.py plan            the plan's memory and time against measured runs

Every arm starts from the same weights and is scored on the same held-out pages; nothing was tuned on them. Intervals are
bootstrap over pages, paired with the start. Times are CPU seconds of the process: a wall clock on a shared machine measures
others. Results are appended to OUT/STUDY.jsonl as they come (a killed study goes on); the table goes to benchmarks/results/.
"""

from __future__ import annotations

import argparse
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
FEW = 64
"""Labelled pages where labels are few."""
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


def study_gkd(setting: Setting) -> None:
    study = Study("gkd", setting)
    fast = {"learning_rate": 1e-3}
    arms: dict[str, tuple[bool, dict[str, Any]]] = {
        "SFT": (False, {}),
        "GKD lambda 0.5": (True, {"divergence": 0.5, "on_policy": 0.5}),
        "SFT, rate 1e-3": (False, fast),
        "GKD lambda 0.5, rate 1e-3": (True, {"divergence": 0.5, "on_policy": 0.5} | fast),
        "GKD on-policy": (True, {"divergence": 1.0}),
        "GKD on-policy, forward KL": (True, {"divergence": 0.0}),
        "GKD on-policy + 0.1 CE": (True, {"divergence": 1.0, "ce_weight": 0.1}),
        "GKD lambda 0.5 + CE": (True, {"divergence": 0.5, "on_policy": 0.5, "ce_weight": 1.0}),
    }
    notes = [
        f"{setting.steps} updates of 16 pages in every arm, the same pages for all arms of a seed; rate 2e-4 unless said",
        "SFT and lambda < 1 see the labels, purely on-policy distillation sees the teacher only",
    ]
    names = list(arms)
    for part in (names[:2], names[2:4], names[4:]):  # the main question with every seed first, then the variants
        for seed in range(setting.seeds):
            rows = study.rows("train", TRAIN_SEED + seed, 16 * setting.steps)
            for arm in part:
                distils, changes = arms[arm]
                study.arm(arm, seed, study.gkd if distils else study.sft, seed, rows, steps=setting.steps, **changes)
                study.save("SFT against distillation from an early student", notes)


def study_few(setting: Setting) -> None:
    """Few labels, endless pages: SFT goes over the few again and again, distillation learns from pages that nobody labelled."""
    study = Study("few-labels", setting)
    notes = [
        f"{setting.steps} updates of 16 pages in every arm: {FEW} labelled pages, or {16 * setting.steps} without a label",
        "on-policy distillation and SFT on the teacher's answers see no label, only the teacher; their pages are the same ones",
    ]
    for seed in range(setting.seeds):
        rows = study.rows("train", TRAIN_SEED + seed, 16 * setting.steps)
        study.arm(f"SFT on {FEW} labelled pages", seed, study.sft, seed, rows[:FEW], steps=setting.steps)
        study.arm("GKD on-policy, no labels", seed, study.gkd, seed, rows, steps=setting.steps, divergence=1.0)
        study.arm("SFT on the teacher's answers", seed, study.sft_on_answers, seed, rows, steps=setting.steps)
        against = study.against(f"SFT on {FEW} labelled pages")
        study.save("Few labels: SFT on them against distillation without any", [*notes, *against])


def study_gspo(setting: Setting) -> None:
    study = Study("gspo", setting)
    notes = [
        f"{setting.steps} updates, {setting.updates} on each generation of {setting.batch * setting.updates} answers in eights",
        "random: the same run with rewards that know nothing of the answer",
        "SFT: fresh labelled pages, for the CPU seconds of that seed's GSPO run",
    ]
    title = "GSPO from labels that never end"
    trained = {}
    for seed in range(setting.seeds):
        rows = study.rows("train", TRAIN_SEED + seed, 1000)
        trained[seed] = study.arm("GSPO", seed, study.gspo, seed, rows)
        study.save(title, notes)
    for seed in range(min(setting.seeds, 3)):
        rows = study.rows("train", TRAIN_SEED + seed, 1000)
        study.arm("random reward", seed, study.gspo, seed, rows, reward="random")
        study.save(title, notes)
    for seed in range(min(setting.seeds, 3)):
        rows = study.rows("train", TRAIN_SEED + seed, 1000)
        limit = {"steps": 2000, "cpu_s": trained[seed]["cpu_s"], "schedule": "constant", "learning_rate": 1e-4}
        study.arm("SFT, same CPU time", seed, study.sft, seed, rows, **limit)
        study.save(title, notes)


def study_fixed(setting: Setting) -> None:
    """500 pages are all there is. SFT until a dev set gains no more; then GSPO or more SFT on the same pages."""
    study = Study("fixed-labels", setting)
    rows = study.rows("fixed", TRAIN_SEED + 500, 500)
    dev = study.rows("dev", TRAIN_SEED + 900, 100)
    saturated = study.folder / "saturated"
    if not saturated.exists():
        _saturate(study, rows, dev, saturated)
    start = str(saturated)
    notes = [
        "500 labelled pages for everything; SFT, at rate 2e-4 and then 5e-5, until 100 further pages gained no more",
        "both arms go on from there",
        "gain on start: on the start of SFT",
    ]
    study.arm("SFT, saturated", 0, lambda: (study.student(start), {}))
    for seed in range(setting.seeds):
        line = study.arm("then GSPO", seed, study.gspo, seed, rows, start=start)
        study.arm(
            "then SFT, same CPU time",
            seed,
            study.sft,
            seed,
            rows,
            steps=2000,
            cpu_s=line["cpu_s"],
            start=start,
            learning_rate=5e-5,
            schedule="constant",
        )
        # a saturated model is sure of itself and its answers differ little: one run samples more widely and goes faster
        study.arm("then GSPO, warmer and faster", seed, study.gspo, seed, rows, start=start, temperature=1.2, learning_rate=1e-4)
        against = [*study.against("SFT, saturated"), *study.against("then SFT, same CPU time")]
        study.save("A fixed set of 500 labelled pages", [*notes, *against])


def _saturate(study: Study, rows: Sequence[Row], dev: Sequence[Row], out: Path) -> None:
    """SFT in blocks of two passes until two blocks in a row gain less than .002 of the dev set's F1, then the same at a quarter
    of the rate: a model that a high rate keeps from settling is not saturated. The best block is kept."""
    from certloop.train.models import save_model

    kept, best = Path(study.setting.start), -1.0
    for rate in (2e-4, 5e-5):
        path, stale = str(kept), 0
        for block in range(12):
            model, _ = study.sft(block, rows, steps=62, start=path, learning_rate=rate, schedule="constant")
            f1 = evaluate(model, study.processor(), dev).f1.mean
            print(f"saturation, rate {rate:g}, pass {2 * block + 2}: dev F1 {f1:.4f}", flush=True)
            stale = stale + 1 if f1 < best + 0.002 else 0
            last = study.folder / f"pass-{rate:g}-{block}"
            save_model(model, study.processor(), last, base_name="nano")
            path = str(last)
            if f1 > best:
                best, kept = f1, last
            if stale >= 2:
                break
    kept.rename(out)


def study_unlabelled(setting: Setting) -> None:
    """No label is used: the truth of a page is what two reads of it agree on and no validator contradicts."""
    study = Study("no-labels", setting)
    notes = [
        "reward: agreement with what two greedy reads of the start (the page, and the page shrunk) both saw",
        "a field whose validator fails gives no information and is left out",
    ]
    for seed in range(setting.seeds):
        rows = _pseudo(study, study.rows("unlabelled", TRAIN_SEED + 700 + seed, 600))
        study.arm("GSPO without labels", seed, study.gspo, seed, rows, reward="agreement")
        study.arm("SFT on what both reads saw", seed, study.sft, seed, _as_labels(rows), steps=setting.steps, learning_rate=1e-4)
        study.save("Without any label", notes)


def _pseudo(study: Study, rows: Sequence[Row]) -> list[Row]:
    import dataclasses

    from certloop.train.nano.vocabulary import nano_type
    from certloop.train.second_read import agreed_rows

    truths = {row.id: row.truth or {} for row in rows}
    kept = agreed_rows(rows, nano_type(), study.student(), study.processor(), study.folder, tokens=256)
    right = [value == truths[row.id].get(label) for row in kept for label, value in (row.second_read or {}).items()]
    share = sum(right) / max(len(right), 1)
    print(f"second reads: {len(kept)} of {len(rows)} pages, {share:.3f} of agreed values right", flush=True)
    return [dataclasses.replace(row, truth=None) for row in kept]


def _as_labels(rows: Sequence[Row]) -> list[Row]:
    import dataclasses

    from certloop.train.nano import answer_text

    return [
        dataclasses.replace(row, completion=answer_text({k: v for k, v in (row.second_read or {}).items() if v})) for row in rows
    ]


def study_ablation(setting: Setting) -> None:
    study = Study("ablation", setting)
    notes = ["scored by the same reward (power 4) and F1 whatever the run was trained with"]
    for seed in range(setting.seeds):
        rows = study.rows("train", TRAIN_SEED + seed, 1000)
        for power in (1.0, 2.0, 4.0):
            for normalise in (True, False):
                # only centred, advantages are about four times smaller: the rate is the same on purpose
                arm = f"F1^{power:g}, {'group-normalised' if normalise else 'only centred'}"
                study.arm(arm, seed, study.gspo, seed, rows, power=power, normalise=normalise)
                study.save("The reward's power and the normalisation of advantages", notes)


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


def _callback_base() -> Any:
    from transformers import TrainerCallback

    return TrainerCallback


class _StepClock(_callback_base()):
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


class _CpuBudget(_callback_base()):
    """Stops when the process used so many CPU seconds since training began."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if time.process_time() - self.began > self.seconds:
            control.should_training_stop = True


def bootstrap_ratio(ours: Sequence[float], plain: Sequence[float]) -> str:
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = np.asarray(ours), np.asarray(plain)
    drawn = [np.median(rng.choice(a, len(a))) / np.median(rng.choice(b, len(b))) for _ in range(2000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{np.median(a) / np.median(b):.3f} [{low:.3f}, {high:.3f}]"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _three(interval: Any) -> list[float]:
    return [round(x, 4) for x in (interval.mean, interval.low, interval.high)]


def study_plan(setting: Setting) -> None:
    """Short runs in processes of their own: the most memory each held, and its CPU seconds a step, beside the plan's."""
    import subprocess
    import sys

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


STUDIES = {
    "plan": study_plan,
    "overhead": study_overhead,
    "gkd": study_gkd,
    "few-labels": study_few,
    "gspo": study_gspo,
    "fixed-labels": study_fixed,
    "no-labels": study_unlabelled,
    "ablation": study_ablation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=sorted(STUDIES))
    parser.add_argument("--start", default="nano:early", help="the model every arm starts from")
    parser.add_argument("--teacher", default="nano:teacher", help="the teacher of distillation")
    parser.add_argument("--out", type=Path, default=Path("out/studies"), help="pages and raw results")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100, help="optimiser steps of an arm")
    parser.add_argument("--pages", type=int, default=200, help="held-out pages")
    parser.add_argument("--batch", type=int, default=32, help="answers an optimiser step (GSPO)")
    parser.add_argument("--updates", type=int, default=4, help="optimiser steps a generation (GSPO)")
    arguments = vars(parser.parse_args())
    import torch

    torch.set_num_threads(1)
    STUDIES[arguments.pop("study")](Setting(**arguments))


if __name__ == "__main__":
    main()
