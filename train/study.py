"""What more examples bring, and what a synthetic page is worth: the same run on different rows, read on the same held-out pages.

Smaller sets are parts of larger ones, every arm takes the same number of steps, and each arm's numbers stay in its folder, so the
same command goes on where it stopped. Intervals are 95 %, by bootstrap over held-out pages; seeds change rows and training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certloop.train.config import RunConfig, load_config
from certloop.train.errors import TrainDataError
from certloop.train.evaluate import Evaluation, evaluate, paired, shuffled
from certloop.train.rows import Row, data_sha256, read_rows, write_rows

Say = Callable[[str], None]
REAL, SYNTHETIC, START = "real", "synthetic", "start"


@dataclass(frozen=True, slots=True)
class StudyConfig:
    """``run`` is the run without its rows; ``steps`` replaces the steps of each stage. Folders hold packed rows."""

    run: RunConfig
    held_out: Path
    out: Path
    seeds: int = 1
    steps: int | None = None
    max_new_tokens: int = 256


@dataclass(frozen=True, slots=True)
class Arm:
    """One trained model: where its rows come from, how many, and the reward of every held-out page, in order."""

    source: str
    rows: int
    seed: int
    rewards: tuple[float, ...]
    exact: dict[str, float]

    @property
    def mean(self) -> float:
        return math.fsum(self.rewards) / len(self.rewards)


def nano_study(out: Path, *, real: int, synthetic: int, held_out: int, steps: int, seeds: int) -> tuple[StudyConfig, Path, Path]:
    """Rows and run of a study with nano: forms it never saw, badly printed, stand for real pages; its own forms are synthetic.
    Held out are pages like the real ones, or like the synthetic ones where no real rows are wanted."""
    from certloop.train.nano_data import nano_rows

    held = ("unseen", 0.5) if real else ("seen", 0.0)
    for name, seed, n, layouts, worn in (
        (REAL, 8101, max(real, 1), "unseen", 0.5), (SYNTHETIC, 8102, synthetic, "seen", 0.0), ("held-out", 8103, held_out, *held),
    ):  # fmt: skip
        if not (out / name / "manifest.json").exists() or len(read_rows(out / name)) < n:
            nano_rows(out / name, seed, n, layouts=layouts, worn=worn)
    run = load_config("nano")
    run = run.with_(stages=[run.stages[0].model_dump(exclude_none=True)], name="study", checkpoint_every=10_000)
    return StudyConfig(run, out / "held-out", out, seeds, steps, 160), out / REAL, out / SYNTHETIC


def scaling(config: StudyConfig, rows: Path, sizes: Sequence[int], say: Say = lambda line: None) -> list[Arm]:
    """The same run on more and more rows, and the model it starts from."""
    arms = [_start(config)]
    for seed in range(config.seeds):
        for size in sorted(sizes):
            arms.append(_arm(config, SYNTHETIC, rows, size, seed))
            say(_line(arms[-1]))
    return arms


def substitution(
    config: StudyConfig,
    real: Path,
    synthetic: Path,
    sizes: tuple[Sequence[int], Sequence[int]],
    say: Say = lambda line: None,
) -> list[Arm]:
    """Real rows alone and synthetic rows alone, held out: real pages. ``sizes`` are those of real and of synthetic rows."""
    arms = [_start(config)]
    for seed in range(config.seeds):
        for source, rows, wanted in ((REAL, real, sizes[0]), (SYNTHETIC, synthetic, sizes[1])):
            for size in sorted(wanted):
                arms.append(_arm(config, source, rows, size, seed))
                say(_line(arms[-1]))
    return arms


def scaling_table(arms: Sequence[Arm]) -> str:
    """Markdown: reward by number of rows, and what each step to more rows brought on the same pages."""
    out = ["| rows | reward | gain over the line above, same pages | exact values by field |", "|---|---|---|---|"]
    before: list[float] | None = None
    for size in sorted({arm.rows for arm in arms}):
        here = [arm for arm in arms if arm.rows == size]
        rewards = _over_seeds(here)
        gain = "" if before is None else f"{paired(rewards, before)}"
        fields = ", ".join(f"{label} {rate:.2f}" for label, rate in _exact(here).items())
        out.append(f"| {size or 'none (the start)'} | {_spread(here)} | {gain} | {fields} |")
        before = rewards
    return "\n".join(out)


def substitution_table(arms: Sequence[Arm]) -> str:
    """Markdown: both curves, and how many synthetic rows reach what real rows reach."""
    start = next(arm.mean for arm in arms if arm.source == START)
    curve = [(0, start), *_curve(arms, SYNTHETIC)]
    out = ["| rows | source | reward | as many synthetic rows | one real row is worth |", "|---|---|---|---|---|"]
    out.append(f"| none | the start | {start:.3f} | | |")
    for size, reward in _curve(arms, SYNTHETIC):
        out.append(f"| {size} | synthetic | {reward:.3f} | {size} | |")
    for size, reward in _curve(arms, REAL):
        if reward <= start:
            out.append(f"| {size} | real | {reward:.3f} | none: below the start | |")
            continue
        needed, beyond = exchange(curve, reward)
        sign = "more than " if beyond else ""
        out.append(f"| {size} | real | {reward:.3f} | {sign}{needed:.0f} | {sign}{needed / size:.1f} |")
    return "\n".join(out)


def exchange(curve: Sequence[tuple[int, float]], reward: float) -> tuple[float, bool]:
    """How many rows of ``curve`` (rows, reward), rising in rows, reach ``reward``, between its points in a straight line over
    the logarithm of rows + 1; and whether even its last point does not (then the last number of rows)."""
    best, last = -math.inf, 0.0
    for rows, reached in curve:
        place = math.log1p(rows)
        if reached >= reward:
            if best == -math.inf or reached == best:
                return math.expm1(place), False
            return math.expm1(last + (place - last) * (reward - best) / (reached - best)), False
        if reached > best:
            best, last = reached, place
    return float(curve[-1][0]), True


def _curve(arms: Sequence[Arm], source: str) -> list[tuple[int, float]]:
    sizes = sorted({arm.rows for arm in arms if arm.source == source})
    return [(size, _mean([arm.mean for arm in arms if arm.source == source and arm.rows == size])) for size in sizes]


def _start(config: StudyConfig) -> Arm:
    from certloop.train.models import load_base, load_processor

    def read() -> Evaluation:
        model, processor = load_base(config.run.student), load_processor(config.run.student)
        return evaluate(model, processor, read_rows(config.held_out), max_new_tokens=config.max_new_tokens)

    return _kept(config, START, 0, 0, read)


def _arm(config: StudyConfig, source: str, rows: Path, size: int, seed: int) -> Arm:
    def read() -> Evaluation:
        from certloop.train.models import load_processor, load_student
        from certloop.train.run import run

        folder = config.out / "arms" / f"{source}-{size}-{seed}"
        chosen = _first(read_rows(rows), size, seed)
        data = config.run.data.model_dump(exclude_none=True) | {"train": str(_link(chosen, folder / "rows"))}
        stages = [stage.model_dump(exclude_none=True) for stage in config.run.stages]
        for stage in stages if config.steps else ():
            stage.pop("epochs", None)
            stage["steps"] = config.steps
        where = run(config.run.with_(seed=seed, data=data, stages=stages), folder / "run")
        model, processor = load_student(config.run.student, where), load_processor(config.run.student)
        return evaluate(model, processor, read_rows(config.held_out), max_new_tokens=config.max_new_tokens)

    return _kept(config, source, size, seed, read)


def _kept(config: StudyConfig, source: str, size: int, seed: int, read: Callable[[], Evaluation]) -> Arm:
    """An arm's numbers, read again where the same run was measured on the same pages."""
    path = config.out / "arms" / f"{source}-{size}-{seed}.json"
    mark = {"held_out": data_sha256(config.held_out), "run": config.run.to_dict(), "steps": config.steps}
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["mark"] == mark:
            return Arm(source, size, seed, tuple(known["rewards"]), known["exact"])
    found = read()
    body: dict[str, Any] = {"mark": mark, "rewards": [page.reward for page in found.pages], "exact": found.exact()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, ensure_ascii=False) + "\n", encoding="utf-8")
    return Arm(source, size, seed, tuple(body["rewards"]), body["exact"])


