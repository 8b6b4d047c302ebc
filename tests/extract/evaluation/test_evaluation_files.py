"""Labels, results and schema: what is read, and errors that name the line and hold no value."""

import json
import pickle

import pytest
from typer.testing import CliRunner

from certloop.cli import app
from certloop.errors import UsageError
from certloop.extract.evaluation import (
    LabelsError,
    ResultsError,
    read_labels,
    read_results,
    schema_from_registry,
)
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result
from certloop.templates import load_types
from certloop.validators.outcome import Outcome, Severity, Verdict

ROW = {"file": "a.jpg", "doc_type": "营业执照", "fields": {"名称": "甲", "住所": None}}


def write(path, *rows) -> str:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows), encoding="utf-8")
    return str(path)


def test_labels_of_one_and_of_several_certificates(tmp_path) -> None:
    row, several = read_labels(
        write(
            tmp_path / "l.jsonl",
            ROW | {"uncertain": ["名称"], "absent_fields": ["经营范围"], "traps": ["x"]},
            "",
            {"file": "b.jpg", "doc_type": "x+y", "fields": {}, "documents": [ROW, ROW]},
        )
    )
    assert row.documents[0].fields == {"名称": "甲", "住所": None}
    assert row.documents[0].uncertain == {"名称"}
    assert row.documents[0].absent == ("经营范围",)
    assert len(several.documents) == 2


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[]",
        "9" * 5000,
        {"doc_type": "x", "fields": {}},
        {"file": "b", "fields": {}},
        {"file": "b", "doc_type": "x"},
        {"file": "b", "doc_type": "x", "fields": {"秘密": 3}},
        {"file": "b", "doc_type": "x", "fields": {}, "uncertain": "名称"},
        {"file": "b", "doc_type": "x", "documents": ["x"]},
        *(ROW | {"file": f} for f in ("../x", "a/../../x", "/etc/passwd", "..\\x", "C:\\x", "a\0b")),
        json.dumps(ROW | {"file": "a\ud800"}),
        ROW,
    ],
)
def test_a_bad_label_names_its_line(tmp_path, bad) -> None:
    with pytest.raises(LabelsError, match="line 3") as error:
        read_labels(write(tmp_path / "l.jsonl", ROW, "", bad))
    assert "秘密" not in str(error.value)
    assert error.value.code == "labels_invalid"
    assert pickle.loads(pickle.dumps(error.value)).message == error.value.message


def test_missing_empty_and_undecodable_files(tmp_path) -> None:
    with pytest.raises(LabelsError, match="cannot be read"):
        read_labels(tmp_path / "none.jsonl")
    with pytest.raises(LabelsError, match="holds no label"):
        read_labels(write(tmp_path / "l.jsonl", ""))
    with pytest.raises(LabelsError, match=r"cannot be read: [^\[]*$"):
        read_labels(tmp_path)
    with pytest.raises(LabelsError, match="cannot be read"):
        read_labels("a\0b")
    (tmp_path / "r.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ResultsError, match="cannot be read"):
        read_results(tmp_path / "r.jsonl")


def test_results_come_back_as_they_were_printed(tmp_path) -> None:
    verdict = Verdict("uscc", Severity.HARD, Outcome.FAIL, "错", "wrong", "9", ("credit_code",))
    box = ((1.0, 2.0), (3.0, 2.0), (3.0, 4.0), (1.0, 4.0))
    fields = {
        "name": FieldResult("名称", "甲", "甲", FieldStatus.READ, 0.5, box, 0, (verdict,), "乙"),
        "scope": FieldResult("经营范围", None),
    }
    document = Document(
        "business_licence", 0.9, fields, "营业执照", "1", (0, 1), box, 90.0, "副本", {"blur": 0.1}, validations=(verdict,)
    )
    result = Result("a.jpg", FileStatus.PARTIAL, (document,), None, ({"code": "x", "message": "y"},))
    failed = Result("b.jpg", FileStatus.FAILED, (), {"code": "x", "message": "y"})
    path = write(tmp_path / "r.jsonl", result.to_json(), failed.to_json())
    assert read_results(path) == (result, failed)


@pytest.mark.parametrize(
    "bad",
    [
        {"file": "a"},
        {"file": 3, "status": "ok", "documents": []},
        {"file": "a", "status": "秘密", "documents": []},
        {"file": "a", "status": "ok", "documents": [{"fields": {"x": {"value": 3}}}]},
        {"file": "a", "status": "ok", "documents": [{"fields": {"x": {"value": "秘密", "confidence": 7}}}]},
        {"file": "a", "status": "ok", "documents": [{"fields": {"x": {"value": "秘密", "confidence": float("nan")}}}]},
        {"file": "a", "status": "ok", "documents": [{"fields": {"x": {"value": "秘密", "box": [1, 2]}}}]},
        {"file": "a", "status": "ok", "documents": ["x"]},
    ],
)
def test_a_bad_result_names_its_line(tmp_path, bad) -> None:
    with pytest.raises(ResultsError, match="line 1") as error:
        read_results(write(tmp_path / "r.jsonl", bad))
    assert "秘密" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("business_licence", "business_licence"),
        ("营业执照", "business_licence"),
        ("企业法人营业执照", "business_licence"),
        ("营业执照(空白样式)", "business_licence"),
        ("食品经营许可证", "food_operation_permit"),
        ("身份证", "id_card"),
        ("道路运输证", "road_transport_certificate"),
        ("增值税电子普通发票", None),
        ("许可证", None),
        ("unknown", None),
        (None, None),
    ],
)
def test_names_of_types(name, found) -> None:
    schema = schema_from_registry(load_types()).find(name)
    assert (schema and schema.id) == found


def test_labels_of_a_type() -> None:
    licence = schema_from_registry(load_types()).types["business_licence"]
    assert licence.canonical("负责人") == "法定代表人"
    assert licence.canonical("发证 日期") == licence.canonical("issued_on") == "登记日期"
    assert licence.kinds["登记日期"] == "date"
    assert not licence.has("证照名称")


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_report_that_cannot_be_written_names_its_file(tmp_path, option) -> None:
    """A full disk tells no file name: the command knows it."""
    labels = write(tmp_path / "labels.jsonl", ROW)
    document = Document("business_licence", 1.0, {"name": FieldResult("名称", "乙", "乙", FieldStatus.READ, 0.5)})
    results = write(tmp_path / "r.jsonl", Result("a.jpg", FileStatus.OK, (document,)).to_json())
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path), "--labels", labels, "--results", results, option, "/dev/full"])
    assert isinstance(done.exception, UsageError), done.output
    assert done.exception.message.startswith("cannot write /dev/full: ")
