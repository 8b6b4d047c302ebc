"""`certloop doctor`: what it finds, and that it goes on after a finding."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

import pytest

from certloop.commands import doctor
from certloop.commands.doctor import Check, Level


def test_a_sound_installation_passes_every_check() -> None:
    checks = [check for name, examine in doctor.CHECKS for check in doctor._guard(name, examine)]
    assert {c.name for c in checks} >= {"python", "packages", "opencv", "model", "fonts", "document types", "memory", "reading"}
    assert not [c for c in checks if c.level is Level.FAIL]


def test_two_builds_of_opencv_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda name: name in ("opencv-python", "opencv-python-headless"))
    (check,) = doctor._opencv()
    assert check.level is Level.FAIL
    assert "pip uninstall -y opencv-python opencv-python-headless" in check.detail


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def without_pillow(name: str) -> str:
        if name == "pillow":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without_pillow)
    (check,) = doctor._packages()
    assert (check.level, "pillow is missing" in check.detail) == (Level.FAIL, True)


def test_a_check_that_raises_is_a_finding() -> None:
    def broken() -> Iterator[Check]:
        yield Check("x", Level.OK, "first")
        raise OSError("disk on fire")

    first, second = doctor._guard("x", broken)
    assert first.level is Level.OK
    assert (second.level, second.detail) == (Level.FAIL, "OSError: disk on fire")
