"""The whole product on its own examples, as a first user meets it. They are drawn: this says nothing about real scans."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_examples_are_read(root: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "certloop", "evaluate", "examples", "--workers", "2", "--json", str(report)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores = json.loads(report.read_text(encoding="utf-8"))
    assert scores["codes"]["rate"] == 1.0
    assert scores["overall"]["strict"]["rate"] >= 0.85
    assert scores["overall"]["invented"]["ok"] == 0
    assert scores["unknown_types"]["rate"] == 1.0, "the invoice is no certificate"
