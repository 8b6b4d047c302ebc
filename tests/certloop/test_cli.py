"""The command line, as a user types it: what goes to stdout, what to stderr, and which code it exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from certloop import __version__
from certloop.cli import main
from certloop.commands.extract import exit_code
from certloop.extract import batch
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result

GOOD_CODE, BAD_CODE = "91350100M000100Y43", "91350100M000100Y44"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def certloop(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Ran(int(stopped.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def toy_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files named bad* fail, half* are read in part, others hold one licence."""

    def read_many(sources: list[Path | bytes], config: Any, **options: Any) -> Iterator[Result]:
        for source in sources:
            name = "-" if isinstance(source, bytes) else str(source)
            status = {"bad": FileStatus.FAILED, "hal": FileStatus.PARTIAL}.get(Path(name).name[:3], FileStatus.OK)
            error = {"code": "image_corrupt", "message": "this file cannot be decoded"} if status is FileStatus.FAILED else None
            field = FieldResult("名称", "示例公司", "示例公司", FieldStatus.READ, 0.97)
            document = Document(options["doc_type"] or "business_licence", 0.99, {"name": field}, title="营业执照")
            yield Result(name, status, () if error else (document,), error)

    monkeypatch.setattr(batch, "read_many", read_many)


def test_version(certloop: Any) -> None:
    assert certloop("--version") == Ran(0, f"certloop {__version__}\n", "")


def test_an_unknown_command_or_option_exits_2(certloop: Any) -> None:
    assert certloop("devour").code == 2
    assert certloop("validate", "uscc").code == 2
    assert certloop("extract", "a.jpg", "--format", "yaml").code == 2
    assert certloop("extract").code == 2


def test_validate_passes_and_fails(certloop: Any) -> None:
    good = certloop("validate", "uscc", GOOD_CODE)
    assert (good.code, good.err) == (0, "")
    assert "校验码正确" in good.out
    bad = certloop("validate", "uscc", BAD_CODE)
    assert bad.code == 1
    assert "校验码不符" in bad.out


def test_validate_as_json(certloop: Any) -> None:
    report = json.loads(certloop("validate", "date", "二〇一九年三月五日", "--json").out)
    assert (report["kind"], report["passes"], report["value"]) == ("date", True, "二〇一九年三月五日")
    assert report["normalised"] == "2019-03-05"


def test_validate_lists_the_kinds_when_asked_for_an_unknown_one(certloop: Any) -> None:
    ran = certloop("validate", "passport", "1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error[unknown_kind]: ")
    assert "uscc" in ran.err


KINDS = [
    "uscc", "org_code", "regno15", "id_number", "food_permit_no", "food_production_no", "drug_permit_no", "device_permit_no",
    "account_approval_no", "road_transport_no", "date", "date_range", "money",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["", " ", "****", "无", "１２３", "\x1b[31m"])
def test_every_promised_kind_answers_whatever_is_asked(certloop: Any, kind: str, value: str) -> None:
    assert certloop("validate", kind, "--", value).code in (0, 1)


def test_types_lists_and_shows(certloop: Any) -> None:
    assert "business_licence" in certloop("types").out
    assert {row["id"] for row in json.loads(certloop("types", "--json").out)} >= {"id_card", "business_licence"}
    shown = certloop("types", "show", "business_licence")
    assert "统一社会信用代码" in shown.out
    field = json.loads(certloop("types", "show", "business_licence", "--json").out)["fields"][0]
    assert (field["id"], field["label"], field["kind"]) == ("credit_code", "统一社会信用代码", "uscc")
    assert (field["required"], field["validators"], field["values"]) == (False, ["uscc"], [])
    assert certloop("types", "show", "passport").code == 2


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["ok"], 0),
        (["ok", "ok"], 0),
        (["ok", "failed"], 1),
        (["partial"], 1),
        (["ok", "partial"], 1),
        (["partial", "failed"], 1),
        (["failed"], 3),
        (["failed", "failed"], 3),
    ],
)
def test_exit_codes_of_extract(statuses: list[str], code: int) -> None:
    assert exit_code(Counter(statuses)) == code


@pytest.mark.usefixtures("toy_reader")
def test_a_bad_file_does_not_stop_the_good_ones(certloop: Any) -> None:
    ran = certloop("extract", "a.jpg", "bad.jpg", "b.jpg", "--format", "jsonl")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["file"], row["status"]) for row in lines] == [("a.jpg", "ok"), ("bad.jpg", "failed"), ("b.jpg", "ok")]
    assert ran.code == 1
    assert "bad.jpg: error[image_corrupt]" in ran.err
    assert "3 files: 1 failed, 2 ok" in ran.err


