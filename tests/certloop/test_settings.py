"""Settings: only CERTLOOP_ variables, and a message that names the wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from certloop.errors import UsageError
from certloop.settings import Settings


def test_defaults_read_with_one_worker_and_the_embedded_engine() -> None:
    settings = Settings.load()
    assert (settings.workers, settings.engine, settings.template_path) == (1, "ocr", ())


def test_the_template_path_is_separated_like_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTLOOP_TEMPLATE_PATH", os.pathsep.join(["/a", "", "/b c"]))
    assert Settings.load().template_path == (Path("/a"), Path("/b c"))
    assert Settings.load().extract_config().template_path == ("/a", "/b c")


def test_limits_reach_the_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTLOOP_MAX_PAGES", "3")
    monkeypatch.setenv("CERTLOOP_MAX_BYTES", "1000")
    limits = Settings.load().extract_config().limits
    assert (limits.max_pages, limits.max_bytes) == (3, 1000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKERS", "0"),
        ("WORKERS", "many"),
        ("ENGINE", "magic"),
        ("MAX_BYTES", "-1"),
        ("DECODE_TIMEOUT_S", "inf"),
        ("DECODE_TIMEOUT_S", "nan"),
        ("DECODE_MEMORY_BYTES", "1"),
        ("DECODE_MEMORY_BYTES", str(2**70)),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"CERTLOOP_{name}", value)
    with pytest.raises(UsageError, match=f"CERTLOOP_{name}"):
        Settings.load()
