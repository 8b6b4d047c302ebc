"""The commands: what they refuse in one line, and that one process with SQLite is all it has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from live import Live


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {f"CERTLOOP_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "certloop", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_demo_mode_listens_on_loopback_only(tmp_path: Path) -> None:
    done = run("serve", "--demo", "--host", "0.0.0.0", database_url=f"sqlite:///{tmp_path}/store.db")
    assert done.returncode == 2
    assert done.stderr.startswith("error[demo_refused]")
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize("arguments", [("worker",), ("serve", "--port", "0")])
def test_a_second_process_on_sqlite_is_refused(live: Live, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, database_url=live.url)
    assert done.returncode == 2, done.stderr
    assert "error[worker_running]" in done.stderr
    assert "Postgres" in done.stderr


def test_settings_that_make_no_sense_are_named() -> None:
    done = run("worker", readers="0")
    assert (done.returncode, "CERTLOOP_READERS" in done.stderr) == (2, True)
    assert run("worker", "--readers", "0").returncode == 2
