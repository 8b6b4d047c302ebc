"""Which files a command line means."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from certloop.errors import UsageError
from certloop.sources import collect

JPEG = b"\xff\xd8\xff\xe0" + bytes(32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.jpg", "a.png", "no_suffix"):
        (tmp_path / name).write_bytes(JPEG)
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "labels.jsonl").write_text("{}", encoding="utf-8")
    (tmp_path / ".hidden.jpg").write_bytes(JPEG)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "c.jpg").write_bytes(JPEG)
    return tmp_path


def names(files: list[Path | bytes]) -> list[str]:
    return [f.name for f in files if isinstance(f, Path)]


def test_a_folder_gives_what_looks_like_pages_by_content_or_by_name(folder: Path) -> None:
    sources = collect([str(folder)], recursive=False)
    assert names(sources.files) == ["a.png", "b.jpg", "empty.pdf", "no_suffix"]
    assert [p.name for p in sources.skipped] == ["labels.jsonl"]


def test_recursive_descends(folder: Path) -> None:
    assert "c.jpg" in names(collect([str(folder)], recursive=True).files)


def test_named_files_are_taken_whatever_they_are(folder: Path) -> None:
    arguments = [str(folder / "labels.jsonl"), str(folder / "missing.jpg")]
    assert names(collect(arguments, recursive=False).files) == ["labels.jsonl", "missing.jpg"]


def test_patterns_are_expanded_in_order_and_arguments_keep_theirs(folder: Path) -> None:
    assert names(collect([str(folder / "b.jpg"), str(folder / "*.png")], recursive=False).files) == ["b.jpg", "a.png"]


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "scan[1].jpg").write_bytes(JPEG)
    assert names(collect([str(tmp_path / "scan[1].jpg")], recursive=False).files) == ["scan[1].jpg"]


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(JPEG)))
    assert collect(["-"], recursive=False).files == [JPEG]
    with pytest.raises(UsageError, match="only once"):
        collect(["-", "-"], recursive=False)


@pytest.mark.parametrize("argument", ["*.nothing", "empty"])
def test_a_pattern_or_folder_without_files_is_a_usage_error(tmp_path: Path, argument: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no image or PDF"):
        collect([str(tmp_path / argument)], recursive=False)


def test_a_name_that_no_file_can_have_is_left_to_ingest() -> None:
    assert len(collect(["x" * 5000 + ".jpg", "a\x00b"], recursive=False).files) == 2


def test_an_empty_name_is_not_the_current_folder() -> None:
    with pytest.raises(UsageError, match="empty name"):
        collect([""], recursive=False)
