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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from train_cost import study_overhead, study_plan
from train_study import TRAIN_SEED, Setting, Study

from certloop.train.evaluate import evaluate
from certloop.train.rows import Row

FEW = 64
"""Labelled pages where labels are few."""


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
