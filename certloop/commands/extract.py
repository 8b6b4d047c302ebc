"""``certloop extract PATH...``: read files into a table, JSON Lines, CSV or XLSX, and record them in a store."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certloop.commands.store import actor, store_cipher
from certloop.errors import UsageError
from certloop.extract.export import printable
from certloop.output import Format, chosen_format, open_writer

if TYPE_CHECKING:
    from certloop.extract import ExtractConfig
    from certloop.extract.result import Result
    from certloop.settings import Settings
    from certloop.templates import Registry

Record = Callable[[Path | bytes, "Result"], "Result"]
MAX_STEM_BYTES = 200  # of a picture's name; the rest is for its number, page and suffix
EXIT_ALL_READ, EXIT_SOME_FAILED, EXIT_NOTHING_READ = 0, 1, 3


class Use(StrEnum):
    """As ``agentrl.trajectory.Consent``, which loads with the store."""

    NONE = "none"
    TENANT = "tenant"
    SHARED = "shared"


def extract(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, patterns, or - for standard input.")],
    doc_type: Annotated[
        str | None, typer.Option("--type", metavar="T", help="Take every document for this type (see `certloop types`).")
    ] = None,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="What is written (default: by the suffix of --output, else table).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to standard output.")
    ] = None,
    annotate: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also draw each page with labelled boxes into DIR.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, metavar="N", help="Worker processes (default: CERTLOOP_WORKERS or 1).")
    ] = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Descend into the folders of a folder.")] = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Record each document here (sqlite:///FILE or postgresql://...).")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="T", help="Whose documents (default: default).")] = None,
    consent: Annotated[
        Use | None, typer.Option("--consent", help="What they may be used for in training (default: none).")
    ] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", metavar="WORDS", help="What the consent was given for.")] = None,
) -> None:
    """Read certificates. Results come in input order; data goes to standard output, progress to standard error.

    With --store each document's pages, steps and answer are recorded, and its JSON carries a trajectory_id.

    Exit codes: 0 every file was read, 1 some file failed, was read in part or could not be annotated, 2 the command makes no
    sense, 3 nothing could be read.
    """
    from certloop.settings import Settings
    from certloop.sources import collect
    from certloop.templates import load_types

    kind = chosen_format(output_format, output)
    settings = Settings.load()
    config = settings.extract_config()
    types = load_types(config.template_path)
    if doc_type is not None:
        types.get(doc_type)
    sources = collect(paths, recursive=recursive)
    if output is not None and any(_same(output, source) for source in sources.files):
        raise UsageError(f"--output {output} is one of the files to read: results would replace the scan")
    for problem in sources.problems:
        _complain(f"warning: {problem}")
    if sources.skipped:
        names = ", ".join(p.name for p in sources.skipped[:5])
        typer.echo(printable(f"skipped {len(sources.skipped)} other files: {names}"), err=True)

    from certloop.extract.batch import read_many

    statuses: Counter[str] = Counter()
    titles = {name: known.title for name, known in types.types.items()}
    draw = _annotator(annotate, config, titles)
    undrawn = 0
    with ExitStack() as stack:
        record = stack.enter_context(_recorder(store, settings, config, types, tenant, consent, purpose))
        writer = stack.enter_context(open_writer(kind, output, titles))
        on_progress = stack.enter_context(_progress(len(sources.files)))
        results = read_many(
            sources.files, config, workers=workers or settings.workers, doc_type=doc_type, on_progress=on_progress
        )
        stack.enter_context(_told_when_interrupted(statuses, len(sources.files)))
        for source, read in zip(sources.files, results, strict=True):
            result = record(source, read)
            writer.write(result)
            statuses[result.status.value] += 1
            if (why := draw(source, result)) is not None:
                undrawn += 1
                _complain(f"{result.file}: warning: not annotated: {why}")
            if result.error is not None and not (kind is Format.TABLE and output is None):  # there it stands in the table
                _complain(f"{result.file}: error[{result.error['code']}]: {result.error['message']}")
    if len(sources.files) > 1:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        typer.echo(f"{len(sources.files)} files: {counts}", err=True)
    raise typer.Exit(exit_code(statuses) or (EXIT_SOME_FAILED if undrawn else EXIT_ALL_READ))


def _same(output: Path, source: Path | bytes) -> bool:
    """Whether the two are one file, by whatever names."""
    try:
        return isinstance(source, Path) and output.samefile(source)
    except OSError:
        return False


@contextmanager
def _told_when_interrupted(statuses: Counter[str], total: int) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if total > 1:
            _complain(f"interrupted: {statuses.total()} of {total} files were read")
        raise


def exit_code(statuses: Counter[str]) -> int:
    if statuses["ok"] == statuses.total():
        return EXIT_ALL_READ
    return EXIT_NOTHING_READ if statuses["failed"] == statuses.total() else EXIT_SOME_FAILED


def _complain(message: str) -> None:
    typer.echo(printable(message), err=True)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error when a person watches it."""
    import sys

    if total < 2 or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    bar = Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task("reading", total=total)
        yield lambda done, _total: bar.update(task, completed=done)


