"""``certloop train``: what a run will cost, the run itself, and the demonstration that takes minutes on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certloop.train.pack.command import pack_command
from certloop.train.teach.command import TemplatesOption, known_folders, teach

app = typer.Typer(
    help="Plan and run training: SFT, distillation, GSPO; on this machine, with ms-swift, or in the tinker cloud.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
ConfigArgument = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A run file (TOML), or a built-in name: nano, qwen3vl-4b, ...")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.callback()
def _known_folders(
    context: typer.Context,
    template_path: Annotated[str, typer.Option("--template-path", envvar="CERTLOOP_TEMPLATE_PATH", hidden=True)] = "",
) -> None:
    import os

    context.obj = tuple(Path(part) for part in template_path.split(os.pathsep) if part)


app.command("teach")(teach)
app.command("pack")(pack_command)


@app.command("plan")
def plan(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Say what a run takes before anything starts: memory on each device, hours, money. Loads no weights."""
    import json

    from certloop.train.backends import make_backend, make_spec
    from certloop.train.config import load_config
    from certloop.train.plan import plan_table

    spec = load_config(config)
    made = make_backend(spec.backend, Path()).plan(make_spec(spec))
    typer.echo(json.dumps(made.to_json(), ensure_ascii=False) if as_json else plan_table(made))


@app.command("run")
def run(
    config: ConfigArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The run's folder; the same command again resumes.")],
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Packed rows, in place of data.train.")] = None,
) -> None:
    """Train every stage of CONFIG in order, with the backend it names, and print where the model is.

    The swift backend trains nothing here: it prints the script to start on the cluster."""
    from certloop.train.backends.foreground import run_to_end
    from certloop.train.config import load_config

    spec = load_config(config)
    if data is not None:
        spec = spec.with_(data=spec.data.model_dump(exclude_none=True) | {"train": str(data)})
    typer.echo(run_to_end(spec, out, say=lambda line: typer.echo(line, err=True)))


@app.command("context-distill")
def context_distill(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The model folder that learns; a frozen copy of it is the teacher.")
    ],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Packed rows with a teacher_prompt each.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The run's folder.")],
    teacher: Annotated[str | None, typer.Option(metavar="MODEL", help="Another teacher of the same vocabulary.")] = None,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Optimiser steps.")] = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Rows a step.")] = 16,
    rate: Annotated[float, typer.Option(min=0, metavar="R", help="Learning rate.")] = 1e-5,
    length: Annotated[int, typer.Option("--answer-tokens", min=1, metavar="N", help="Longest answer, in tokens.")] = 512,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="cpu or cuda.")] = "cuda",
) -> None:
    """Teach a model to answer without help what it answers with help: the teacher sees each row's hints, the student does not."""
    from certloop.train.config import parse_config
    from certloop.train.run import run as train

    dtype = "float32" if device == "cpu" else "bfloat16"
    stage = {
        "kind": "context-distill",
        "learning_rate": rate,
        "batch_size": batch,
        "steps": steps,
        "max_completion_length": length,
    }
    spec = parse_config(
        {
            "name": "context-distill",
            "student": {"path": model, "dtype": dtype},
            "teacher": {"path": teacher or model, "dtype": dtype},
            "data": {"train": str(data)},
            "stages": [stage],
            "hardware": {"device": device},
        }
    )
    typer.echo(str(train(spec, out, say=lambda line: typer.echo(line, err=True))))


@app.command("second-read")
def second_read(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Pictures without labels, upright, one certificate each.", exists=True)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="ROWS", help='Rows for a gspo stage with reward = "agreement".')],
    doc_type: Annotated[str, typer.Option("--type", metavar="TYPE", help="Their document type.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help="The model folder that reads, and will be trained.")],
    templates: TemplatesOption = None,
    length: Annotated[int, typer.Option("--answer-tokens", min=1, metavar="N", help="Longest answer, in tokens.")] = 512,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="cpu or cuda.")] = "cuda",
) -> None:
    """Have a model read pictures twice; what both reads agree on, and no rule contradicts, is what it may learn from."""
    import json

    from certloop.templates import load_types
    from certloop.train.config import ModelSpec
    from certloop.train.models import load_base, load_processor, need_extra, without_bars
    from certloop.train.preflight import check_device
    from certloop.train.second_read import second_read as read_twice

    need_extra()
    without_bars()
    check_device(device)
    kind = load_types(tuple(str(p) for p in known_folders(context, templates))).get(doc_type)
    spec = ModelSpec(path=model, dtype="float32" if device == "cpu" else "bfloat16")
    found = read_twice(folder, kind, load_base(spec, frozen=True).to(device), load_processor(spec), out, tokens=length)
    typer.echo(json.dumps(found.to_json()))


@app.command("ablation")
def ablation(
    config: ConfigArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="One run folder for each cell of the table stands here.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Packed rows to train on.")],
    held_out: Annotated[Path, typer.Option("--eval", metavar="DIR", help="Packed rows to score on.")],
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each cell.")] = 3,
) -> None:
    """Measure {F1, F1^2, F1^4} x {group-normalised, not}: the GSPO stage of CONFIG once for each cell and seed, scored alike."""
    from certloop.train.ablation import ablate, ablation_table
    from certloop.train.config import load_config

    cells = ablate(load_config(config), data, held_out, out, seeds=seeds, say=lambda line: typer.echo(line, err=True))
    typer.echo(ablation_table(cells))


@app.command("nano")
def nano(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run.")] = Path("out/nano"),
    quick: Annotated[bool, typer.Option("--quick", help="The same stages on few pages; no quality.")] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of pages and training.")] = 0,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Train the model that comes with certloop again, from nothing, into DIR.")
    ] = False,
) -> None:
    """The whole pipeline on two CPU cores: pages, annotation, packing, SFT, distillation, GSPO, and what each brought."""
    if from_scratch:
        from certloop.train.nano.train import train_from_scratch

        typer.echo(str(train_from_scratch(out)))
        return
    from certloop.train.demo import demo

    typer.echo(demo(out, quick=quick, seed=seed, say=lambda line: typer.echo(line, err=True)))
