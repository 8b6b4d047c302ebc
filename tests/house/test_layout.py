"""The house as DESIGN draws it: rooms at the root, a link to each in the front door, one way of importing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

NOT_ROOMS = {"certloop", "tests", "benchmarks", "scripts", "examples", "build", "dist", "out"}
HEAVY = ("torch", "onnxruntime", "gradio", "cv2", "numpy", "PIL", "rapidocr", "transformers", "sqlalchemy")


def rooms(root: Path) -> list[str]:
    return sorted(p.parent.name for p in root.glob("*/__init__.py") if p.parent.name not in NOT_ROOMS)


def test_every_room_has_its_link_in_the_front_door(root: Path) -> None:
    assert {"agentrl", "extract", "synth", "templates", "validators"} <= set(rooms(root))
    for room in rooms(root):
        link = root / "certloop" / room
        assert link.is_symlink(), f"add a link: ln -s ../{room} certloop/{room}"
        assert link.readlink() == Path("..", room)


def test_every_link_leads_to_a_room(root: Path) -> None:
    links = [p for p in (root / "certloop").iterdir() if p.is_symlink()]
    assert sorted(p.name for p in links) == rooms(root)


def test_rooms_import_each_other_only_under_certloop(root: Path) -> None:
    """`import extract` would work in the checkout and break in an installed copy."""
    pattern = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(rooms(root))})\b", re.MULTILINE)
    for room in [*rooms(root), "certloop", "tests", "benchmarks"]:
        for path in (root / room).rglob("*.py"):
            assert not pattern.search(path.read_text(encoding="utf-8")), f"{path}: import certloop.<room> instead"


def test_imports_go_one_way(root: Path) -> None:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def loaded_after(code: str) -> set[str]:
    report = "import sys\ntry:\n    {}\nexcept SystemExit:\n    pass\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report.format(code)], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    "code",
    [
        "import certloop",
        "from certloop.cli import main; main(['--help'])",
        "from certloop.cli import main; main(['extract', '--help'])",
        "from certloop.cli import main; main(['synth', '--help'])",
        "from certloop.cli import main; main(['synth', 'make', '--help'])",
        "from certloop.cli import main; main(['trajectories', '--help'])",
        "from certloop.cli import main; main(['validate', 'uscc', '91350100M000100Y43'])",
        "from certloop.cli import main; main(['types'])",
    ],
)
def test_light_commands_load_nothing_heavy(code: str) -> None:
    loaded = loaded_after(code)
    assert "certloop" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_make_help_names_every_target(root: Path) -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets is not None
    shown = subprocess.run(["make", "--no-print-directory", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in shown.splitlines()} == set(targets.group(1).split())
