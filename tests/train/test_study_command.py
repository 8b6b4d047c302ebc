"""``certloop study``: the table alone on stdout, the reward's history, and what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from certloop.cli import app
from certloop.errors import UsageError

RUNNER = CliRunner()


def test_the_history_of_rewards_as_table_and_as_json() -> None:
    table = RUNNER.invoke(app, ["study", "rewards"])
    assert table.exit_code == 0
    assert "| version | reward | the hack it allowed | since | test |" in table.stdout
    lines = [json.loads(line) for line in RUNNER.invoke(app, ["study", "rewards", "--json"]).stdout.splitlines()]
    assert {"version", "reward", "hack", "since", "test"} == set(lines[0])
    assert len(lines) == len(table.stdout.splitlines()) - 2


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--sizes", "many"], "sizes are numbers"), (["--sizes", "0,5"], "sizes are numbers"), (["--rows", "."], "--held-out DIR")],
)
def test_what_makes_no_sense_is_told(words: list[str], said: str, tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["study", "scaling", "--out", str(tmp_path), *words])
    assert isinstance(done.exception, UsageError)
    assert said in done.exception.message
