"""What is printed: every format, and nothing that a spreadsheet or a terminal would run."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.errors import UsageError
from certloop.extract.export import CSV_COLUMNS, neutralise, printable
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result
from certloop.output import Format, TableWriter, open_writer
from certloop.validators.outcome import Outcome, Severity, Verdict

BAD_CODE = Verdict("uscc.check_character", Severity.HARD, Outcome.FAIL, "校验码不符", "the check character does not fit")


def document(name: str = "示例公司") -> Document:
    fields = {
        "name": FieldResult("名称", name, name, FieldStatus.READ, 0.98, ((1, 1), (9, 1), (9, 5), (1, 5)), 0),
        "credit_code": FieldResult("统一社会信用代码", "123", "123", FieldStatus.READ, 0.9, None, 0, (BAD_CODE,), "124"),
        "term": FieldResult("营业期限", "长期", {"start": None, "end": None, "open_ended": True}, FieldStatus.READ, 0.9, None, 0),
        "scope": FieldResult("经营范围", None),
    }
    return Document("business_licence", 0.99, fields, title="营业执照")


READ = Result("a.jpg", FileStatus.OK, (document(),))
FAILED = Result("b.jpg", FileStatus.FAILED, error={"code": "image_truncated", "message": "the file ends too early"})


def write(kind: Format, path: Path, *results: Result) -> Path:
    with open_writer(kind, path) as writer:
        for result in results:
            writer.write(result)
    return path


def test_jsonl_is_one_object_a_file(tmp_path: Path) -> None:
    lines = write(Format.JSONL, tmp_path / "out.jsonl", READ, FAILED).read_text(encoding="utf-8").splitlines()
    first, second = map(json.loads, lines)
    assert first == READ.to_json()
    assert second == {
        "file": "b.jpg",
        "status": "failed",
        "error": {"code": "image_truncated", "message": "the file ends too early"},
        "documents": [],
    }
    assert "示例公司" in lines[0], "Chinese stays readable"


def test_csv_has_a_row_per_field_and_one_for_a_failed_file(tmp_path: Path) -> None:
    path = write(Format.CSV, tmp_path / "out.csv", READ, FAILED)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf"), "Excel needs the mark to see UTF-8"
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [r["field"] for r in rows] == ["name", "credit_code", "term", "scope", ""]
    code = rows[1]
    assert (code["value"], code["failed_checks"], code["suggestion"], code["page"]) == ("123", "校验码不符", "124", "1")
    assert json.loads(rows[2]["normalised"]) == {"start": None, "end": None, "open_ended": True}
    assert rows[4]["error"].startswith("image_truncated:")


def test_xlsx_has_a_sheet_per_type_with_text_cells(tmp_path: Path) -> None:
    path = write(Format.XLSX, tmp_path / "out.xlsx", READ, FAILED)
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["files", "business_licence"]
    files = list(book["files"].values)
    assert files[1][:3] == ("a.jpg", "ok", None)
    assert files[2][:3] == ("b.jpg", "failed", "image_truncated")
    head, row = book["business_licence"].values
    cells = dict(zip(head, row, strict=True))
    assert cells["名称"] == "示例公司"
    assert cells["统一社会信用代码"] == "123"
    assert cells["failed_checks"] == "统一社会信用代码: 校验码不符"


def test_the_table_shows_values_and_failed_checks_but_no_absent_field(tmp_path: Path) -> None:
    text = write(Format.TABLE, tmp_path / "out.txt", READ, FAILED).read_text(encoding="utf-8")
    assert "示例公司" in text
    assert "校验码不符" in text
    assert "经营范围" not in text
    assert "image_truncated" in text


def test_the_table_says_what_is_missing_and_what_is_doubtful() -> None:
    stream = io.StringIO()
    fields = {"name": FieldResult("名称", "示例", "示例", FieldStatus.READ, 0.62), "scope": FieldResult("经营范围", None)}
    licence = Document("business_licence", 0.99, fields, missing=("scope", "no_such_field"))
    TableWriter(stream, {"business_licence": "营业执照"}).write(
        Result("a.jpg", FileStatus.OK, (licence, Document("unknown", 0.0)))
    )
    text = stream.getvalue()
    assert "missing: 经营范围, no_such_field" in text
    assert "?0.62" in text
    assert text.startswith("a.jpg (1 of 2)  营业执照"), "the type's title where none was read"
    assert text.splitlines()[-1] == "a.jpg (2 of 2)  no known certificate type"


def test_csv_and_xlsx_say_what_is_missing(tmp_path: Path) -> None:
    lacking = Result("a.jpg", FileStatus.OK, (replace(document(), missing=("scope",)),))
    text = write(Format.CSV, tmp_path / "out.csv", lacking).read_text(encoding="utf-8-sig")
    assert {row["missing"] for row in csv.DictReader(io.StringIO(text))} == {"经营范围"}
    head, row = openpyxl.load_workbook(write(Format.XLSX, tmp_path / "out.xlsx", lacking))["business_licence"].values
    assert row[head.index("missing")] == "经营范围"


EVIL = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1", "＋1", "－1", "＠x"]


@pytest.mark.parametrize("value", EVIL)
@pytest.mark.parametrize("kind", [Format.CSV, Format.XLSX])
def test_cells_that_start_like_a_formula_are_neutralised(tmp_path: Path, kind: Format, value: str) -> None:
    path = write(kind, tmp_path / f"out.{kind}", Result(value, FileStatus.OK, (document(value),)))
    if kind is Format.CSV:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
        cells = [cell for row in rows[1:] for cell in row]
    else:
        sheets = openpyxl.load_workbook(path)
        loaded = [cell for sheet in sheets for row in sheet.iter_rows(min_row=2) for cell in row]
        assert not [cell for cell in loaded if cell.data_type == "f"]
        cells = [str(cell.value) for cell in loaded]
    assert any(cell.startswith("'") for cell in cells)
    assert not [c for c in cells if c.lstrip(" ")[:1] in set("=+-@\t\r＝＋－＠")]


@given(st.text())
def test_neutralising_changes_nothing_else(text: str) -> None:
    safe = neutralise(text)
    assert safe in (text, "'" + text)
    assert safe.lstrip(" ")[:1] not in set("=+-@\t\r\n＝＋－＠") or not safe


@given(st.text())
def test_no_escape_sequence_reaches_a_terminal(text: str) -> None:
    stream = io.StringIO()
    TableWriter(stream).write(Result("x", FileStatus.OK, (document(text + "\x1b[31m\x07"),)))
    assert not {"\x1b", "\x07", "\x9b"} & set(stream.getvalue())


def test_markup_in_a_value_is_shown_as_it_is() -> None:
    stream = io.StringIO()
    TableWriter(stream).write(Result("[red]x[/red].jpg", FileStatus.OK, (document("[bold]名称[/bold]"),)))
    assert "[bold]名称[/bold]" in stream.getvalue()
    assert "[red]x[/red].jpg" in stream.getvalue()


def test_control_characters_do_not_stop_a_workbook(tmp_path: Path) -> None:
    path = write(Format.XLSX, tmp_path / "out.xlsx", Result("a.jpg", FileStatus.OK, (document("a\x00b\x0bc"),)))
    assert printable("a\x00b\x0bc") in str(list(openpyxl.load_workbook(path)["business_licence"].values))


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"), open_writer(Format.JSONL, tmp_path / "no" / "out.jsonl"):
        pass
