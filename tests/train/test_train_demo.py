"""The demonstration and the other commands of training, end to end on tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from certloop.cli import app
from certloop.train.config import dump_config
from certloop.train.demo import demo
from certloop.train.rows import read_rows


def test_the_pipeline_goes_through_and_ends_with_a_table_and_plots(tiny: Any, tmp_path: Path) -> None:
    said: list[str] = []
    where = {"student": str(tiny.student_folder), "teacher": str(tiny.teacher_folder)}
    table = demo(tmp_path, quick=True, say=said.append, **where)
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert rows == ["model", "early student", "+ sft", "+ distill", "+ gspo", "teacher"]
    assert "24 kept, 0 dropped, 0 failed; modes {'declaration': 12, 'discovery': 12}" in "\n".join(said)
    for name in ("f1.png", "fields.png", "curves.png"):
        assert (tmp_path / "report" / name).read_bytes().startswith(b"\x89PNG")
    report = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert [len(entry["seen"]["exact"]) for entry in report] == [6] * 5
    reasoned = read_rows(tmp_path / "reasoned" / "train")
    answers = read_rows(tmp_path / "packed" / "train")
    assert all(r.completion.endswith(f"\n{a.completion}") for r, a in zip(reasoned, answers, strict=True) if r.completion)
    again = demo(tmp_path, quick=True, **where)  # nothing is trained twice
    assert again == table


def test_plan_and_run_from_the_command_line(tiny: Any, tmp_path: Path) -> None:
    run = CliRunner()
    (tmp_path / "c.toml").write_text(dump_config(tiny.config({"kind": "sft", "steps": 1})), encoding="utf-8")
    planned = run.invoke(app, ["train", "plan", str(tmp_path / "c.toml"), "--json"])
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["fits"] is True
    done = run.invoke(app, ["train", "run", str(tmp_path / "c.toml"), "--out", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'r' / '01-sft' / 'model'}\n", "progress goes to standard error"
    assert "sft: step 1 of 1, loss " in done.stderr


def test_a_swift_run_prints_the_script_to_start(tiny: Any, tmp_path: Path) -> None:
    out = tmp_path / "s"
    done = CliRunner().invoke(app, ["train", "run", "swift", "--out", str(out), "--data", str(tiny.rows_folder)])
    assert done.exit_code == 0, done.output
    script = done.stdout.strip()
    assert script.endswith("run.sh")
    assert Path(script).is_file()


def test_the_ablation_trains_every_cell_from_the_same_start(tiny: Any, tmp_path: Path) -> None:
    stage = {
        "kind": "gspo",
        "batch_size": 4,
        "group_size": 4,
        "updates_per_generation": 1,
        "steps": 1,
        "max_completion_length": 4,
    }
    (tmp_path / "c.toml").write_text(dump_config(tiny.config(stage | {"steps": 1})), encoding="utf-8")
    rows = str(tiny.rows_folder)
    words = [
        "train",
        "ablation",
        str(tmp_path / "c.toml"),
        "--out",
        str(tmp_path / "r"),
        "--data",
        rows,
        "--eval",
        rows,
        "--seeds",
        "1",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    cells = [line.split("|")[1:3] for line in done.stdout.splitlines() if line.startswith("| F1^")]
    wanted = [(p, n) for p in ("F1^1", "F1^2", "F1^4") for n in ("group-normalised", "only centred")]
    assert [(a.strip(), b.strip()) for a, b in cells] == wanted
