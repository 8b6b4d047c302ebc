"""Results as JSON Lines, CSV and XLSX, one at a time; no cell can run as a formula and no control character stands raw."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

    from certloop.extract.result import Document, FieldResult, Result

CSV_COLUMNS = (
    "file", "file_status", "error", "document", "doc_type", "type_confidence",
    "page", "field", "label", "value", "normalised", "status", "confidence", "failed_checks", "suggestion", "missing",
)  # fmt: skip
_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_C1 = re.compile(r"[\x7f-\x9f]")


def neutralise(text: str) -> str:
    """A cell that a spreadsheet would run as a formula gets a leading apostrophe (OWASP, CSV injection)."""
    return "'" + text if text.lstrip(" ")[:1] in _FORMULA_STARTS else text


def printable(text: str) -> str:
    """Text for a terminal: control characters, escape sequences among them, become U+FFFD."""
    return _CONTROL.sub("\ufffd", text)


def json_text(value: Any) -> str:
    """One line of JSON in which Chinese stays readable and no control character stands raw."""
    return _C1.sub(lambda c: f"\\u{ord(c.group()):04x}", json.dumps(value, ensure_ascii=False, default=str))


def missing_labels(document: Document) -> list[str]:
    return [document.fields[name].label if name in document.fields else name for name in document.missing]


def failed_checks(field: FieldResult) -> str:
    return "; ".join(v.message_zh for v in field.validations if v.failed)


class JsonlWriter:
    """One JSON object per file and line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, result: Result) -> None:
        self._stream.write(json_text(result.to_json()) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Nothing is held back."""


class CsvWriter:
    """One row per field. A file without documents gets one row that says why."""

    def __init__(self, stream: IO[str]) -> None:
        self._csv = csv.writer(stream)
        self._csv.writerow(CSV_COLUMNS)

    def write(self, result: Result) -> None:
        error = "" if result.error is None else f"{result.error['code']}: {result.error['message']}"
        head = [result.file, result.status.value, error]
        rows = [
            [
                *[*head, number, document.doc_type, f"{document.type_confidence:.4f}"],
                *_field_cells(id_, field),
                "; ".join(missing_labels(document)),
            ]
            for number, document in enumerate(result.documents, start=1)
            for id_, field in (document.fields.items() or [("", None)])
        ]
        for row in rows or [[*head, *[""] * (len(CSV_COLUMNS) - len(head))]]:
            self._csv.writerow([neutralise(cell) if isinstance(cell, str) else cell for cell in row])

    def close(self) -> None:
        """Nothing is held back."""


def _field_cells(field_id: str, field: FieldResult | None) -> list[Any]:
    if field is None:  # a document of unknown type has no fields
        return [""] * 9
    normalised = field.normalised
    if normalised is not None and not isinstance(normalised, str):
        normalised = json.dumps(normalised, ensure_ascii=False)
    return [
        "" if field.page is None else field.page + 1,
        field_id,
        field.label,
        field.value or "",
        normalised or "",
        field.status.value,
        f"{field.confidence:.4f}",
        failed_checks(field),
        field.suggestion or "",
    ]


class XlsxWriter:
    """A sheet ``files`` and one sheet per document type with a row per document, so that a type's fields are columns."""

    HEAD = ("file", "document", "type_confidence", "failed_checks", "missing")

    def __init__(self, stream: IO[bytes]) -> None:
        from openpyxl import Workbook

        self._stream = stream
        self._book: Workbook = Workbook()
        files = self._book.active
        assert files is not None, "a new workbook has a sheet"
        self._files = files
        self._files.title = "files"
        self._append(self._files, ["file", "status", "error", "message", "documents"])
        self._columns: dict[str, list[str]] = {}

    def write(self, result: Result) -> None:
        error = result.error or {}
        self._append(
            self._files,
            [result.file, result.status.value, error.get("code", ""), error.get("message", ""), len(result.documents)],
        )
        for number, document in enumerate(result.documents, start=1):
            self._add_document(result.file, number, document)

    def _add_document(self, file: str, number: int, document: Document) -> None:
        name = re.sub(r"[\[\]:*?/\\]", " ", document.doc_type)[:31]
        if name not in self._columns:
            self._columns[name] = [f.label for f in document.fields.values()]
            self._append(self._book.create_sheet(name), [*self.HEAD, *self._columns[name]])
        by_label = {f.label: f.value or "" for f in document.fields.values()}
        failed = "; ".join(f"{f.label}: {text}" for f in document.fields.values() if (text := failed_checks(f)))
        values = [by_label.get(label, "") for label in self._columns[name]]
        missing = "; ".join(missing_labels(document))
        self._append(self._book[name], [file, number, round(document.type_confidence, 4), failed, missing, *values])

    def _append(self, sheet: Worksheet, cells: list[str | int | float]) -> None:
        """Text stays text: strings are never turned into numbers (Excel rounds 18 digits), and none starts like a formula."""
        sheet.append([printable(neutralise(cell)) if isinstance(cell, str) else cell for cell in cells])

    def close(self) -> None:
        whole = io.BytesIO()  # a disk that fills up must not leave openpyxl's archive half open
        self._book.save(whole)
        self._stream.write(whole.getvalue())