@pytest.mark.usefixtures("toy_reader")
def test_data_goes_to_the_output_file(certloop: Any, tmp_path: Path) -> None:
    ran = certloop("extract", "a.jpg", "--format", "jsonl", "--output", tmp_path / "out.jsonl")
    assert (ran.code, ran.out) == (0, "")
    assert json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8"))["file"] == "a.jpg"


@pytest.mark.usefixtures("toy_reader")
def test_the_type_is_passed_on_and_checked_first(certloop: Any) -> None:
    ran = certloop("extract", "a.jpg", "--type", "id_card", "--format", "jsonl")
    assert json.loads(ran.out)["documents"][0]["doc_type"] == "id_card"
    assert certloop("extract", "a.jpg", "--type", "passport").code == 2


@pytest.mark.usefixtures("toy_reader")
def test_a_folder_without_files_is_a_usage_error(certloop: Any, tmp_path: Path) -> None:
    ran = certloop("extract", tmp_path)
    assert ran.code == 2
    assert ran.err.startswith("error[usage]: ")


def test_a_wrong_setting_is_a_usage_error(certloop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTLOOP_WORKERS", "none")
    ran = certloop("extract", "a.jpg")
    assert ran.code == 2
    assert "CERTLOOP_WORKERS" in ran.err


def test_an_unexpected_error_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Iterator[Result]:
        raise RuntimeError("a bug")

    monkeypatch.setattr(batch, "read_many", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["extract", "a.jpg"])


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "certloop", *map(str, arguments)], capture_output=True, check=False, **options)


def test_real_files_of_no_use_are_reported_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.png").write_text("not an image", encoding="utf-8")
    done = run("extract", tmp_path / "missing.jpg", tmp_path, "--format", "jsonl")
    codes = [json.loads(line)["error"]["code"] for line in done.stdout.splitlines()]
    assert codes == ["file_not_found", "file_empty", "format_unsupported"]
    assert done.returncode == 3


def test_standard_input_is_read() -> None:
    done = run("extract", "-", "--format", "jsonl", input=b"text, not an image")
    row = json.loads(done.stdout)
    assert (row["file"], row["error"]["code"], done.returncode) == ("-", "format_unsupported", 3)


def test_a_workbook_may_go_through_a_pipe(tmp_path: Path) -> None:
    done = run("extract", tmp_path / "missing.jpg", "--format", "xlsx")
    assert done.stdout.startswith(b"PK\x03\x04")
    assert done.returncode == 3


