"""A type that nobody defined, from a few filled scans to a release: fields found, pages drawn, read, judged, registered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from certloop.agentrl.release import Registry as Releases
from certloop.agentrl.release import Release
from certloop.agentrl.store import Store
from certloop.cli import app
from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import OcrEngine
from certloop.serve.errors import NewTypeError
from certloop.serve.loop.newtype.folder import write_folder
from certloop.serve.loop.newtype.leftover import left_over, sweep
from certloop.serve.loop.newtype.path import NewType, NewTypeConfig, drafted_aside, new_type, register, taken_for_others
from certloop.serve.loop.newtype.propose import Piece, kind_of, propose, read_scans
from certloop.synth.label import make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe
from certloop.templates import FieldKind, Registry, load_types, squash

LEFT_OUT = "road_transport_operation_permit"


@pytest.fixture(scope="module")
def known() -> Registry:
    """The types without any of road transport."""
    return Registry({name: doc_type for name, doc_type in load_types().types.items() if "road" not in name})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, known: Registry) -> NewType:
    folder = tmp_path_factory.mktemp("scans")
    scans = []
    for seed in range(4):
        sample = make_sample(Recipe(LEFT_OUT, 9_000 + seed, 1400, layouts=("numbered",)), load_profile("scan"))
        scans.append(folder / f"{seed}.png")
        scans[-1].write_bytes(cv2.imencode(".png", cv2.cvtColor(sample.image, cv2.COLOR_RGB2BGR))[1].tobytes())
    return new_type(scans, known, NewTypeConfig("haulage_permit", folder / "types", pages=14, others=5))


@pytest.mark.slow
def test_every_printed_label_becomes_a_field_with_its_other_wordings(made: NewType) -> None:
    truth = load_types().get(LEFT_OUT).fields.values()
    found = {name for spec in made.doc_type.fields.values() for name in spec.labels}
    assert made.doc_type.title == "道路运输经营许可证"
    for wanted in ("operator", "address", "scope", "permit_no", "authority"):
        labels = next(set(spec.labels) for spec in truth if spec.id == wanted)
        assert labels & found, wanted
    assert found <= {name for spec in truth for name in spec.labels} | {"证件有效期", "住所", "证号"}, "nothing else is a field"
    kinds = {spec.label: spec.kind for spec in made.doc_type.fields.values()}
    assert kinds["证件有效期"] is FieldKind.DATE
    assert kinds["经营范围"] is FieldKind.LONG_TEXT


@pytest.mark.slow
def test_the_new_type_is_read_and_the_others_stay(made: NewType) -> None:
    assert made.strict["with_guidance"] >= 0.7
    assert made.strict["with_guidance"] >= made.strict["type_alone"]
    assert made.report["verdict"] == "promote"
    assert made.report["retained"]["discordant"] == 0


@pytest.mark.slow
def test_a_person_can_correct_the_folder_and_a_release_holds_it(made: NewType, tmp_path: Path) -> None:
    written = json.loads((made.folder / "report.json").read_text("utf-8"))
    assert written["strict"] == dict(made.strict)
    assert (made.folder / "layouts" / "scan.png").is_file()
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        releases = Releases.open(store.engine, tmp_path / "artefacts")
        releases.register(Release("first", "ocr"))
        releases.adopt("first", actor="test", reason="first")
        name = register(made, releases, "*")
        release = releases.release(name)
        assert release.parent == "first"
        folder = releases.artefacts.path(release.artefacts["type-haulage_permit"])
        assert (folder / "type.toml").read_bytes() == (made.folder / "type.toml").read_bytes()
        assert releases.pointer().active == "first", "a new type serves nobody before it is staged"


def piece(text: str, x: float, y: float, em: float = 10.0, ends: bool = False) -> Piece:
    return Piece(text, x, y, em, ends)


@pytest.fixture
def two() -> Iterator[list[list[Piece]]]:
    """Two scans: a title, a label and value apart, a label that runs into its value, a value that both have."""
    yield [
        [
            piece("样本经营许可证", 0.3, 0.1, 20.0), piece("负责人姓名", 0.1, 0.3, ends=True), piece(person, 0.4, 0.3),
            piece(f"营业处所{place}", 0.1, 0.5), piece("所属省份", 0.1, 0.7, ends=True), piece("样本省", 0.4, 0.7),
        ]
        for person, place in (("张样", "一路1号"), ("李样本", "二路2号"))
    ]  # fmt: skip


def test_what_scans_share_is_the_form_and_what_differs_a_value(two: list[list[Piece]], known: Registry) -> None:
    draft = propose(two, known)
    assert draft.title == "样本经营许可证"
    assert [f.label for f in draft.fields] == ["负责人姓名", "营业处所", "所属省份"], "a value that all share is no label"


def test_kinds_follow_what_most_values_look_like() -> None:
    assert kind_of("成立", ["2019年03月05日", "2020年1月2日"]) is FieldKind.DATE
    assert kind_of("代码", ["91110105MA01ABCD5F"]) is FieldKind.USCC
    assert kind_of("许可证编号", ["样许字第12号"]) is FieldKind.LICENCE_NO
    assert kind_of("经营范围", ["样本"]) is FieldKind.LONG_TEXT
    assert kind_of("姓名", ["张样"]) is FieldKind.TEXT


def test_scans_without_labels_are_refused(known: Registry) -> None:
    with pytest.raises(NewTypeError, match="no printed label"):
        propose([[piece("样本", 0.5, 0.5)]], known)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    path = tmp_path / "scan.png"
    path.write_bytes(cv2.imencode(".png", np.full((400, 600, 3), 250, np.uint8))[1].tobytes())
    return path


def test_a_corrected_folder_is_not_overwritten(tmp_path: Path, scan: Path, known: Registry) -> None:
    folder = tmp_path / "types" / "pass_card"
    folder.mkdir(parents=True)
    (folder / "type.toml").write_text("corrected", "utf-8")
    with pytest.raises(NewTypeError, match="--keep goes on with it"):
        new_type([scan], known, NewTypeConfig("pass_card", tmp_path / "types"))
    assert (folder / "type.toml").read_text("utf-8") == "corrected"


@pytest.mark.parametrize("keep", [False, True])
def test_an_id_that_is_taken_is_refused_before_anything_is_written(
    tmp_path: Path, scan: Path, known: Registry, keep: bool
) -> None:
    with pytest.raises(NewTypeError, match="the id id_card is taken"):
        new_type([scan], known, NewTypeConfig("id_card", tmp_path / "types", keep=keep))
    mine = Registry({**known.types, "pass_card": replace(known.get("id_card"), id="pass_card", source=str(tmp_path / "mine"))})
    with pytest.raises(NewTypeError, match="the id pass_card is taken"):
        new_type([scan], mine, NewTypeConfig("pass_card", tmp_path / "types", keep=keep))
    assert not (tmp_path / "types").exists()


def test_a_missing_scan_is_named(tmp_path: Path, scan: Path, known: Registry) -> None:
    with pytest.raises(NewTypeError, match=r"there is no scan .*second\.png"):
        new_type([scan, tmp_path / "second.png"], known, NewTypeConfig("pass_card", tmp_path / "types"))
    (tmp_path / "third.png").write_bytes(b"no picture")
    with pytest.raises(NewTypeError, match=r"third\.png cannot be read"):
        new_type([tmp_path / "third.png"], known, NewTypeConfig("pass_card", tmp_path / "types"))


def test_progress_is_told_and_a_failure_leaves_nothing(tmp_path: Path, scan: Path, known: Registry) -> None:
    said: list[str] = []
    with pytest.raises(NewTypeError, match="no printed label"):
        new_type([scan, scan], known, NewTypeConfig("pass_card", tmp_path / "types"), said.append)
    assert said[:2] == ["reading scan 1 of 2", "reading scan 2 of 2"]
    assert not (tmp_path / "types").exists()


def test_a_draft_that_is_broken_off_leaves_nothing_and_a_complete_one_is_moved(tmp_path: Path) -> None:
    config = NewTypeConfig("pass_card", tmp_path / "types")
    with pytest.raises(KeyboardInterrupt), drafted_aside(config) as aside:
        (aside.out / "pass_card").mkdir()
        raise KeyboardInterrupt
    assert not config.out.exists()
    with drafted_aside(config) as aside:
        (aside.out / "pass_card").mkdir()
        (aside.out / "pass_card" / "type.toml").write_text("draft", "utf-8")
        assert not (config.out / "pass_card").exists()
    assert [path.name for path in config.out.iterdir()] == ["pass_card"]
    assert (config.out / "pass_card" / "type.toml").read_text("utf-8") == "draft"


def test_a_database_that_is_not_there_is_said_before_the_work(tmp_path: Path, scan: Path) -> None:
    url = f"sqlite:///{tmp_path}/none.db"
    ran = CliRunner().invoke(
        app,
        [
            "types",
            "new",
            "pass_card",
            "--from",
            str(scan),
            "--out",
            str(tmp_path / "types"),
            "--register",
            "*",
            "--database",
            url,
        ],
    )
    assert ran.exit_code != 0
    assert "no database" in str(ran.exception) + ran.output
    assert "reading scan" not in ran.output
    assert not (tmp_path / "types").exists()


def test_pages_taken_for_a_type_of_the_same_title_are_told(known: Registry) -> None:
    mine = replace(known.get("business_licence"), id="my_licence")
    (note,) = taken_for_others({"business_licence": 5, "my_licence": 1}, known, mine)
    assert note.startswith("5 of 6 pages were read as business_licence") and "same title" in note
    (note,) = taken_for_others({"unknown": 2}, known, mine)
    assert "no type was recognised" in note
    assert taken_for_others({"my_licence": 6}, known, mine) == ()


def test_a_missing_value_does_not_lend_its_place_to_the_next_label(known: Registry) -> None:
    """On the second scan nothing stands beside 经营者姓名; 地址 below it must not become its other wording."""
    pages = [
        [piece("经营者姓名", 0.1, 0.30), piece("张样", 0.4, 0.30), piece("地址", 0.1, 0.34), piece("一路1号", 0.4, 0.34)],
        [piece("经营者姓名", 0.1, 0.30), piece("地址", 0.1, 0.34), piece("二路2号", 0.4, 0.34)],
    ]
    for order in (pages, pages[::-1]):
        draft = propose(order, known, "样本经营许可证")
        assert ("地址", ()) in [(f.label, f.aliases) for f in draft.fields]


def test_other_wordings_of_one_label_stay_one_field(known: Registry) -> None:
    pages = [
        [piece("样本经营许可证", 0.3, 0.1, 20.0), piece(label, 0.1, 0.3, ends=True), piece(value, 0.4, 0.3)]
        for label, value in (("营业处所", "一路1号"), ("经营处所", "二路2号"))
    ]
    (only,) = propose(pages, known).fields
    assert {only.label, *only.aliases} == {"营业处所", "经营处所"}


def test_a_printed_footer_is_no_field_and_a_shared_value_is_not_required(two: list[list[Piece]], known: Registry) -> None:
    for number, page in enumerate(two):
        page += [
            piece("国家样本总局监制", 0.1, 0.9), piece(f"000{number}", 0.8, 0.9),
            piece("国家样本部门", 0.1, 0.95), piece("中心", 0.4, 0.95),
        ]  # fmt: skip
    draft = propose(two, known)
    assert [f.label for f in draft.fields] == ["负责人姓名", "营业处所", "所属省份"]
    assert [f.same for f in draft.fields] == [False, False, True]
    assert any("国家样本部门" in note and "print of the form" in note for note in draft.notes)


def test_a_value_that_all_scans_share_is_not_required(two: list[list[Piece]], known: Registry, tmp_path: Path) -> None:
    doc_type = write_folder(propose(two, known), "sample_permit", tmp_path)
    assert [spec.label for spec in doc_type.fields.values() if spec.required] == ["负责人姓名", "营业处所"]


def line(text: str, x: float, y: float) -> TextLine:
    """A line of print 20 pixels high, a character as wide."""
    width = 20.0 * len(text)
    quad = np.array([(x, y), (x + width, y), (x + width, y + 20), (x, y + 20)], np.float32)
    return TextLine(quad, text, 0.9, tuple((i + 0.5) / len(text) for i in range(len(text))), (0.9,) * len(text))


def test_what_no_other_scan_has_is_left_over(two: list[list[Piece]], known: Registry, tmp_path: Path) -> None:
    doc_type = write_folder(propose(two, known), "sample_permit", tmp_path)
    lines = [
        line("样本经营许可证", 200, 20), line("负责人姓名：", 20, 100), line("营业处所：一路1号", 20, 150),
        line("所属省份：样本省", 20, 200), line("张样", 300, 100), line("向月", 500, 100), line("000000", 500, 130),
        line("年 月 日", 300, 250),
        line("日常监督管理", 20, 300),
    ]  # fmt: skip
    left = left_over(lines, two, doc_type, known)
    assert [one.text for one in left] == ["一路1号", "张样", "向月"]
    assert left[0].polygon[:, 0].min() == pytest.approx(100, abs=21), "the label before it is not erased with it"
    listed = replace(doc_type, stop_labels=("张样", "向月"))
    assert [one.text for one in left_over(lines, two, listed, known)] == ["一路1号"]


def test_with_one_scan_numbers_and_what_stands_right_of_a_label_are_left_over(two: list[list[Piece]], known: Registry) -> None:
    doc_type = replace(known.get("business_licence"), id="mine")
    lines = [line("名称", 20, 100), line("样本甲店", 200, 102), line("仅供样本使用", 20, 300), line("编号2019", 20, 400)]
    assert [one.text for one in left_over(lines, two[:1], doc_type, known)] == ["样本甲店", "2019"]


def test_values_left_on_a_blank_are_erased_or_named(tmp_path: Path, known: Registry) -> None:
    scans = []
    for seed in (9_000, 9_001):
        sample = make_sample(Recipe(LEFT_OUT, seed, 1200, layouts=("numbered",)), load_profile("clean"))
        scans.append(tmp_path / f"{seed}.png")
        scans[-1].write_bytes(sample.encoded())
    first = make_sample(Recipe(LEFT_OUT, 9_000, 1200, layouts=("numbered",)), load_profile("clean"))
    firm = squash(first.label["fields"]["业户名称"])
    (tmp_path / "scan.toml").write_text('background = "9000.png"\n', "utf-8")
    engine, doc_type = OcrEngine(), load_types().get(LEFT_OUT)
    pages = read_scans(scans, engine)
    named = sweep(tmp_path / "scan.toml", pages, doc_type, known, engine, erase=False)
    assert not named.erased and any(firm in text for text in named.still)
    swept = sweep(tmp_path / "scan.toml", pages, doc_type, known, engine, erase=True)
    assert any(firm in text for text in swept.erased)
    seen = "".join(one.text for one in engine.read(cv2.cvtColor(cv2.imread(str(scans[0])), cv2.COLOR_BGR2RGB)))
    assert firm not in squash(seen)
    assert "道路运输经营许可证" in squash(seen) and "经营范围" in squash(seen), "the form stays"
