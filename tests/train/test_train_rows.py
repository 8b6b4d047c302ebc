"""Training rows: what is incomplete is refused with its line, what is too long before anything starts."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from certloop.train.errors import TrainDataError
from certloop.train.lengths import check_lengths, row_tokens
from certloop.train.pack.tokens import row_ids
from certloop.train.rows import Row, data_sha256, read_rows, to_dataset, write_rows


def lines(folder: Path, *rows: dict[str, object]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "p", "images": ["no.png"]}, "image no.png is not there"),
        ({"prompt": "p", "images": []}, "a label without an image"),
        ({"images": ["a.png"]}, "not a row"),
        ({"prompt": 3, "images": ["a.png"]}, "are texts"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, row: dict[str, object], words: str) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(TrainDataError, match=f"line 1: .*{words}"):
        read_rows(lines(tmp_path, row))


def test_an_empty_or_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainDataError, match="no training rows"):
        read_rows(tmp_path / "no")
    with pytest.raises(TrainDataError, match="no row"):
        read_rows(lines(tmp_path))


def test_rows_read_back_and_the_hash_sees_every_byte(tmp_path: Path, rows_folder: Path) -> None:
    shutil.copytree(rows_folder, tmp_path / "d")
    rows = read_rows(tmp_path / "d")
    before = data_sha256(tmp_path / "d")
    assert before == data_sha256(rows_folder)
    assert json.loads((tmp_path / "d" / "manifest.json").read_text(encoding="utf-8"))["sha256"] == before
    write_rows(tmp_path / "d", rows)
    assert read_rows(tmp_path / "d") == rows
    with rows[3].images[0].open("ab") as file:
        file.write(b"\0")
    assert data_sha256(tmp_path / "d") != before


def test_a_line_separator_inside_a_value_parts_no_row(rows: list[Row], tmp_path: Path) -> None:
    """JSON lines end at a line feed alone; U+2028 and U+0085 may stand in what a page prints or a teacher says."""
    odd = Row("a", "p", rows[0].images, completion="一\u2028二\u0085三\x1c", truth={"名称": "甲\u2029乙"})
    image = tmp_path / "a.png"
    shutil.copy(rows[0].images[0], image)
    written = dataclasses.replace(odd, images=(image,))
    write_rows(tmp_path, [written])
    assert read_rows(tmp_path) == [written]


def test_a_stage_that_needs_a_column_says_which_row_lacks_it(rows: list[Row]) -> None:
    bare = [rows[0], Row("bare", "p", rows[0].images)]
    with pytest.raises(TrainDataError, match="row bare has no completion"):
        to_dataset(bare)
    assert set(to_dataset(bare, need="prompt").column_names) == {"id", "prompt", "images"}


def test_lengths_are_counted_without_decoding_and_are_never_too_small(tiny: Any, rows: list[Row]) -> None:
    processor = tiny.processor()
    for row in rows[:3]:
        ids = row_ids(processor, row)
        real = len(ids.prompt) + len(ids.completion)
        assert real <= row_tokens(processor, row) <= real + 16


def test_a_row_that_is_too_long_is_refused_never_cut(tiny: Any, rows: list[Row]) -> None:
    processor = tiny.processor()
    longest = check_lengths(processor, rows, 1024)
    with pytest.raises(TrainDataError, match="lower max_pixels"):
        check_lengths(processor, rows, longest - 1)


def test_max_pixels_bounds_a_page_in_training_and_stays_with_the_model(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    from certloop.train.models import load_processor

    spec = tiny.config({"kind": "sft"}).student.model_copy(update={"max_pixels": 192 * 128})
    small = load_processor(spec)
    assert row_tokens(small, rows[0]) < row_tokens(tiny.processor(), rows[0]) - 60
    small.save_pretrained(tmp_path)
    served = load_processor(spec.model_copy(update={"path": str(tmp_path), "max_pixels": None}))
    assert row_ids(served, rows[0]) == row_ids(small, rows[0])
