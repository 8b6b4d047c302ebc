"""From synthetic pages to training rows on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from certloop.synth import MakeConfig, make
from certloop.train.cli import app
from certloop.train.errors import TrainConfigError, TrainDataError
from certloop.train.rows import read_rows

RUN = CliRunner()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "set"
    splits = (("train", 2.0), ("test", 1.0))
    make(
        MakeConfig(
            out=out, types=("road_transport_operation_permit",), count=4, seed=3, profiles=(("clean", 1.0),), splits=splits
        )
    )
    return out


def test_pages_are_annotated_and_packed(data: Path, tmp_path: Path) -> None:
    notes, rows = tmp_path / "notes", tmp_path / "rows"
    done = RUN.invoke(app, ["teach", str(data), "--out", str(notes), "--scripted", "full"])
    assert done.exit_code == 0, done.output
    tally = json.loads(done.stdout)
    labels = [str(data / f"{split}.jsonl") for split in ("train", "test")]
    packed = RUN.invoke(
        app, ["pack", str(data), "--out", str(rows), "--annotations", str(notes), "--labels", labels[0], "--labels", labels[1]]
    )
    assert packed.exit_code == 0, packed.output
    counts = json.loads(packed.stdout)["rows"]
    assert counts["train"] == tally["kept"] == len(read_rows(rows / "train")) > 0
    assert counts["test"] == len(read_rows(rows / "test")) > 0


def test_what_makes_no_sense_is_refused(data: Path, tmp_path: Path) -> None:
    for arguments in (["--scripted", "full", "--url", "http://127.0.0.1:1/v1"], [], ["--url", "http://127.0.0.1:1/v1"]):
        refused = RUN.invoke(app, ["teach", str(data), "--out", str(tmp_path / "x"), *arguments])
        assert isinstance(refused.exception, TrainConfigError)
    nothing = RUN.invoke(app, ["pack", str(data), "--out", str(tmp_path / "y"), "--annotations", str(tmp_path / "none")])
    assert isinstance(nothing.exception, TrainDataError)


def test_types_of_ones_own_are_found_by_the_environment_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from certloop.train.nano import nano_pages
    from certloop.train.nano.vocabulary import TYPES, nano_type

    (page,) = nano_pages(5, 1)
    page.image.save(tmp_path / "1.png")
    fields = {spec.label: page.fields.get(spec.label) for spec in nano_type().fields.values()}
    label = {"file": "1.png", "doc_type": "nano_licence", "fields": fields}
    (tmp_path / "train.jsonl").write_text(json.dumps(label, ensure_ascii=False) + "\n", encoding="utf-8")
    monkeypatch.setenv("CERTLOOP_TEMPLATE_PATH", str(TYPES))
    done = RUN.invoke(app, ["pack", str(tmp_path), "--out", str(tmp_path / "rows")])
    assert done.exit_code == 0, (done.output, done.exception)
    assert len(read_rows(tmp_path / "rows" / "train")) == 1
    asked = RUN.invoke(app, ["teach", str(tmp_path), "--out", str(tmp_path / "notes"), "--scripted", "brief"])
    assert "has none for 6 fields" in str(asked.exception), "it knows the page's type, and asks for the boxes of its values"