def _first(rows: Sequence[Row], size: int, seed: int) -> list[Row]:
    """The first ``size`` rows of the seed's order. Raises TrainDataError for more than there are."""
    if size > len(rows):
        raise TrainDataError(f"{size} rows were asked for, {len(rows)} are there")
    return shuffled(rows, seed)[:size]


def _link(rows: Sequence[Row], folder: Path) -> Path:
    """A folder of its own with links to the images."""
    from dataclasses import replace

    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    linked = []
    for row in rows:
        places = []
        for image in row.images:
            place = images / image.name
            if not place.exists():
                place.hardlink_to(image)
            places.append(place)
        linked.append(replace(row, images=tuple(places)))
    write_rows(folder, linked, source="study")
    return folder


def _over_seeds(arms: Sequence[Arm]) -> list[float]:
    return [_mean(rewards) for rewards in zip(*(arm.rewards for arm in arms), strict=True)]


def _exact(arms: Sequence[Arm]) -> dict[str, float]:
    return {label: _mean([arm.exact[label] for arm in arms]) for label in arms[0].exact}


def _spread(arms: Sequence[Arm]) -> str:
    from certloop.train.evaluate import bootstrap

    return f"{bootstrap(_over_seeds(arms))}" + (f", {len(arms)} seeds" if len(arms) > 1 else "")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _line(arm: Arm) -> str:
    return f"{arm.rows} {arm.source} rows, seed {arm.seed}: reward {arm.mean:.3f}"
