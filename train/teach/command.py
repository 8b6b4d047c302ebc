"""``certloop train teach DIR``: have a teacher annotate labelled pages."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from certloop.train.teach.pages import LabelledPage


class Scripted(StrEnum):
    FULL = "full"
    BRIEF = "brief"


TemplatesOption = Annotated[
    list[Path] | None,
    typer.Option("--templates", metavar="DIR", help="Further document types, added to CERTLOOP_TEMPLATE_PATH (repeatable)."),
]


def known_folders(context: typer.Context, templates: list[Path] | None) -> list[Path]:
    """The folders of CERTLOOP_TEMPLATE_PATH, then those of ``--templates``: a later one wins."""
    return [*(context.obj or ()), *(templates or ())]


def teach(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the labelled pictures.", file_okay=False, exists=True)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Annotations; the same command again goes on.")],
    labels: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Labels, JSON Lines (repeatable; default: DIR/train.jsonl).")
    ] = None,
    url: Annotated[str, typer.Option(metavar="URL", help="An OpenAI-compatible server up to /v1, such as vLLM's.")] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="The server's name of the teacher.")] = "",
    key_file: Annotated[str, typer.Option(metavar="FILE", help="File of the server's key.")] = "",
    scripted: Annotated[
        Scripted | None, typer.Option(help="No model: fixed sentences from the labels' boxes (scripted-teacher).")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=512, metavar="N", help="Pages asked at a time.")] = 8,
    attempts: Annotated[int, typer.Option(min=1, max=20, metavar="N", help="Tries before a page is dropped.")] = 3,
    max_pixels: Annotated[int, typer.Option(min=1024, metavar="N", help="Largest page shown; the student's bound.")] = 2_097_152,
    min_pixels: Annotated[int, typer.Option(min=1024, metavar="N", help="Smallest page shown.")] = 65_536,
    timeout_s: Annotated[float, typer.Option(min=0.1, metavar="S", help="Longest silence of the server.")] = 300.0,
    price_prompt: Annotated[float, typer.Option(min=0, metavar="P", help="Price of a million prompt tokens.")] = 0.0,
    price_completion: Annotated[float, typer.Option(min=0, metavar="P", help="Price of a million answer tokens.")] = 0.0,
    templates: TemplatesOption = None,
    budget: Annotated[float, typer.Option(min=0, metavar="P", help="Stop when it has cost this much (0: no bound).")] = 0.0,
) -> None:
    """Write reasoning for labelled pages: what agrees with its label is kept, what does not is tried again, then dropped.

    Pages and their labels are sent to the server. Prints the counts as JSON; exits 1 when some page failed or was dropped.
    """
    import json

    from certloop.extract.engine.view import View
    from certloop.train.errors import TrainConfigError
    from certloop.train.teach.annotate import ScriptedTeacher, TeachConfig, annotate
    from certloop.train.teach.scripted import NAME

    if (scripted is None) == (not url):
        raise TrainConfigError("give the teacher's --url and --model, or --scripted full|brief")
    if url and not model:
        raise TrainConfigError("--url needs --model: the server's name of the teacher")
    pages = pages_of(folder, labels, known_folders(context, templates))
    config = TeachConfig(
        model=model or NAME,
        url=url,
        key_file=key_file,
        concurrency=concurrency,
        attempts=attempts,
        timeout_s=timeout_s,
        min_quoted=0.0 if scripted is Scripted.BRIEF else 0.5,
        price_prompt=price_prompt,
        price_completion=price_completion,
        budget=budget,
        view=View(min_pixels, max_pixels),
    )
    teacher = ScriptedTeacher(scripted.value) if scripted is not None else None
    tally = annotate(config, pages, out, teacher=teacher, progress=_progress)
    typer.echo(json.dumps(tally.to_json(), ensure_ascii=False))
    if tally.failed or tally.dropped:
        raise typer.Exit(1)


def pages_of(folder: Path, labels: list[Path] | None, templates: list[Path] | None) -> list[LabelledPage]:
    """The pages of all labels files; a page's split is its label's, else the file's name."""
    from dataclasses import replace

    from certloop.templates import load_types
    from certloop.train.teach.pages import load_pages

    registry = load_types(tuple(str(p) for p in templates or ()))
    out: list[LabelledPage] = []
    for file in labels or [folder / "train.jsonl"]:
        out += [replace(page, split=page.split or file.stem) for page in load_pages(folder, file, registry)]
    return out


def _progress(done: int, total: int) -> None:
    import sys

    if sys.stderr.isatty() and (done % 10 == 0 or done == total):
        typer.echo(f"\r{done}/{total} pages", err=True, nl=done == total)
