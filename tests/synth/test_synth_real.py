"""The comparison of real and synthetic images runs on any labelled folder; here on the examples, which are synthetic too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_pack_of_ones_own_is_compared(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "benchmarks/synth_real.py", "examples", "--count", "3", "--seed", "5", "--profile", "scan"]
    command += ["--sheets", str(tmp_path), "--json", str(tmp_path / "scores.json")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores = {score["name"]: score for score in json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))}
    assert scores["real, whole pack"]["files"] > 8 and scores["synthetic scan"]["files"] == 3
    assert 0 < scores["synthetic scan"]["strict"] <= 1
    assert (tmp_path / "scan.jpg").stat().st_size > 20_000
    assert "against real, whole pack" in done.stdout


def test_without_a_pack_it_says_what_it_wants(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "benchmarks/synth_real.py", str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "labels.jsonl" in done.stderr
