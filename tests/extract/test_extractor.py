"""Files in, the result contract out, with the real engine: the project's examples and files that are no certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from certloop.extract import Extractor, FieldStatus, FileStatus, Result
from certloop.extract.config import ExtractConfig
from certloop.extract.evaluation import same_value
from certloop.extract.extractor import UnknownEngineError
from certloop.templates import Registry, UnknownTypeError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRUTH: dict[str, dict[str, Any]] = {
    row["file"]: row for row in map(json.loads, (EXAMPLES / "labels.jsonl").read_text(encoding="utf-8").splitlines())
}
DOCUMENT_KEYS = {
    "doc_type", "type_confidence", "type_version", "title", "copy", "pages", "box", "rotation", "fields", "validations",
    "quality", "seals", "qr", "release", "trajectory_id", "missing",
}  # fmt: skip
FIELD_KEYS = {"label", "value", "normalised", "status", "confidence", "box", "page", "validations"}
VERDICT_KEYS = {"rule", "severity", "outcome", "message_zh", "message_en"}


@pytest.fixture(scope="module")
def readings(extractor: Extractor) -> Mapping[str, Result]:
    return {name: extractor.read(EXAMPLES / name) for name in TRUTH}


@pytest.mark.parametrize("name", TRUTH)
def test_the_type_of_every_example(readings: Mapping[str, Result], registry: Registry, name: str) -> None:
    wanted = [row["doc_type"] for row in TRUTH[name].get("documents") or [TRUTH[name]]]
    titles = {t.title: t.id for t in registry}
    assert [d.doc_type for d in readings[name].documents] == [titles.get(t, "unknown") for t in wanted]


@pytest.mark.parametrize("name", [n for n in TRUTH if n.startswith(("device", "identity", "licence_2019", "licence_2015"))])
def test_required_fields_of_clean_and_scanned_examples(readings: Mapping[str, Result], registry: Registry, name: str) -> None:
    (document,) = readings[name].documents
    doc_type = registry.get(document.doc_type)
    for field in doc_type.required:
        spec = doc_type.fields[field]
        if (printed := TRUTH[name]["fields"].get(spec.label)) is not None:
            assert same_value(spec.label, printed, document.fields[field].value or ""), (
                spec.label,
                printed,
                document.fields[field].value,
            )


def test_nearly_everything_printed_on_the_examples_is_read(readings: Mapping[str, Result]) -> None:
    """Photographs included, strictly; signatures and seals are seen, not read."""
    right, total = 0, 0
    for name, row in TRUTH.items():
        for truth, document in zip(row.get("documents") or [row], readings[name].documents, strict=True):
            values = {f.label: f.value for f in document.fields.values()}
            for label, printed in truth["fields"].items():
                if printed is not None and label in values and label not in ("公章", "签字"):
                    total += 1
                    right += bool(values[label]) and same_value(label, printed, values[label] or "")
    assert total > 100
    assert right / total >= 0.8


def test_an_invoice_is_answered_as_unknown_and_has_no_fields(readings: Mapping[str, Result]) -> None:
    result = readings["invoice_unknown.png"]
    assert result.status is FileStatus.OK
    assert [(d.doc_type, dict(d.fields)) for d in result.documents] == [("unknown", {})]


@pytest.mark.parametrize("name", TRUTH)
def test_the_json_contract(readings: Mapping[str, Result], registry: Registry, name: str) -> None:
    row = json.loads(json.dumps(readings[name].to_json(), ensure_ascii=False, allow_nan=False))
    assert set(row) == {"file", "status", "documents"}
    assert row["file"].endswith(name)
    assert row["status"] == "ok"
    for document in row["documents"]:
        assert set(document) == DOCUMENT_KEYS
        assert 0 <= document["type_confidence"] <= 1
        assert all(isinstance(p, int) for p in document["pages"])
        assert all(isinstance(v, (int, float)) for v in document["quality"].values())
        if document["doc_type"] != "unknown":
            assert set(document["fields"]) == set(registry.get(document["doc_type"]).fields)
            assert document["type_version"] == registry.get(document["doc_type"]).version
        for field in document["fields"].values():
            assert set(field) - {"suggestion"} == FIELD_KEYS
            assert all(set(v) - {"suggestion", "fields"} == VERDICT_KEYS for v in field["validations"])
            assert 0 <= field["confidence"] <= 1


@pytest.mark.parametrize("name", [n for n in TRUTH if not n.endswith(".pdf")])
def test_status_value_and_place_agree(readings: Mapping[str, Result], name: str) -> None:
    with Image.open(EXAMPLES / name) as image:
        width, height = image.size
    for document in readings[name].documents:
        for field in document.fields.values():
            assert (field.status is FieldStatus.READ) == (field.value is not None)
            assert field.value is None or field.value == field.value.strip() != ""
            assert (field.box is None) == (field.page is None)
            if field.status is FieldStatus.READ:
                assert field.box is not None
            if field.status in (FieldStatus.ABSENT, FieldStatus.MISSING_PAGE):
                assert (field.box, field.confidence) == (None, 0.0)
            if field.box is not None:
                points = np.asarray(field.box)
                assert points.shape == (4, 2)
                assert (points >= -0.02 * max(width, height)).all()
                assert (points <= np.array([width, height]) + 0.02 * max(width, height)).all()
        for mark in (*document.seals, *document.qr):
            assert (np.asarray(mark.box) >= -1).all()


def test_every_tool_call_is_recorded(readings: Mapping[str, Result]) -> None:
    for result in readings.values():
        for document in result.documents:
            assert document.steps[0]["tool"] == "ocr"
            assert document.steps[0]["at"]
            assert all({"thought", "tool", "args", "ok", "result", "latency_ms"} <= set(s) for s in document.steps)
            assert ("validate" in {s["tool"] for s in document.steps}) == any(f.value for f in document.fields.values())
            assert json.dumps(document.steps, ensure_ascii=False)


def test_one_side_of_an_identity_card_says_what_is_missing(readings: Mapping[str, Result]) -> None:
    (card,) = readings["identity_card_front.jpg"].documents
    assert {k for k, f in card.fields.items() if f.status is FieldStatus.MISSING_PAGE} == {"authority", "term"}


def test_each_page_of_a_dossier_is_a_document(readings: Mapping[str, Result]) -> None:
    result = readings["supplier_dossier.pdf"]
    assert [d.pages for d in result.documents] == [(0,), (1,), (2,)]
    for document in result.documents:
        assert {f.page for f in document.fields.values() if f.value is not None} <= set(document.pages)


def test_reading_twice_gives_the_same(extractor: Extractor, readings: Mapping[str, Result]) -> None:
    name = "identity_card_front.jpg"
    assert extractor.read(EXAMPLES / name) == readings[name]


def test_bytes_and_path_give_the_same(extractor: Extractor, readings: Mapping[str, Result]) -> None:
    path = EXAMPLES / "identity_card_front.jpg"
    result = extractor.read(path.read_bytes())
    assert result.file == "-"
    assert result.documents == readings[path.name].documents
    assert extractor.read(path.read_bytes(), name="karte.jpg").file == "karte.jpg"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "file_empty"),
        ("这不是图片".encode(), "format_unsupported"),
        (b"PK\x03\x04" + bytes(64), "format_unsupported"),
        (b"%PDF-1.7\n" + bytes(64), "pdf_corrupt"),
    ],
    ids=["empty", "text", "zip", "pdf"],
)
def test_a_bad_file_is_a_failed_result(extractor: Extractor, tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "bad.jpg"
    path.write_bytes(content)
    result = extractor.read(path)
    assert (result.status, result.documents) == (FileStatus.FAILED, ())
    assert result.error is not None
    assert result.error["code"] == code
    row = result.to_json()
    assert set(row) == {"file", "status", "error", "documents"}
    assert set(row["error"]) == {"code", "message"}


def test_a_missing_and_a_truncated_file(extractor: Extractor, tmp_path: Path) -> None:
    missing = extractor.read(tmp_path / "nowhere.jpg")
    assert (missing.error or {})["code"] == "file_not_found"
    (tmp_path / "half.jpg").write_bytes((EXAMPLES / "licence_2019_scan.jpg").read_bytes()[:20_000])
    assert (extractor.read(tmp_path / "half.jpg").error or {})["code"] == "image_truncated"


def test_a_bad_file_does_not_spoil_the_next_one(extractor: Extractor, readings: Mapping[str, Result]) -> None:
    assert extractor.read(b"\xff\xd8\xff\xe0" + bytes(2000)).status is FileStatus.FAILED
    path = EXAMPLES / "identity_card_front.jpg"
    assert extractor.read(path) == readings[path.name]


def test_a_blank_page_is_unknown(extractor: Extractor) -> None:
    import io

    buffer = io.BytesIO()
    Image.new("RGB", (600, 400), (250, 250, 248)).save(buffer, "PNG")
    result = extractor.read(buffer.getvalue())
    assert result.status is FileStatus.OK
    assert [d.doc_type for d in result.documents] == ["unknown"]


def test_a_type_can_be_forced(extractor: Extractor) -> None:
    (document,) = extractor.read(EXAMPLES / "identity_card_front.jpg", doc_type="authorisation_letter").documents
    assert document.doc_type == "authorisation_letter"
    assert document.type_confidence == 1.0


def test_a_type_that_nobody_knows_is_refused(extractor: Extractor) -> None:
    with pytest.raises(UnknownTypeError, match="business_licence") as caught:
        extractor.read(EXAMPLES / "identity_card_front.jpg", doc_type="passport")
    assert caught.value.code == "unknown_type"


def test_an_engine_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownEngineError, match="ocr") as caught:
        Extractor(ExtractConfig(engine="crystal_ball"))
    assert caught.value.code == "unknown_engine"
