"""``certloop study``: what more examples bring, what a synthetic page is worth, and the history of rewards."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certloop.errors import UsageError

if TYPE_CHECKING:
    from certloop.train.study import StudyConfig

app = typer.Typer(
    help="Studies: more examples, real against synthetic pages, the history of reward versions.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Work here; the same command goes on where it stopped.")]
RunOption = Annotated[str, typer.Option("--run", metavar="RUN", help="A run file or a built-in run (default: nano's SFT).")]
HeldOption = Annotated[Path | None, typer.Option("--held-out", metavar="DIR", help="Packed rows that nothing is trained on.")]
SeedsOption = Annotated[int, typer.Option("--seeds", min=1, max=20, metavar="N", help="Repetitions with other rows and seeds.")]
StepsOption = Annotated[int, typer.Option("--steps", min=1, metavar="N", help="Optimiser steps of every arm.")]


@app.command("scaling")
def scaling_(
    out: OutOption,
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,N", help="Rows to train on, such as 450,950.")] = "64,256",
    rows: Annotated[Path | None, typer.Option("--rows", metavar="DIR", help="Packed rows to take them from.")] = None,
    held_out: HeldOption = None,
    run: RunOption = "",
    steps: StepsOption = 60,
    seeds: SeedsOption = 1,
) -> None:
    """What more examples bring: the same run on more and more rows, the same held-out pages, as a table. Without --rows, nano."""
    from certloop.train.study import scaling, scaling_table

    wanted = _sizes(sizes)
    if rows is None:
        config, _, rows = _nano(out, 0, max(wanted), steps, seeds)
    else:
        config = _config(run, held_out, out, steps, seeds)
    with redirect_stdout(sys.stderr):  # trainers print their losses
        arms = scaling(config, rows, wanted, _say)
    typer.echo(scaling_table(arms))


@app.command("substitution")
def substitution_(
    out: OutOption,
    real_sizes: Annotated[str, typer.Option("--real-sizes", metavar="N,N", help="Real rows to train on.")] = "16,48",
    synthetic_sizes: Annotated[str, typer.Option("--synthetic-sizes", metavar="N,N", help="Synthetic rows.")] = "48,192",
    real: Annotated[Path | None, typer.Option("--real", metavar="DIR", help="Packed rows of real pages.")] = None,
    synthetic: Annotated[Path | None, typer.Option("--synthetic", metavar="DIR", help="Packed rows of synthetic pages.")] = None,
    held_out: HeldOption = None,
    run: RunOption = "",
    steps: StepsOption = 60,
    seeds: SeedsOption = 1,
) -> None:
    """How many synthetic pages one real page is worth, on held-out real pages. Without --real, nano on forms it never saw."""
    from certloop.train.study import substitution, substitution_table

    sizes = _sizes(real_sizes), _sizes(synthetic_sizes)
    if real is None or synthetic is None:
        config, real, synthetic = _nano(out, max(sizes[0]), max(sizes[1]), steps, seeds)
    else:
        config = _config(run, held_out, out, steps, seeds)
    with redirect_stdout(sys.stderr):
        arms = substitution(config, real, synthetic, sizes, _say)
    typer.echo(substitution_table(arms))


@app.command("rewards")
def rewards(as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False) -> None:
    """The field reward step by step: the hack each version allowed, what forbids it since, and the test of that."""
    from dataclasses import asdict

    from certloop.agentrl.rewards.history import reward_history

    if as_json:
        for one in reward_history():
            typer.echo(json.dumps(asdict(one), ensure_ascii=False))
        return
    typer.echo("| version | reward | the hack it allowed | since | test |\n|---|---|---|---|---|")
    for one in reward_history():
        typer.echo(f"| {one.version} | {one.reward} | {one.hack} | {one.since} | `{one.test}` |")


def _nano(out: Path, real: int, synthetic: int, steps: int, seeds: int) -> tuple[StudyConfig, Path, Path]:
    import torch

    from certloop.train.study import nano_study

    torch.set_num_threads(1)
    return nano_study(out, real=real, synthetic=synthetic, held_out=100, steps=steps, seeds=seeds)


def _config(run: str, held_out: Path | None, out: Path, steps: int, seeds: int) -> StudyConfig:
    from certloop.train.config import load_config
    from certloop.train.study import StudyConfig

    if held_out is None or not run:
        raise UsageError("rows of your own need --held-out DIR and --run RUN, too")
    return StudyConfig(load_config(run), held_out, out, seeds, steps)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise UsageError("sizes are numbers of rows, such as 450,950")
    return sizes


def _say(line: str) -> None:
    typer.echo(line, err=True)
