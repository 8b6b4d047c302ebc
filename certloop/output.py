"""How results are printed: a table for people, or what ``extract.export`` writes; one result at a time, in input order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from certloop.errors import UsageError
from certloop.extract.export import CsvWriter, JsonlWriter, XlsxWriter, failed_checks, missing_labels, printable
from certloop.sources import NAMES_OF_PAGES

if TYPE_CHECKING:
    from certloop.extract.result import Document, FieldResult, Result

TABLE_WIDTH = 120
_SUFFIXES: dict[str, str] = {".xlsx": "xlsx", ".csv": "csv", ".jsonl": "jsonl"}


class Format(StrEnum):
    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    XLSX = "xlsx"


def chosen_format(asked: Format | None, output: Path | None) -> Format:
    """The format asked for, else that of the output's suffix, else a table. Raises UsageError where the two contradict, and for a
    name that belongs to something else: a forgotten value makes a shell's ``--output *.jpg`` name a scan."""
    suffix = "" if output is None else output.suffix.lower()
    if suffix in NAMES_OF_PAGES:
        raise UsageError(f"--output is where results go, and {output} is named as a scan: give it *.xlsx, *.csv or *.jsonl")
    if suffix == ".json" and asked is None:
        raise UsageError(f"{output}: results are one JSON object a line; name it *.jsonl, or say which --format")
    by_suffix = _SUFFIXES.get(suffix)
    if asked is None:
        return Format(by_suffix or Format.TABLE)
    if by_suffix not in (None, asked.value):
        raise UsageError(f"--format {asked.value} does not fit an output named *.{by_suffix}: change one of them")
    return asked


class Writer(Protocol):
    def write(self, result: Result) -> None: ...

    def close(self) -> None: ...


@contextmanager
def open_writer(kind: Format, output: Path | None, titles: Mapping[str, str] | None = None) -> Iterator[Writer]:
    """A writer to ``output`` or to standard output, closed at the end. Raises UsageError when that cannot be written, but
    BrokenPipeError where the reader is gone. ``titles`` names types by id, for documents that show no title of their own.

    A workbook is whole or not there: it takes its name when it is written, and what had that name before stays until then."""
    if kind is Format.XLSX and output is None and sys.stdout.isatty():
        raise UsageError("xlsx is binary: add --output FILE.xlsx or send it through a pipe")
    place = output
    if kind is Format.XLSX and output is not None and (output.is_file() or not output.exists()):
        place = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        stream = _open(kind, place)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    try:
        with _told_as_usage(output):
            writer = TableWriter(stream, titles) if kind is Format.TABLE else _WRITERS[kind](stream)
        yield _Telling(writer, output)
        with _told_as_usage(output):
            writer.close()
            stream.flush()
            if place is not None and place is not output:
                stream.close()
                place.replace(output or place)
    finally:
        if output is not None:
            with _told_as_usage(output):
                stream.close()
        if place is not None and place is not output:
            place.unlink(missing_ok=True)


@contextmanager
def _told_as_usage(output: Path | None) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"cannot write {output or 'standard output'}: {error.strerror}") from None


class _Telling:
    """A writer whose full disk is a UsageError."""

    def __init__(self, writer: Writer, output: Path | None) -> None:
        self._writer, self._output = writer, output

    def write(self, result: Result) -> None:
        with _told_as_usage(self._output):
            self._writer.write(result)

    def close(self) -> None:
        """``open_writer`` closes."""


def _open(kind: Format, output: Path | None) -> IO[Any]:
    if kind is Format.XLSX:
        return sys.stdout.buffer if output is None else output.open("wb")
    if output is None:
        # A lone surrogate (a file name that is not UTF-8) becomes \udcXX, which is also its JSON escape.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        return sys.stdout
    # Excel takes a CSV file for UTF-8 only when it starts with a byte order mark; a pipe gets none.
    encoding = "utf-8-sig" if kind is Format.CSV else "utf-8"
    return output.open("w", encoding=encoding, errors="backslashreplace", newline="")


class TableWriter:
    """One table per document, for people."""

    def __init__(self, stream: IO[str], titles: Mapping[str, str] | None = None) -> None:
        from rich.console import Console

        self._titles = titles or {}
        self._console = Console(file=stream, width=None if stream.isatty() else TABLE_WIDTH, highlight=False)

    def write(self, result: Result) -> None:
        from rich.text import Text

        if not result.documents:
            why = "no certificate found" if result.error is None else f"{result.error['code']}: {result.error['message']}"
            self._console.print(Text(printable(f"{result.file}  {result.status.value}: {why}"), style="bold red"))
        for number, document in enumerate(result.documents, start=1):
            if document.doc_type == "unknown" and not document.fields:
                line = f"{result.file}{_count(result, number)}  no known certificate type"
                self._console.print(Text(printable(line), style="bold"))
                continue
            self._console.print(self._table(result, number, document))
            if document.missing:
                self._console.print(Text(printable(f"missing: {', '.join(missing_labels(document))}"), style="yellow"))
        if result.documents and result.error is not None:
            why = f"  {result.status.value}: {result.error['code']}: {result.error['message']}"
            self._console.print(Text(printable(why), style="bold red"))
        for warning in result.warnings:
            self._console.print(Text(printable(f"  warning {warning.get('code')}: {warning.get('message')}"), style="yellow"))

    def _table(self, result: Result, number: int, document: Document) -> Any:
        from rich.table import Table
        from rich.text import Text

        name = document.title or self._titles.get(document.doc_type, "")
        title = f"{result.file}{_count(result, number)}  {name} [{document.doc_type} {document.type_confidence:.2f}]"
        table = Table(title=Text(printable(title), style="bold"), title_justify="left", expand=False)
        table.add_column("Field", no_wrap=True)
        table.add_column("Value", overflow="fold")
        table.add_column("Conf.", justify="right", no_wrap=True)
        table.add_column("Checks", overflow="fold")
        for field in document.fields.values():
            if field.status.value == "absent":
                continue
            value = Text(printable(field.value)) if field.value is not None else Text(f"({field.status.value})", style="dim")
            table.add_row(Text(field.label), value, _confidence(field), _checks(field))
        for verdict in document.validations:
            if verdict.failed:
                table.add_row("", "", "", Text(printable(f"✗ {verdict.message_zh}"), style="red"))
        return table

    def close(self) -> None:
        """Nothing is held back."""


def _count(result: Result, number: int) -> str:
    return f" ({number} of {len(result.documents)})" if len(result.documents) > 1 else ""


def _confidence(field: FieldResult) -> Any:
    """A low one is yellow, and has a question mark where there is no colour."""
    from rich.text import Text

    from certloop.extract.annotate import LOW_CONFIDENCE

    low = field.value is not None and field.confidence < LOW_CONFIDENCE
    return Text(f"?{field.confidence:.2f}", style="yellow") if low else Text(f"{field.confidence:.2f}")


def _checks(field: FieldResult) -> Any:
    from rich.text import Text

    if failed := failed_checks(field):
        hint = f" (→ {field.suggestion}?)" if field.suggestion else ""
        return Text(printable(f"✗ {failed}{hint}"), style="red")
    return Text("✓", style="green") if any(v.passed for v in field.validations) else Text("")


_WRITERS: dict[Format, type[Any]] = {
    Format.JSONL: JsonlWriter,
    Format.CSV: CsvWriter,
    Format.XLSX: XlsxWriter,
}
