"""The Python front door."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import certloop
from certloop.extract.result import FileStatus


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(certloop.__all__) == ["CertloopError", "__version__", "read"]
    assert all(hasattr(certloop, name) for name in certloop.__all__)


def test_the_version_is_the_one_of_the_changelog(root: Path) -> None:
    latest = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert latest is not None
    assert latest.group(1) == certloop.__version__


def test_a_file_that_is_missing_or_no_image_gives_a_failed_result(tmp_path: Path) -> None:
    missing = certloop.read(tmp_path / "missing.jpg")
    assert (missing.status, missing.error and missing.error["code"]) == (FileStatus.FAILED, "file_not_found")
    text = certloop.read("这不是图片".encode())
    assert (text.file, text.error and text.error["code"]) == ("-", "format_unsupported")


def test_an_unknown_type_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(certloop.CertloopError, match="business_licence") as caught:
        certloop.read(tmp_path / "missing.jpg", doc_type="passport")
    assert caught.value.code == "unknown_type"


def test_reading_a_drawn_licence_finds_its_code() -> None:
    import io

    from certloop.commands.doctor import PROBE_CODE, draw_probe

    buffer = io.BytesIO()
    draw_probe().save(buffer, "PNG")
    result = certloop.read(buffer.getvalue(), name="probe.png")
    assert (result.file, result.status, len(result.documents)) == ("probe.png", FileStatus.OK, 1)
    document = result.documents[0]
    assert document.doc_type == "business_licence"
    assert document.fields["credit_code"].value == PROBE_CODE
    assert document.fields["name"].value == "示例市样本贸易有限公司"
