"""The numbers to reach on real photographs. Needs CERTLOOP_DEVPACK (a folder with labels.jsonl); they are never committed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from certloop.extract import Extractor, Result
from certloop.extract.evaluation import Report, evaluate, read_labels, read_results, schema_from_registry
from certloop.templates import Registry

PACK = os.environ.get("CERTLOOP_DEVPACK")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PACK, reason="CERTLOOP_DEVPACK is unset: the real photographs are not read"),
]


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(PACK or "")


@pytest.fixture(scope="module")
def readings(extractor: Extractor, folder: Path) -> Mapping[str, Result]:
    files = [row.file for row in read_labels(folder / "labels.jsonl")]
    return {name: extractor.read(folder / name) for name in files}


@pytest.fixture(scope="module")
def report(readings: Mapping[str, Result], registry: Registry, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("devpack") / "out.jsonl"
    path.write_text("".join(json.dumps(r.to_json(), ensure_ascii=False) + "\n" for r in readings.values()), encoding="utf-8")
    return evaluate(read_results(path), read_labels(folder / "labels.jsonl"), schema_from_registry(registry))


def test_every_file_is_read(readings: Mapping[str, Result]) -> None:
    assert {name: r.status.value for name, r in readings.items()} == dict.fromkeys(readings, "ok")


def test_strict_exact_matches(report: Report) -> None:
    assert report.overall.strict.n > 150
    assert (report.overall.strict.rate or 0.0) >= 0.78, report.summary()


def test_names(report: Report) -> None:
    assert (report.by_field["名称"].strict.rate or 0.0) >= 0.9, report.summary()


def test_hardly_anything_is_invented(report: Report) -> None:
    assert report.overall.invented.ok <= 1, report.summary()


def test_a_document_outside_the_schema_is_unknown(report: Report) -> None:
    assert report.unknown.n >= 1
    assert report.unknown.rate == 1.0


def test_a_picture_of_two_certificates_gives_two_documents(
    readings: Mapping[str, Result], registry: Registry, folder: Path
) -> None:
    several = {row.file: row.documents for row in read_labels(folder / "labels.jsonl") if len(row.documents) > 1}
    assert several
    for name, wanted in several.items():
        titles = {t.title: t.id for t in registry}
        found = [d.doc_type for d in readings[name].documents]
        assert sorted(found) == sorted(titles[d.doc_type] for d in wanted)
