"""The commands around the engine: blank forms from scans, contact sheets, examples, dossiers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from certloop.agentrl.errors import CertloopError
from certloop.synth.blank import BlankError, make_blank
from certloop.synth.cli import app
from certloop.synth.config import MakeConfig, WriterConfig
from certloop.synth.dataset import make
from certloop.synth.dossier import make_dossier
from certloop.synth.errors import LayoutError, OutputError, WriterError
from certloop.synth.label import make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe, draw_document
from certloop.synth.weights import WeightError, parse_weights


def test_a_scan_becomes_a_blank_that_can_be_filled_again(root: Path, tmp_path: Path) -> None:
    sample = make_sample(Recipe("business_licence", 21, 1200, layouts=("horizontal_2019",)), load_profile("clean"))
    scan = tmp_path / "scan.png"
    scan.write_bytes(sample.encoded())
    out = tmp_path / "types" / "business_licence" / "layouts"
    blank = make_blank(scan, "business_licence", out, name="mine")
    assert {"credit_code", "name", "address", "scope"} <= {p.field for p in blank.places}
    picture = cv2.imread(str(blank.image))
    for name in ("统一社会信用代码", "名称"):
        for polygon in sample.label["boxes"][name]["lines"]:
            (x0, y0), _, (x1, y1), _ = polygon
            before, after = (i[int(y0) : int(y1), int(x0) : int(x1)].min() for i in (sample.image, picture))
            assert before < 100 < after, name
    label = sample.label["labels"]["名称"][0]
    assert picture[int(label[0][1]) : int(label[2][1]), int(label[0][0]) : int(label[2][0])].min() < 110
    shutil.copy(root / "templates/business_licence/type.toml", out.parent / "type.toml")
    page = draw_document(Recipe("business_licence", 1, 1200, layouts=("mine",), search_path=(str(tmp_path / "types"),))).page
    assert page.values["credit_code"] and page.image.size[0] == 1200


def test_a_blank_of_nothing_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.png"
    cv2.imwrite(str(empty), np.full((600, 900, 3), 250, np.uint8))
    with pytest.raises(BlankError, match=r"cannot be read|no value"):
        make_blank(empty, "business_licence", tmp_path / "o")
    (tmp_path / "not.jpg").write_bytes(b"hello")
    with pytest.raises(BlankError, match="cannot be read"):
        make_blank(tmp_path / "not.jpg", "business_licence", tmp_path / "o")


def test_examples_follow_from_their_seeds(root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "examples" / "examples.toml", tmp_path)
    done = CliRunner().invoke(app, ["examples", str(tmp_path)])
    assert done.exit_code == 0, done.output
    labels = [json.loads(line) for line in (root / "examples" / "labels.jsonl").read_text("utf-8").splitlines()]
    assert (tmp_path / "labels.jsonl").read_text("utf-8") == (root / "examples" / "labels.jsonl").read_text("utf-8")
    assert any(row["rotate_cw_after_exif"] for row in labels) and any(row["file"].endswith(".pdf") for row in labels)
    for row in labels:
        committed, made = root / "examples" / row["file"], tmp_path / row["file"]
        assert committed.stat().st_size < 250_000
        assert made.read_bytes() == committed.read_bytes(), f"{row['file']}: run certloop synth examples"


def test_the_papers_of_a_dossier_name_one_firm() -> None:
    samples = make_dossier(7, load_profile("clean"), width_px=1100)
    labels = ("名称", "经营者名称", "公司名称", "委托人")
    names = {next(s.label["fields"][name] for name in labels if name in s.label["fields"]) for s in samples}
    assert len(names) == 1 and None not in names


def test_commands_make_list_and_draw(tmp_path: Path) -> None:
    run = CliRunner().invoke
    args = ["make", "--type", "id_card", "--count", "6", "--profile", "clean", "--seed", "7", "--width", "400", "--out"]
    made = run(app, [*args, str(tmp_path / "d")])
    assert made.exit_code == 0 and "6 images" in made.output
    assert (tmp_path / "d" / "manifest.json").exists()
    sheet = run(app, ["preview", "--type", "id_card", "--count", "2", "--out", str(tmp_path / "p.png")])
    assert sheet.exit_code == 0 and (tmp_path / "p.png").stat().st_size > 10_000
    assert "horizontal_2019" in run(app, ["layouts", "--type", "business_licence"]).output
    assert "photo\t" in run(app, ["profiles"]).output


def test_weights() -> None:
    assert parse_weights(["photo", "scan=3"]) == (("photo", 1.0), ("scan", 3.0))
    for bad in ("=2", "a=x", "a=-1", "a=0"):
        with pytest.raises(WeightError):
            parse_weights([bad])


def refused(*arguments: str) -> str:
    """The code of the typed error; ``main`` prints it and exits with 2 (tests/certloop)."""
    done = CliRunner().invoke(app, list(arguments))
    assert isinstance(done.exception, CertloopError), f"{done.output} {done.exception!r}"
    return done.exception.code


def test_places_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    nowhere = str(tmp_path / "file" / "x")
    assert refused("preview", "--type", "id_card", "--count", "1", "--out", f"{nowhere}.png") == "output_failed"
    assert refused("preview", "--type", "id_card", "--count", "1", "--out", str(tmp_path / "sheet")) == "output_failed"
    assert refused("preview", "--type", "id_card", "--count", "1", "--out", str(tmp_path / "no" / "x.png")) == "output_failed"
    assert not (tmp_path / "no").exists()
    assert refused("make", "--type", "id_card", "--count", "1", "--out", nowhere) == "dataset_failed"
    assert refused("examples", nowhere) == "output_failed"
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "manifest.json").write_bytes(b"\xff")
    assert refused("make", "--type", "id_card", "--count", "1", "--out", str(tmp_path / "d")) == "dataset_failed"


@pytest.mark.parametrize("name", ["../../esc", "/tmp/esc", "a/b", ".hidden", "..", 'a"b', "a\nb"])
def test_a_blank_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "scan.png").write_bytes(b"never opened")
    with pytest.raises(BlankError, match="name of a blank"):
        make_blank(tmp_path / "scan.png", "id_card", tmp_path / "o", name=name)
    assert [p.name for p in tmp_path.iterdir()] == ["scan.png"]


def test_a_blank_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    sample = make_sample(Recipe("id_card", 3, 900), load_profile("clean"))
    (tmp_path / "scan.png").write_bytes(sample.encoded())
    with pytest.raises(OutputError, match="cannot write"):
        make_blank(tmp_path / "scan.png", "id_card", tmp_path / "scan.png" / "o")


def test_every_command_takes_further_folders_of_types(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "templates" / "id_card", tmp_path / "types" / "my_card")
    text = (tmp_path / "types/my_card/type.toml").read_text(encoding="utf-8")
    (tmp_path / "types/my_card/type.toml").write_text(text.replace('id = "id_card"', 'id = "my_card"'), encoding="utf-8")
    out = ["preview", "--type", "my_card", "--count", "1", "--profile", "clean", "--out", str(tmp_path / "p.webp")]
    assert CliRunner().invoke(app, [*out, "--templates", str(tmp_path / "types")]).exit_code == 0
    assert (tmp_path / "p.webp").stat().st_size > 1000
    listed = CliRunner().invoke(app, ["layouts", "--type", "my_card"], env={"CERTLOOP_TEMPLATE_PATH": f"{tmp_path / 'types'}"})
    assert listed.exit_code == 0 and "my_card\t" in listed.output
    assert refused("layouts", "--type", "my_card") == "unknown_type"


def test_a_named_folder_adds_to_the_known_ones(root: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        text = (root / "templates/id_card/type.toml").read_text(encoding="utf-8")
        shutil.copytree(root / "templates" / "id_card" / "layouts", tmp_path / name / name / "layouts")
        (tmp_path / name / name / "type.toml").write_text(text.replace('id = "id_card"', f'id = "{name}"'), encoding="utf-8")
    known = {"CERTLOOP_TEMPLATE_PATH": str(tmp_path / "first")}
    for name in ("first", "second"):
        listed = CliRunner().invoke(app, ["layouts", "--type", name, "--templates", str(tmp_path / "second")], env=known)
        assert listed.exit_code == 0 and f"{name}\tfront" in listed.output


@pytest.mark.parametrize("layout", ["zzz", "../../x", "business_licence/front", "id_card/zzz", "x/front"])
def test_an_unknown_layout_is_refused(tmp_path: Path, layout: str) -> None:
    ids = CliRunner().invoke(app, ["layouts", "--type", "id_card"]).output.split("\n")[0].split("\t")[1]
    with pytest.raises(LayoutError, match=ids) as caught:
        make(MakeConfig(tmp_path / "d", ("id_card",), 1, layouts=(layout,)))
    assert caught.value.code == "layout_invalid" and not (tmp_path / "d").exists()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/b", "localhost:8000", "http://", "http://[", "http://a:999999"])
def test_a_writer_is_asked_over_http_only(tmp_path: Path, url: str) -> None:
    with pytest.raises(WriterError, match="http"):
        WriterConfig(url, "m")
    out = str(tmp_path / "d")
    assert refused("make", "--type", "id_card", "--count", "1", "--out", out, "--writer-url", url) == "value_writer_failed"
    assert not (tmp_path / "d").exists()
