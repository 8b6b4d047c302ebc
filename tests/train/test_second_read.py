"""Pictures without labels: what two reads agree on is a truth to learn from, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from certloop.cli import app
from certloop.train.errors import TrainConfigError, TrainDataError
from certloop.train.nano import nano_pages
from certloop.train.nano.vocabulary import TYPES, nano_type
from certloop.train.rows import read_rows


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for page in nano_pages(91, 6):
        page.image.save(folder / f"{page.index}.png")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "notes.txt").write_text("no picture", encoding="utf-8")
    return folder


def test_what_both_reads_see_and_no_rule_contradicts_is_kept(pictures: Path, tmp_path: Path) -> None:
    """The small model's own reader: what it agrees with itself about is right nearly always."""
    words = ["train", "second-read", str(pictures), "--out", str(tmp_path), "--type", "nano_licence", "--model", "nano:teacher"]
    done = CliRunner().invoke(app, [*words, "--templates", str(TYPES), "--device", "cpu", "--answer-tokens", "120"])
    assert done.exit_code == 0, done.output
    counts = json.loads(done.stdout)
    rows = read_rows(tmp_path)
    assert (counts["pages"], counts["failed"], counts["rows"]) == (6, 1, len(rows))
    pages = {f"{page.index}.png": page for page in nano_pages(91, 6)}
    agreed = [(pages[row.id], label, value) for row in rows for label, value in (row.second_read or {}).items()]
    assert counts["fields"] == len(agreed) > 18
    assert sum(page.fields.get(label) == value for page, label, value in agreed) >= 0.9 * len(agreed)
    for row in rows:
        assert row.truth is None and row.completion is None
        assert row.prompt == nano_type().prompt


def test_types_are_found_as_other_commands_find_them(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTLOOP_TEMPLATE_PATH", f":{TYPES}")
    (tmp_path / "empty").mkdir()
    words = ["train", "second-read", str(tmp_path / "empty"), "--out", str(tmp_path / "rows"), "--model", "nano:early"]
    refused = CliRunner().invoke(app, [*words, "--type", "nano_licence", "--device", "cpu"])
    assert isinstance(refused.exception, TrainDataError), refused.output
    assert "empty holds no picture" in str(refused.exception), "the type is known"


@pytest.mark.parametrize(("device", "words"), [("cuda", "no cuda device: give --device cpu"), ("gpu", "'gpu' is no device")])
def test_a_device_that_is_not_here_is_told(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, words: str
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    line = ["train", "second-read", str(pictures), "--out", str(tmp_path / "rows"), "--model", "nano:early"]
    refused = CliRunner().invoke(app, [*line, "--type", "nano_licence", "--templates", str(TYPES), "--device", device])
    assert isinstance(refused.exception, TrainConfigError) and words in str(refused.exception)
    assert not (tmp_path / "rows").exists()


def test_rules_and_disagreement_take_a_field_out(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Any
) -> None:
    from certloop.train import evaluate
    from certloop.train.second_read import second_read

    good = {"统一社会信用代码": "91350100M000100Y43", "名称": "甲公司", "住所": "一号", "不知": "x"}
    other = good | {"住所": "二号"}
    wrong = good | {"统一社会信用代码": "91350100M000100Y44"}  # its check character fails
    said = [[good, good, wrong, {}, {}, {}], [good, other, wrong, {}, {}, {}]]
    monkeypatch.setattr(evaluate, "read_rows_with", lambda *_, **__: [json.dumps(f, ensure_ascii=False) for f in said.pop(0)])
    counts = second_read(pictures, nano_type(), None, tiny.processor(), tmp_path)
    assert (counts.rows, counts.fields) == (3, 3 + 2 + 2)
    first, second, third = (set(row.second_read or {}) for row in read_rows(tmp_path))
    assert first == {"统一社会信用代码", "名称", "住所"}
    assert second == {"统一社会信用代码", "名称"}
    assert third == {"名称", "住所"}
    said = [[{}] * 6, [good] * 6]
    with pytest.raises(TrainDataError, match="on none of 6 pages"):
        second_read(pictures, nano_type(), None, tiny.processor(), tmp_path / "b")


def test_a_folder_without_pictures_is_named(tmp_path: Path, tiny: Any) -> None:
    from certloop.train.second_read import second_read

    with pytest.raises(TrainDataError, match="holds no picture"):
        second_read(tmp_path, nano_type(), None, tiny.processor(), tmp_path / "out")