def test_a_reader_that_stops_listening_gets_no_traceback() -> None:
    command = f"{sys.executable} -m certloop types show business_licence | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_annotated_pictures_of_two_files_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    from certloop.commands.doctor import draw_probe

    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        draw_probe().save(tmp_path / folder / "scan.png")
    done = run("extract", tmp_path / "one", tmp_path / "two", "--workers", "2", "--annotate", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["scan_p1.png", "scan~2_p1.png"]
    assert GOOD_CODE in done.stdout.decode()


FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


def shell(command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """``command`` in a shell, where C stands for the command line."""
    line = command.replace("C ", f"{sys.executable} -m certloop ", 1)
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, **options)


@needs_full
@pytest.mark.parametrize(
    "command",
    [
        "C extract none.jpg --format jsonl --output /dev/full",
        "C extract none.jpg --format xlsx --output /dev/full",
        "C extract none.jpg >/dev/full",
        "C extract none.jpg --format csv >/dev/full",
        "C extract none.jpg --format xlsx >/dev/full",
        "C extract none.jpg --format jsonl >&-",
        "C extract - <&-",
        "C validate uscc 1 >/dev/full",
        "C validate uscc 1 >&-",
        "C --help >/dev/full",
    ],
)
def test_a_full_disk_or_a_closed_stream_is_one_line(command: str, tmp_path: Path) -> None:
    done = shell(command, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    [error] = [line for line in done.stderr.splitlines() if "none.jpg" not in line]
    assert error.startswith("error[usage]: ")


def test_ctrl_c_is_quiet_even_while_modules_are_loaded(tmp_path: Path) -> None:
    """A module that the command line imports stands for the moment at which the key is pressed."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    done = shell("C types", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_while_reading_is_quiet(certloop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Iterator[Result]:
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "read_many", interrupted)
    assert certloop("extract", "a.jpg") == Ran(130, "", "")


@pytest.mark.usefixtures("toy_reader")
def test_the_format_follows_the_name_of_the_output(certloop: Any, tmp_path: Path) -> None:
    assert certloop("extract", "a.jpg", "-o", tmp_path / "t.xlsx").code == 0
    assert (tmp_path / "t.xlsx").read_bytes().startswith(b"PK")
    assert certloop("extract", "a.jpg", "-o", tmp_path / "t.JSONL").code == 0
    assert json.loads((tmp_path / "t.JSONL").read_text(encoding="utf-8"))["file"] == "a.jpg"
    refused = certloop("extract", "a.jpg", "-o", tmp_path / "u.xlsx", "--format", "csv")
    assert (refused.code, (tmp_path / "u.xlsx").exists()) == (2, False)


@pytest.mark.usefixtures("toy_reader")
@pytest.mark.parametrize("name", ["b.jpg", "b.PDF", "r.json"])
def test_an_output_named_as_a_scan_is_refused_and_the_file_stays(certloop: Any, tmp_path: Path, name: str) -> None:
    """``--output *.jpg`` in a shell names the first scan."""
    (tmp_path / name).write_bytes(b"a scan")
    refused = certloop("extract", "a.jpg", "-o", tmp_path / name)
    assert (refused.code, (tmp_path / name).read_bytes()) == (2, b"a scan")
    assert "usage" in refused.err


@pytest.mark.usefixtures("toy_reader")
def test_an_output_that_is_an_input_is_refused(certloop: Any, tmp_path: Path) -> None:
    (tmp_path / "scan").write_bytes(b"a scan")
    (tmp_path / "link").symlink_to(tmp_path / "scan")
    assert certloop("extract", tmp_path / "scan", "-o", tmp_path / "link").code == 2
    assert (tmp_path / "scan").read_bytes() == b"a scan"


def test_an_interrupted_run_says_how_far_it_came_and_leaves_the_old_workbook(
    certloop: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(sources: list[Path], *_: Any, **__: Any) -> Iterator[Result]:
        yield Result(str(sources[0]), FileStatus.OK, (), None)
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "read_many", interrupted)
    (tmp_path / "old.xlsx").write_bytes(b"as it was")
    ran = certloop("extract", "a.jpg", "b.jpg", "-o", tmp_path / "old.xlsx")
    assert (ran.code, ran.err) == (130, "interrupted: 1 of 2 files were read\n")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("old.xlsx", b"as it was")]


@pytest.mark.usefixtures("toy_reader")
def test_an_empty_folder_does_not_stop_the_others(certloop: Any, tmp_path: Path) -> None:
    ran = certloop("extract", tmp_path, "a.jpg", "--format", "jsonl")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert ran.err.startswith("warning: no image or PDF found")


@pytest.mark.usefixtures("toy_reader")
def test_a_failed_file_is_told_once(certloop: Any) -> None:
    ran = certloop("extract", "a.jpg", "bad.jpg")
    assert (ran.out + ran.err).count("image_corrupt") == 1


@pytest.mark.usefixtures("toy_reader")
def test_a_picture_that_cannot_be_drawn_stops_nothing(certloop: Any, tmp_path: Path) -> None:
    """The files do not exist, so that nothing can be drawn on them."""
    ran = certloop("extract", "a.jpg", "b.jpg", "--format", "jsonl", "--annotate", tmp_path)
    assert (ran.code, len(ran.out.splitlines())) == (1, 2)
    assert ran.err.count("warning: not annotated: error[file_not_found]") == 2


@pytest.mark.usefixtures("toy_reader")
def test_pictures_go_where_they_can_under_names_that_fit(certloop: Any, tmp_path: Path) -> None:
    from PIL import Image

    long = tmp_path / ("示" * 83 + ".png")  # 249 bytes and a suffix: the longest name there is
    Image.new("RGB", (64, 64), "white").save(long)
    assert certloop("extract", long, "--format", "jsonl", "--annotate", tmp_path / "out").code == 0
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["示" * 66 + "_p1.png"]
    if Path("/proc").is_dir():
        ran = certloop("extract", long, "--format", "jsonl", "--annotate", "/proc")
        assert (ran.code, len(ran.out.splitlines())) == (1, 1)
        assert "warning: not annotated: cannot write to /proc" in ran.err


def test_no_control_character_of_a_value_reaches_the_terminal(certloop: Any) -> None:
    for arguments in (["uscc", "a\x07\x1b[31m\x9bb"], ["date", "2019\x07\x7f年"], ["uscc", "a\x07\x9bb", "--json"]):
        assert not {"\x07", "\x1b", "\x9b", "\x7f"} & set(certloop("validate", *arguments).out)
    assert json.loads(certloop("validate", "uscc", "a\x07\x9bb", "--json").out)["value"] == "a\x07\x9bb"


def test_evaluate_says_where_it_looked(certloop: Any, tmp_path: Path) -> None:
    row = {"file": "gone.jpg", "doc_type": "营业执照", "fields": {"名称": "示例公司"}}
    (tmp_path / "labels.jsonl").write_text(json.dumps(row), encoding="utf-8")
    ran = certloop("evaluate", tmp_path)
    assert ran.code == 2
    assert str(tmp_path / "gone.jpg") in ran.err
