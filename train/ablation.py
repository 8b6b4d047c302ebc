"""The reward's power and the normalisation of advantages, measured: {F1, F1^2, F1^4} x {group-normalised, not} (METHODS §2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from certloop.train.config import GspoStage, RunConfig
from certloop.train.errors import TrainConfigError
from certloop.train.evaluate import Evaluation, Interval, evaluate, mean_of_seeds, paired
from certloop.train.rows import Row, read_rows

POWERS = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Cell:
    """One setting over its seeds: the change of the held-out F1 and reward (power 4, for all alike) against the start."""

    power: float
    normalise: bool
    f1: tuple[Interval, ...]
    reward: tuple[Interval, ...]


def ablate(
    config: RunConfig, data: Path, held_out: Path, out: Path, *, seeds: int, say: Callable[[str], None] = lambda line: None
) -> list[Cell]:
    """Train the GSPO stage of ``config`` once for each cell and seed from the same start. Raises TrainConfigError without one."""
    from certloop.train.models import load_base, load_processor
    from certloop.train.run import run

    stage = next((s for s in config.stages if isinstance(s, GspoStage)), None)
    if stage is None:
        raise TrainConfigError("an ablation needs a run with a gspo stage")
    rows = read_rows(held_out)
    before = evaluate(load_base(config.student), load_processor(config.student), rows)
    cells = []
    for power in POWERS:
        for normalise in (True, False):
            f1, reward = [], []
            for seed in range(seeds):
                cell = stage.model_copy(update={"power": power, "normalise": normalise})
                name = f"f1-{power:g}-{'norm' if normalise else 'raw'}-{seed}"
                trained = config.model_copy(
                    update={
                        "name": name,
                        "seed": config.seed + seed,
                        "stages": (cell,),
                        "teacher": None,
                        "data": config.data.model_copy(update={"train": str(data)}),
                    }
                )
                model = run(trained, out / name, say)
                after = _evaluate(config, model, rows)
                f1.append(paired([p.f1 for p in after.pages], [p.f1 for p in before.pages]))
                reward.append(paired([p.reward for p in after.pages], [p.reward for p in before.pages]))
                say(f"{name}: F1 {f1[-1]}, reward {reward[-1]}")
            cells.append(Cell(power, normalise, tuple(f1), tuple(reward)))
    return cells


def ablation_table(cells: list[Cell]) -> str:
    """Markdown: a row for each cell, change against the start, mean over seeds and its standard error."""
    lines = ["| reward | advantages | change of F1 | change of reward (F1^4) | seeds |", "|---|---|---|---|---|"]
    for cell in cells:
        f1, f1_error = mean_of_seeds([i.mean for i in cell.f1])
        reward, reward_error = mean_of_seeds([i.mean for i in cell.reward])
        kind = "group-normalised" if cell.normalise else "only centred"
        lines.append(
            f"| F1^{cell.power:g} | {kind} | {f1:+.4f} ± {f1_error:.4f} | {reward:+.4f} ± {reward_error:.4f} | {len(cell.f1)} |"
        )
    return "\n".join(lines)


def _evaluate(config: RunConfig, model: Path, rows: list[Row]) -> Evaluation:
    from certloop.train.models import load_processor, load_student

    return evaluate(load_student(config.student, model), load_processor(config.student, model), rows)
