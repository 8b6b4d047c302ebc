"""What is installed: the lock file, the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SOURCE_SUFFIXES = {
    ".py", ".typed", ".toml", ".txt", ".TXT", ".json", ".csv", ".tsv", ".html", ".js", ".css", ".md",
    ".woff2", ".otf", ".ttf", ".jinja", ".safetensors",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def locked(root: Path) -> dict[str, str]:
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [re.fullmatch(r"([a-z0-9.-]+)(?:\[[a-z,]+\])?==([^\s;]+)(?: ; .*)?", line) for line in lines]
    assert all(pins), [line for line, pin in zip(lines, pins, strict=True) if not pin]
    return {pin.group(1): pin.group(2) for pin in pins if pin}


def test_the_lock_holds_one_version_of_everything(locked: dict[str, str], project: dict[str, Any], root: Path) -> None:
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    for requirement in map(Requirement, wanted):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock; run make lock"
        assert requirement.specifier.contains(version), f"{requirement} but {version} is locked; run make lock"
    names = [re.split(r"[=\[]", line)[0] for line in (root / "requirements.lock").read_text(encoding="utf-8").splitlines()]
    assert len(names) == len(set(names)), "two versions of one package"


def test_the_lock_names_no_place(root: Path) -> None:
    text = (root / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"://|^-|[/\\@]", text, re.MULTILINE)


def test_one_opencv_and_the_headless_one(locked: dict[str, str]) -> None:
    assert [name for name in locked if name.startswith("opencv")] == ["opencv-python-headless"]


def test_the_base_install_is_light(project: dict[str, Any]) -> None:
    names = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    assert names.isdisjoint({"torch", "torchvision", "transformers", "gradio", "ray"})


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The wheel of the checkout, built away from it (a build leaves folders behind)."""
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(root / name, source / name)
    for folder in ("certloop", *(p.name for p in (root / "certloop").iterdir() if p.is_symlink())):
        shutil.copytree(root / folder, source / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(work), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    yield next(work.glob("certloop-*.whl"))
    shutil.rmtree(work)


def test_the_wheel_holds_every_module_and_data_file(root: Path, wheel: Path) -> None:
    inside = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    expected = {
        path.relative_to(root).as_posix()
        for path in (root / "certloop").rglob("*")
        if path.is_file() and path.suffix in SOURCE_SUFFIXES and "__pycache__" not in path.parts
    }
    for room in (p.name for p in (root / "certloop").iterdir() if p.is_symlink()):
        files = (p for p in (root / room).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        unknown = {p.name for p in files if p.suffix not in SOURCE_SUFFIXES}
        assert not unknown, f"{room} holds data files of a kind that package-data in pyproject.toml does not name: {unknown}"
        paths = (p for p in (root / room).rglob("*") if p.suffix in SOURCE_SUFFIXES and "__pycache__" not in p.parts)
        expected |= {f"certloop/{p.relative_to(root).as_posix()}" for p in paths}
    assert "certloop/templates/business_licence/type.toml" in inside
    assert expected == inside


def test_the_wheel_takes_one_name_only(wheel: Path) -> None:
    """`extract`, `train`, `templates` at the top of site-packages would overwrite other people's packages."""
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"certloop"}


def test_an_installed_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    libraries = [p for p in sys.path if p.endswith("site-packages")]
    code = f"import sys; sys.path[:0] = {[str(tmp_path / 'site'), *libraries]!r}; from certloop.cli import main; main()"
    command = [sys.executable, "-I", "-S", "-c", code, "types", "show", "business_licence"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "统一社会信用代码" in done.stdout