@contextmanager
def _recorder(
    url: str | None,
    settings: Settings,
    config: ExtractConfig,
    types: Registry,
    tenant: str | None,
    consent: Use | None,
    purpose: str | None,
) -> Iterator[Record]:
    """A function that records one result and returns it with its trajectory ids; without a store it changes nothing.

    The store is opened before anything is read: a wrong address or key stops the command.
    """
    if url is None:
        if (tenant, consent, purpose) != (None, None, None):
            raise UsageError("--tenant, --consent and --purpose say how documents are recorded: add --store URL")
        yield lambda _source, result: result
        return
    from certloop.agentrl.store import Store
    from certloop.agentrl.trajectory import Consent
    from certloop.extract.ingest import Decoder
    from certloop.extract.recording import Recorder, Terms

    terms = Terms("default" if tenant is None else tenant, Consent((consent or Use.NONE).value), purpose or "", actor())
    with Store.open(url, settings.blob_url, cipher=store_cipher(settings)) as store:
        store.for_tenant(terms.tenant)
        decoder = Decoder()
        try:
            yield Recorder(store, terms, types, config.limits, decoder).record
        finally:
            decoder.close()


def _annotator(
    folder: Path | None, config: ExtractConfig, titles: Mapping[str, str]
) -> Callable[[Path | bytes, Result], str | None]:
    """A function that draws one result's pages as ``DIR/<stem>_p<page>.png``; a stem used before becomes ``<stem>~2``.

    It returns what kept it from drawing, in words, or None: a picture that cannot be made stops nothing else.
    """
    if folder is None:
        return lambda _source, _result: None
    from certloop import CertloopError
    from certloop.extract.annotate import annotate
    from certloop.extract.ingest import ingest

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write pictures to {folder}: {error.strerror}") from None
    used: Counter[str] = Counter()

    def draw(source: Path | bytes, result: Result) -> str | None:
        if not result.documents:
            return None
        stem = "stdin" if isinstance(source, bytes) else _shortened(source.stem)
        used[stem.casefold()] += 1
        if (nth := used[stem.casefold()]) > 1:
            stem = f"{stem}~{nth}"
        try:
            pages = ingest(source, config.limits).pages
            for page, picture in zip(pages, annotate(result, pages, titles), strict=True):
                picture.save(folder / f"{stem}_p{page.index + 1}.png")
        except CertloopError as error:
            return f"error[{error.code}]: {error.message}"
        except OSError as error:
            return f"cannot write to {folder}: {error.strerror or type(error).__name__}"
        return None

    return draw


def _shortened(stem: str) -> str:
    """A name that leaves room for what is added to it."""
    return os.fsencode(stem)[:MAX_STEM_BYTES].decode("utf-8", "ignore") if len(os.fsencode(stem)) > MAX_STEM_BYTES else stem
