"""Studies: nested rows, numbers that stay, and how many rows of one kind reach what rows of another reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from certloop.train.errors import TrainDataError
from certloop.train.rows import Row, read_rows
from certloop.train.study import Arm, StudyConfig, _first, exchange, scaling, scaling_table, substitution_table


def test_smaller_sets_are_parts_of_larger_ones() -> None:
    rows = [Row(str(n), "", (Path("x"),)) for n in range(20)]
    small, large = (_first(rows, n, 3) for n in (5, 12))
    assert large[:5] == small
    assert _first(rows, 5, 4) != small
    with pytest.raises(TrainDataError, match="21 rows were asked for, 20 are there"):
        _first(rows, 21, 0)


def test_the_exchange_rate_by_hand() -> None:
    """On a straight line over log(rows + 1) from (0, .2) to (99, .6): .4 lies half way, at sqrt(100) - 1 = 9 rows."""
    curve = [(0, 0.2), (99, 0.6)]
    assert exchange(curve, 0.4) == (pytest.approx(9.0), False)
    assert exchange(curve, 0.6) == (pytest.approx(99.0), False)
    assert exchange(curve, 0.7) == (99.0, True)
    assert exchange(curve, 0.1) == (pytest.approx(0.0), False)
    assert exchange([(0, 0.2), (9, 0.1), (99, 0.6)], 0.4)[0] == pytest.approx(9.0), "a dip teaches nothing"


def test_tables_say_what_was_measured() -> None:
    arms = [
        Arm("start", 0, 0, (0.2, 0.2), {"名称": 0.0}), Arm("synthetic", 99, 0, (0.6, 0.6), {"名称": 0.5}),
        Arm("real", 3, 0, (0.4, 0.4), {"名称": 0.4}), Arm("real", 6, 0, (0.7, 0.7), {"名称": 0.9}),
        Arm("real", 1, 0, (0.1, 0.1), {"名称": 0.0}),
    ]  # fmt: skip
    table = substitution_table(arms)
    assert "| 3 | real | 0.400 | 9 | 3.0 |" in table
    assert "| 6 | real | 0.700 | more than 99 | more than 16.5 |" in table
    assert "| 1 | real | 0.100 | none: below the start | |" in table
    scaled = scaling_table(arms[:2])
    assert "| 99 | 0.600 [0.600, 0.600] | 0.400 [0.400, 0.400] | 名称 0.50 |" in scaled


@pytest.mark.slow
def test_a_study_trains_measures_and_goes_on(tiny: Any, rows_folder: Path, tmp_path: Path) -> None:
    """Real training of a tiny model: two sizes, and the second call only reads what the first left."""
    run = tiny.config({"kind": "sft"})
    config = StudyConfig(run, rows_folder, tmp_path, seeds=1, steps=1, max_new_tokens=4)
    said: list[str] = []
    arms = scaling(config, rows_folder, [4, 8], said.append)
    assert [(arm.source, arm.rows) for arm in arms] == [("start", 0), ("synthetic", 4), ("synthetic", 8)]
    assert all(len(arm.rewards) == len(read_rows(rows_folder)) for arm in arms)
    assert len(said) == 2
    for folder in (tmp_path / "arms").iterdir():
        if folder.is_dir():
            (folder / "run" / "run.toml").unlink()
    assert scaling(config, rows_folder, [4, 8]) == arms
