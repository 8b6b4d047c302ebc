"""Nothing that a page says can run in a spreadsheet, and stored results come back as they were."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, QrCode, Result, Seal
from certloop.extract.stored import result_from_json
from certloop.serve.work.results import Answer, ExportFormat, export
from certloop.validators.outcome import Outcome, Severity, Verdict

BOX = ((1.0, 2.0), (3.0, 2.0), (3.0, 4.0), (1.0, 4.0))


def result(value: str) -> Result:
    verdict = Verdict("uscc.shape", Severity.HARD, Outcome.FAIL, "位数不对", "wrong length", "91", ("credit_code",))
    field = FieldResult("名称", value, value, FieldStatus.READ, 0.5, BOX, 0, (verdict,), "建议")
    seal = Seal(BOX, "red", "round", 0.5, "章", 0, 0.25)
    document = Document(
        "business_licence", 0.75, {"name": field}, "营业执照", "1", (0,), BOX, 90.0, "副本", {"blur": 0.5}, (seal,),
        (QrCode("https://a.example", BOX, None, 0),), (verdict,), "embedded", "t-1", ("scope",),
    )  # fmt: skip
    return Result("a.jpg", FileStatus.OK, (document,), warnings=({"code": "page", "message": "1"},))


@pytest.mark.parametrize("value", ["=1+2", "+1", "-1", "@SUM(A1)", "\t=1", "＝1", " =1", "\r=1"])
@pytest.mark.parametrize("kind", [ExportFormat.CSV, ExportFormat.XLSX])
def test_formulas_are_text(value: str, kind: ExportFormat) -> None:
    content = export([Answer(result(value).to_json())], kind)
    if kind is ExportFormat.CSV:
        (row,) = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        assert row["value"].startswith("'")
        return
    from openpyxl import load_workbook

    cells = list(load_workbook(io.BytesIO(content))["business_licence"][2])
    assert {cell.data_type for cell in cells} <= {"s", "n"}
    assert [cell.value for cell in cells][-1].startswith("'")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_stored_result_comes_back_as_it_was(value: str) -> None:
    written = result(value)
    assert result_from_json(written.to_json()) == written
