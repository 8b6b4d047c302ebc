"""Where ``certloop trajectories export --output`` writes: whole files, through links, into devices, never in place of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from certloop.commands.trajectories import _lines
from certloop.errors import UsageError


def write(output: Path) -> None:
    with _lines(output) as lines:
        lines.write("{}\n")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "rows.jsonl").symlink_to(tmp_path / "kept" / "rows.jsonl")
    write(tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").is_symlink()
    assert (tmp_path / "kept" / "rows.jsonl").read_text(encoding="utf-8") == "{}\n"
    assert [p.name for p in (tmp_path / "kept").iterdir()] == ["rows.jsonl"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text(encoding="utf-8")))
    reader.start()
    write(tmp_path / "pipe")
    reader.join(timeout=10)
    assert read == ["{}\n"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_a_usage_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    for output in (Path("/dev/full"), tmp_path / "full"):
        with pytest.raises(UsageError, match="cannot write"):
            write(output)
    assert Path("/dev/full").is_char_device()


def test_a_folder_or_a_loop_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for output in (tmp_path, tmp_path / "loop"):
        with pytest.raises(UsageError, match="cannot write"):
            write(output)
    assert (tmp_path / "loop").is_symlink()
