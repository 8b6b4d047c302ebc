"""What each stage of a run brought: a table for people, the numbers as JSON, and three plots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from certloop.train.evaluate import Evaluation, paired


@dataclass(frozen=True)
class Reached:
    """One model on the way: its name, its scores on held-out pages of seen and of unseen layouts, the seconds its stage took."""

    name: str
    seen: Evaluation
    unseen: Evaluation
    seconds: float = 0.0


def stage_table(reached: Sequence[Reached]) -> str:
    """Markdown: a row for each model; the gain is that of the mean reward over the row above, on the same pages."""
    labels = list(reached[0].seen.exact())
    head = ["model", "minutes", "field F1 [95 %]", "reward", "gain [95 %]", "unseen layouts F1", "JSON valid", *labels]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    before: Reached | None = None
    for model in reached:
        exact = model.seen.exact()
        gain = ""
        if before is not None:
            change = paired([p.reward for p in model.seen.pages], [p.reward for p in before.seen.pages])
            gain = f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
        cells = [
            model.name,
            f"{model.seconds / 60:.1f}" if model.seconds else "",
            str(model.seen.f1),
            f"{model.seen.reward.mean:.3f}",
            gain,
            str(model.unseen.f1),
            f"{model.seen.valid:.3f}",
            *(f"{exact.get(label, 0.0):.2f}" for label in labels),
        ]
        lines.append("| " + " | ".join(cells) + " |")
        before = model
    return "\n".join(lines)


def write_report(reached: Sequence[Reached], metrics: dict[str, Path], folder: Path) -> None:
    """``report.json``, ``report.md`` and three PNG plots: F1 by model, exact values by field, and the curves of each stage."""
    folder.mkdir(parents=True, exist_ok=True)
    data = [
        {"model": r.name, "seconds": round(r.seconds, 1), "seen": r.seen.to_json(), "unseen": r.unseen.to_json()} for r in reached
    ]
    (folder / "report.json").write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(stage_table(reached) + "\n", encoding="utf-8")
    _plot_f1(reached, folder / "f1.png")
    _plot_fields(reached, folder / "fields.png")
    _plot_curves(metrics, folder / "curves.png")


def _plot_f1(reached: Sequence[Reached], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for shift, kind, colour in ((-0.18, "seen", "#33658a"), (0.18, "unseen", "#f6ae2d")):
        f1 = [getattr(r, kind).f1 for r in reached]
        errors = [[i.mean - i.low for i in f1], [i.high - i.mean for i in f1]]
        places = [n + shift for n in range(len(reached))]
        axes.bar(places, [i.mean for i in f1], 0.34, yerr=errors, capsize=3, label=f"{kind} layouts", color=colour)
    axes.set_xticks(range(len(reached)), [r.name for r in reached])
    axes.set_ylabel("field F1, 95 % interval")
    axes.set_ylim(0, 1)
    axes.legend()
    figure.savefig(path, dpi=110)


def _plot_fields(reached: Sequence[Reached], path: Path) -> None:
    """Exact values by field; fields are numbered, because plotting fonts rarely hold Chinese (the table names them)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    labels = list(reached[0].seen.exact())
    for model in reached:
        exact = model.seen.exact()
        axes.plot(range(1, len(labels) + 1), [exact.get(label, 0.0) for label in labels], marker="o", label=model.name)
    axes.set_xticks(range(1, len(labels) + 1), [f"field {n}" for n in range(1, len(labels) + 1)])
    axes.set_ylabel("share of exact values")
    axes.set_ylim(0, 1.02)
    axes.legend()
    figure.savefig(path, dpi=110)


def _plot_curves(metrics: dict[str, Path], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * max(len(metrics), 1), 3.4), layout="constrained")
    for axes, (name, file) in zip(figure.subplots(1, max(len(metrics), 1), squeeze=False)[0], metrics.items(), strict=False):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
        kind = "reward" if any("reward" in line for line in lines) else "loss"
        points = [(line["step"], line[kind]) for line in lines if line.get(kind) is not None]
        axes.plot([step for step, _ in points], [value for _, value in points], color="#33658a")
        axes.set_title(name)
        axes.set_xlabel("step")
        axes.set_ylabel(kind)
    figure.savefig(path, dpi=110)
