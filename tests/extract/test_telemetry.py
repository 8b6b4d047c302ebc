"""Reading leaves nothing in the user's home folder: onnxruntime's telemetry is off before it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_reading_writes_nothing_into_the_home_folder(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    command = [sys.executable, "-m", "certloop", "extract", "examples/identity_card_front.jpg", "--format", "jsonl"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [str(p.relative_to(home)) for p in home.rglob("*") if p.is_file()] == []
