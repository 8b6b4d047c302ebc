"""The installed command on real files, as a user runs it in a folder of scans."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import openpyxl
import pytest

CERTLOOP = Path(sys.executable).parent / "certloop"


@pytest.fixture
def id_number(root: Path) -> str:
    """The number on the example card, from its label."""
    rows = map(json.loads, (root / "examples" / "labels.jsonl").read_text(encoding="utf-8").splitlines())
    return next(row["fields"]["公民身份号码"] for row in rows if row["file"] == "identity_card_front.jpg")


@pytest.fixture
def scans(root: Path, tmp_path: Path) -> Path:
    """A folder with a good scan, a file that only looks like one, a note, and a subfolder with another scan."""
    folder = tmp_path / "scans"
    (folder / "older").mkdir(parents=True)
    shutil.copy(root / "examples" / "identity_card_front.jpg", folder / "good.jpg")
    shutil.copy(root / "examples" / "identity_card_front.jpg", folder / "older" / "card.jpg")
    (folder / "bad.jpg").write_text("not an image", encoding="utf-8")
    (folder / "notes.txt").write_text("a list of what to scan", encoding="utf-8")
    return folder


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(CERTLOOP), *map(str, arguments)], capture_output=True, check=False, cwd=cwd)


def rows(done: subprocess.CompletedProcess[bytes]) -> list[dict]:
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def test_a_good_and_a_bad_file(scans: Path, id_number: str) -> None:
    done = run("extract", "good.jpg", "bad.jpg", "--format", "jsonl", cwd=scans)
    good, bad = rows(done)
    assert done.returncode == 1
    assert (good["file"], good["status"]) == ("good.jpg", "ok")
    assert good["documents"][0]["fields"]["id_number"]["value"] == id_number
    assert (bad["file"], bad["status"], bad["error"]["code"], bad["documents"]) == ("bad.jpg", "failed", "format_unsupported", [])
    assert "bad.jpg: error[format_unsupported]" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_folder_and_two_workers_give_what_one_worker_gives(scans: Path) -> None:
    one = run("extract", ".", "--recursive", "--format", "jsonl", "--workers", "1", cwd=scans)
    two = run("extract", ".", "--recursive", "--format", "jsonl", "--workers", "2", cwd=scans)
    assert [row["file"] for row in rows(one)] == ["bad.jpg", "good.jpg", "older/card.jpg"]
    assert two.stdout == one.stdout
    assert two.returncode == one.returncode == 1
    assert "notes.txt" in one.stderr.decode(), "what was left out is said"


def test_a_pattern_is_expanded_by_the_command_itself(scans: Path) -> None:
    """Quoted in the shell, or on a system whose shell does not expand patterns."""
    done = run("extract", "**/*.jpg", "--format", "jsonl", cwd=scans)
    assert [row["file"] for row in rows(done)] == ["bad.jpg", "good.jpg", "older/card.jpg"]
    nothing = run("extract", "*.heic", cwd=scans)
    assert (nothing.returncode, nothing.stdout) == (2, b"")
    assert nothing.stderr.decode().startswith("error[usage]: ")


def test_the_table_is_for_reading(scans: Path, id_number: str) -> None:
    done = run("extract", "good.jpg", cwd=scans)
    assert done.returncode == 0
    for text in ("good.jpg", "公民身份号码", id_number):
        assert text in done.stdout.decode()


def test_cells_that_a_spreadsheet_would_run_are_neutralised(scans: Path) -> None:
    """A name that starts with = is a formula to a spreadsheet; here it comes from the file's name."""
    (scans / "good.jpg").rename(scans / "=1+1.jpg")
    table = run("extract", "=1+1.jpg", "--format", "csv", cwd=scans).stdout.decode("utf-8-sig")
    cells = [cell for row in csv.reader(io.StringIO(table)) for cell in row]
    assert any("1+1.jpg" in cell for cell in cells)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)

    assert run("extract", "=1+1.jpg", "--format", "xlsx", "--output", "out.xlsx", cwd=scans).returncode == 0
    book = openpyxl.load_workbook(scans / "out.xlsx")
    inside = [cell for sheet in book for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert any("1+1.jpg" in str(cell.value) for cell in inside)
    assert not any(cell.data_type == "f" or str(cell.value).startswith(("=", "+", "@")) for cell in inside)


def test_what_was_read_is_on_record(scans: Path, id_number: str) -> None:
    """extract --store, then the store's own commands: listed, shown without a value, whole, exported with consent."""
    store = ["--store", "sqlite:///kept/store.db", "--tenant", "acme"]
    terms = ["--consent", "tenant", "--purpose", "tests"]
    done = run("extract", "good.jpg", "bad.jpg", "--format", "jsonl", *store, *terms, cwd=scans)
    good, bad = rows(done)
    assert (done.returncode, bad["error"]["code"]) == (1, "format_unsupported")
    traj_id = good["documents"][0]["trajectory_id"]

    listed = run("trajectories", "list", *store, cwd=scans).stdout.decode()
    assert listed.split()[0] == traj_id
    assert len(listed.splitlines()) == 1, "the file that could not be read left nothing"
    shown = run("trajectories", "show", traj_id, *store, cwd=scans).stdout.decode()
    assert "ocr" in shown
    assert "公民身份号码" in shown
    assert id_number not in shown
    revealed = run("trajectories", "show", traj_id, "--reveal", *store, cwd=scans).stdout.decode()
    assert id_number in revealed
    assert run("store", "verify", *store[:2], cwd=scans).returncode == 0

    exported = run("trajectories", "export", "--unapproved", *store, cwd=scans)
    [row] = [json.loads(line) for line in exported.stdout.decode().splitlines()]
    assert id_number in json.dumps(row, ensure_ascii=False)
    assert (scans / row["images"][0]).is_file()
