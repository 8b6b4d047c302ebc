"""The documentation is true: its commands run and print what it shows, and nothing public is missing from it."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import certloop
from certloop.agentrl.errors import CertloopError
from certloop.cli import app
from certloop.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEMPLATES_README = (ROOT / "templates" / "README.md").read_text(encoding="utf-8")
ERROR_BASES = {"error", "ingest_error", "synth_error", "model_error"}  # never raised themselves


@dataclass(frozen=True)
class Example:
    """``$ command   # exit N`` and the output below it; a line ``...`` stands for any lines, a trailing `` ...`` for any rest."""

    command: str
    exit_code: int
    output: tuple[str, ...]


def examples(text: str) -> Iterator[Example]:
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *output = part.splitlines()
            command, _, code = line.partition("# exit ")
            yield Example(command.strip(), int(code or 0), tuple(output))


@pytest.mark.parametrize("example", list(examples(README)), ids=lambda e: e.command)
def test_the_examples_of_the_readme_print_what_it_shows(example: Example, tmp_path: Path) -> None:
    program, *arguments = shlex.split(example.command)
    assert program == "certloop"
    done = subprocess.run(
        [sys.executable, "-m", "certloop", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == example.exit_code, done.stderr
    pattern = "".join(
        "(?:.*\n)*" if line == "..." else re.escape(line.removesuffix("...")) + (".*\n" if line.endswith("...") else "\n")
        for line in example.output
    )
    assert re.fullmatch(pattern, done.stdout), done.stdout


def commands() -> list[str]:
    named = [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups]
    return sorted(str(name) for name in named)


@pytest.mark.parametrize("command", commands())
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"`certloop {command}" in README


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_in_the_readme(name: str) -> None:
    default = Settings.model_fields[name].default
    shown = "" if default == () else f"{default:g}" if isinstance(default, float) else str(default)
    row = re.search(rf"^\| `CERTLOOP_{name.upper()}` \|(.*?)\|", README, re.MULTILINE)
    assert row is not None
    assert row.group(1).strip(" `") == shown


def error_codes() -> set[str]:
    for module in pkgutil.walk_packages(certloop.__path__, "certloop."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def below(cls: type[CertloopError]) -> Iterator[str]:
        for child in cls.__subclasses__():
            if child.__module__.startswith("certloop."):
                yield child.code
            yield from below(child)

    return {*below(CertloopError), "worker_crashed"} - ERROR_BASES


def test_the_tree_of_errors_is_drawn() -> None:
    """Every class directly below the root stands in the docstring of ``agentrl/errors.py``."""
    error_codes()  # imports every module
    top = {c.__name__ for c in CertloopError.__subclasses__() if c.__module__.startswith("certloop.")}
    drawn = set(re.findall(r"[├└]── (\w+)", sys.modules[CertloopError.__module__].__doc__ or ""))
    assert drawn == top


def test_every_error_code_is_in_the_readme() -> None:
    assert not {code for code in error_codes() if f"`{code}`" not in README}


DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "templates/README.md", "synth/README.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_make_targets_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / document).parent.joinpath(link).exists(), link
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE) or target in ("needs", "it"), target


def test_the_worked_example_of_a_new_type_works(tmp_path: Path) -> None:
    """Does what templates/README.md tells: copy a folder, replace its two files, look, check."""
    folder = tmp_path / "my_types" / "hygiene_permit"
    copied = re.search(r"cp -r (templates/\S+)", TEMPLATES_README)
    assert copied is not None
    assert (ROOT / copied.group(1) / "type.toml").exists()
    forms = ROOT / copied.group(1) / "layouts"
    assert not forms.exists() or "rm -r my_types/hygiene_permit/layouts" in TEMPLATES_README, "they belong to the other type"
    folder.mkdir(parents=True)
    for language, name in (("toml", "type.toml"), ("text", "prompt.txt")):
        block = re.search(rf"^```{language}\n(.*?)^```", TEMPLATES_README, re.MULTILINE | re.DOTALL)
        assert block is not None
        (folder / name).write_text(block.group(1), encoding="utf-8")
    environment = os.environ | {"CERTLOOP_TEMPLATE_PATH": "my_types"}
    show = [sys.executable, "-m", "certloop", "types", "show", "hygiene_permit"]
    done = subprocess.run(show, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "permit_no*" in done.stdout
    conformance = ["tests/templates", "-q", "-k", "hygiene_permit", "--template-path", str(tmp_path / "my_types")]
    checked = subprocess.run(
        [sys.executable, "-m", "pytest", *conformance], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_the_readme_shows_every_key_of_a_result() -> None:
    from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result

    document = Document("business_licence", 0.9, {"name": FieldResult("名称", None)})
    row = Result("a.jpg", FileStatus.OK, (document,)).to_json()
    keys = {*row, *row["documents"][0], *row["documents"][0]["fields"]["name"]}
    assert not {key for key in keys if f'"{key}"' not in README}
    assert not {status for status in FieldStatus if f"`{status}`" not in README}


def test_the_readme_names_every_quality_flag() -> None:
    source = (ROOT / "extract" / "marks" / "quality.py").read_text(encoding="utf-8")
    flags = re.findall(r'^ {8}"(\w+)": ', source, re.MULTILINE)
    assert "blur" in flags
    assert not {flag for flag in flags if f"`{flag}`" not in README}


def test_the_template_readme_names_every_key() -> None:
    from certloop.templates import FieldKind
    from certloop.templates.loader import _FIELD_KEYS, _TYPE_KEYS

    for name in [*_FIELD_KEYS, *(_TYPE_KEYS - {"fields"}), *FieldKind]:
        assert f"`{name}`" in TEMPLATES_README, name
