"""``certloop evaluate DIR --labels labels.jsonl``: how well a folder of labelled files is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from certloop.extract.evaluation import LabelRow
    from certloop.extract.result import Result
    from certloop.settings import Settings


def evaluate(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the labelled files.", file_okay=False, exists=True)
    ],
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON Lines, one labelled file a line (default: DIR/labels.jsonl).")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Score this output of `certloop extract --format jsonl`; read nothing.")
    ] = None,
    html_file: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the worst cases.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the whole report as JSON.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=256, metavar="N", help="Worker processes.")] = None,
    doc_type: Annotated[str | None, typer.Option("--type", metavar="T", help="Take every document for this type.")] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also compare with this output of `extract`, document by document.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the bootstrap in --json and --against.")] = 0,
) -> None:
    """Compare what is read with labels: strict matches, F1, invented values, confidence, by type and by field.

    Whatever engine CERTLOOP_ENGINE names reads; of a model the report also says how many answers were valid JSON.

    Reads the labelled files that stand in DIR. Exits 0 when the report was made, whatever it says, and 2 when it cannot be made.
    Reports hold real values: treat them like the documents.
    """
    from certloop.extract import evaluation
    from certloop.settings import Settings
    from certloop.templates import load_types

    settings = Settings.load()
    truth = evaluation.read_labels(labels or folder / "labels.jsonl")
    answers = evaluation.read_results(results) if results is not None else _read(folder, truth, settings, workers, doc_type)
    schema = evaluation.schema_from_registry(load_types(settings.template_path))
    report = evaluation.evaluate(answers, truth, schema)
    compared = None if against is None else evaluation.evaluate(evaluation.read_results(against), truth, schema)
    if json_file is not None:
        text = json.dumps(report.to_json(seed=seed), ensure_ascii=False, indent=2) + "\n"
        with _said(json_file):  # half a surrogate pair, as in a file's name that is no text, stays a JSON escape
            json_file.write_text(text, encoding="utf-8", errors="backslashreplace")
    if html_file is not None:
        with _said(html_file):
            evaluation.write_html(report, folder, html_file)
    typer.echo(report.to_table())
    if compared is not None:
        gains = "; ".join(f"{name} {gain}" for name, gain in report.against(compared, seed=seed).items())
        typer.echo(f"gain over {against.name if against else ''}, paired, 95 % bootstrap: {gains}")


@contextmanager
def _said(path: Path) -> Iterator[None]:
    from certloop.errors import UsageError

    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or path}: {error.strerror or type(error).__name__}") from None


def _read(
    folder: Path, truth: tuple[LabelRow, ...], settings: Settings, workers: int | None, doc_type: str | None
) -> list[Result]:
    """Read the labelled files that exist; a label without its file counts as nothing read."""
    from certloop.errors import UsageError
    from certloop.extract.batch import read_many

    files: list[Path | bytes] = [folder / row.file for row in truth if (folder / row.file).is_file()]
    if not files:
        sought = ", ".join(str(folder / row.file) for row in truth[:3]) + (", ..." if len(truth) > 3 else "")
        raise UsageError(f"none of the {len(truth)} labelled files stands in {folder}: looked for {sought}")
    config = settings.extract_config()
    return list(read_many(files, config, workers=workers or settings.workers, doc_type=doc_type))
