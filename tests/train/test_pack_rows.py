"""Packing burns the bridge: nothing of the helpers is left, the prompt and its ids are serving's, splits share nothing they
must not."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from certloop.extract.engine.answer_parser import read_answer
from certloop.extract.engine.contract import Question
from certloop.extract.engine.inputs import model_inputs, prompt_ids, view_of
from certloop.extract.engine.openai import data_url
from certloop.extract.engine.view import View, page_view
from certloop.templates import load_types
from certloop.train.errors import TrainDataError
from certloop.train.nano.tokenizer import build_processor
from certloop.train.pack.burn import check_burnt
from certloop.train.pack.pack import SWIFT, PackConfig, pack
from certloop.train.pack.tokens import check_rows, check_same_ids, row_ids
from certloop.train.rows import Row, data_sha256, read_rows, to_dataset
from certloop.train.teach.annotate import JOURNAL, ScriptedTeacher, TeachConfig, annotate
from certloop.train.teach.helpers import helpers
from certloop.train.teach.journal import Annotation, read_annotations
from certloop.train.teach.pages import LabelledPage, load_pages, nano_labelled
from certloop.train.teach.scripted import NAME

PROCESSOR = build_processor()
VIEW = view_of(PROCESSOR)
CONFIG = PackConfig(view=VIEW, held_out_forms=("test",))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledPage]:
    folder = tmp_path_factory.mktemp("pages")
    train = nano_labelled(folder, 41, 6)
    return [*train, *nano_labelled(folder, 42, 2, split="val"), *nano_labelled(folder, 43, 3, layouts="unseen", split="test")]


@pytest.fixture(scope="module")
def notes(pages: list[LabelledPage], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Annotation]:
    out = tmp_path_factory.mktemp("notes")
    annotate(TeachConfig(NAME, view=VIEW, min_quoted=0), pages[:6], out, teacher=ScriptedTeacher("brief"))
    return read_annotations(out / JOURNAL)


@pytest.fixture(scope="module")
def packed(pages: list[LabelledPage], notes: dict[str, Annotation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("packed")
    counts = pack(CONFIG, pages, notes, out)
    assert counts.rows == {"train": 6, "val": 2, "test": 3}
    assert counts.modes == {"declaration": 3, "discovery": 3}
    return out


def test_nothing_of_the_bridge_is_left(packed: Path, pages: list[LabelledPage]) -> None:
    """No ground-truth message, no mode trigger, no system turn; the prompt is the type's, byte for byte."""
    by_id = {page.id: page for page in pages}
    known = helpers()
    for split in ("train", "val", "test"):
        text = (packed / split / "rows.jsonl").read_text(encoding="utf-8") + (packed / split / SWIFT).read_text(encoding="utf-8")
        assert '"system"' not in text
        for mark in (*known.triggers.values(), *known.leaks, *known.helper.splitlines()[2:]):
            assert mark not in text
        for row in read_rows(packed / split):
            assert row.prompt.encode() == by_id[row.id].doc_type.prompt.encode()


def test_what_remains_is_reasoning_and_the_labels_json(
    packed: Path, pages: list[LabelledPage], notes: dict[str, Annotation]
) -> None:
    by_id = {page.id: page for page in pages}
    for row in read_rows(packed / "train"):
        answer = read_answer(str(row.completion))
        assert answer.strict and answer.fields == by_id[row.id].fields == row.truth
        assert answer.thought == notes[row.id].reasoning != ""
    assert all(row.completion is None and row.truth for row in read_rows(packed / "test")), "to be scored, not trained on"


def test_token_ids_are_those_that_serving_builds(packed: Path) -> None:
    """TRL's own collator, the chat template, and serving's input builder agree on every id; the answer ends with the end mark."""
    from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

    rows = read_rows(packed / "train")
    dataset = to_dataset(rows)
    collate = DataCollatorForVisionLanguageModeling(PROCESSOR, max_length=None, completion_only_loss=True)
    batch = collate([dataset[n] for n in range(len(rows))])
    for n, row in enumerate(rows):
        ids = [t for t, seen in zip(batch["input_ids"][n].tolist(), batch["attention_mask"][n].tolist(), strict=True) if seen]
        check_same_ids(PROCESSOR, row, ids)
        pixels = np.asarray(Image.open(row.images[0]))
        served = prompt_ids(PROCESSOR, row.prompt, [pixels])
        assert ids[: len(served)] == served
        known = row_ids(PROCESSOR, row)
        assert [t for t in batch["labels"][n].tolist() if t != -100][: len(known.completion)] == list(known.completion)
        assert known.completion[-1] == PROCESSOR.tokenizer.eos_token_id
        assert PROCESSOR.tokenizer.decode(known.completion[:-1]) == row.completion


def test_a_line_break_lost_in_training_is_seen(packed: Path) -> None:
    row = read_rows(packed / "train")[0]
    right = row_ids(PROCESSOR, row)
    lost = [*right.prompt[:-1], *right.completion]
    with pytest.raises(TrainDataError, match=rf"token {len(right.prompt) - 1} \(prompt\)"):
        check_same_ids(PROCESSOR, row, lost)
    with pytest.raises(TrainDataError, match="it was cut"):
        check_same_ids(PROCESSOR, row, [*right.prompt, *right.completion][:-4])
    check_same_ids(PROCESSOR, row, [*right.prompt, *right.completion])
    broken = build_processor()
    broken.chat_template = broken.chat_template.replace("message.role + '\\n'", "message.role")
    with pytest.raises(TrainDataError, match="does not begin with the prompt"):
        row_ids(broken, row)


def test_a_page_is_packed_as_serving_shows_it(packed: Path, pages: list[LabelledPage], tmp_path: Path) -> None:
    """A page too large for the context and turned on its side: the packed pixels are serving's view, whatever the processor."""
    small = read_rows(packed / "train")[0]
    assert (np.asarray(Image.open(small.images[0])) == np.asarray(Image.open(pages[0].image))).all(), "what fits stays as it is"
    upright = np.asarray(Image.open(pages[0].image).resize((1920, 1280)))
    Image.fromarray(np.ascontiguousarray(np.rot90(upright))).save(tmp_path / "big.png")
    big = replace(pages[0], image=tmp_path / "big.png", quarter_turns=1)
    bounded = PackConfig(view=View(1024, 200_000), reasoning=False)
    pack(bounded, [big], {}, tmp_path / "out")
    (row,) = read_rows(tmp_path / "out" / "train")
    seen = page_view(upright, bounded.view)
    pixels = np.asarray(Image.open(row.images[0]))
    assert (pixels == seen).all() and pixels.shape[0] * pixels.shape[1] <= 200_000
    grid = model_inputs(PROCESSOR, [Question((pixels,), row.prompt)])["image_grid_thw"].tolist()
    assert grid == [[1, pixels.shape[0] // 16, pixels.shape[1] // 16]], "no processor resizes it again"
    assert data_url(seen) == data_url(pixels)


def test_rows_packed_for_larger_pages_than_the_model_is_shown_are_refused(packed: Path) -> None:
    rows = read_rows(packed / "train")
    check_rows(PROCESSOR, packed / "train", rows)
    narrow = build_processor()
    narrow.image_processor.size = {"shortest_edge": 1024, "longest_edge": 100_000}
    with pytest.raises(TrainDataError, match="--max-pixels 100000"):
        check_rows(narrow, packed / "train", rows)


def test_images_keep_their_order(tmp_path: Path) -> None:
    shades = [np.full((64, 64, 3), shade, np.uint8) for shade in (10, 120, 240)]
    inputs = model_inputs(PROCESSOR, [Question(tuple(shades), "问")])
    patches = inputs["pixel_values"].reshape(3, 16, -1).mean(dim=(1, 2))
    assert patches[0] < patches[1] < patches[2]
    paths = []
    for n, shade in enumerate(shades):
        Image.fromarray(shade).save(tmp_path / f"{9 - n}.png")
        paths.append(tmp_path / f"{9 - n}.png")
    record = to_dataset([Row("a", "问", tuple(paths), "答")])[0]
    assert [int(np.asarray(image)[0, 0, 0]) for image in record["images"]] == [10, 120, 240]


def test_rows_for_ms_swift_are_the_same_rows(packed: Path) -> None:
    rows = read_rows(packed / "train")
    swift = [json.loads(line) for line in (packed / "train" / SWIFT).read_text(encoding="utf-8").splitlines()]
    for row, other in zip(rows, swift, strict=True):
        user, assistant = other["messages"]
        assert user == {"role": "user", "content": "<image>" + row.prompt}
        assert assistant == {"role": "assistant", "content": row.completion}
        assert [packed / "train" / name for name in other["images"]] == list(row.images)


def test_the_manifest_says_what_the_rows_are(packed: Path, pages: list[LabelledPage]) -> None:
    manifest = json.loads((packed / "train" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["sha256"] == data_sha256(packed / "train")
    assert manifest["view"] == {"min_pixels": 1024, "max_pixels": 589_824, "factor": 32}
    version = hashlib.sha256(pages[0].doc_type.prompt.encode()).hexdigest()[:12]
    assert manifest["prompts"] == {"nano_licence": version}


def test_a_page_without_a_kept_annotation_is_left_out(
    pages: list[LabelledPage], notes: dict[str, Annotation], tmp_path: Path
) -> None:
    dropped = {**notes, pages[0].id: replace(notes[pages[0].id], status="dropped")}
    counts = pack(CONFIG, pages[:6], dropped, tmp_path / "some")
    assert (counts.rows["train"], counts.left_out) == (5, 1)
    with pytest.raises(TrainDataError, match="no annotation"):
        pack(CONFIG, pages[:6], {}, tmp_path / "none")
    assert pack(replace(CONFIG, reasoning=False), pages[:6], {}, tmp_path / "plain").rows == {"train": 6}
    assert all(str(row.completion).startswith("{") for row in read_rows(tmp_path / "plain" / "train"))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda row: replace(row, prompt=row.prompt.rstrip()), "not the generic prompt"),
        (lambda row: replace(row, prompt=row.prompt + helpers().triggers["discovery"]), "not the generic prompt"),
        (lambda row: replace(row, completion=helpers().triggers["discovery"] + row.completion), "helper prompts"),
        (lambda row: replace(row, completion="由标准答案可知。" + row.completion), "helper prompts"),
        (lambda row: replace(row, completion=row.completion.replace('"名称": "', '"名称": "假')), "exactly the label's JSON"),
        (lambda row: replace(row, completion=row.completion + "\n完毕"), "exactly the label's JSON"),
        (lambda row: replace(row, completion=f"{row.completion}\n{row.completion}"), "exactly the label's JSON"),
    ],
)  # fmt: skip
def test_a_row_that_still_holds_the_bridge_is_refused(
    packed: Path, pages: list[LabelledPage], spoil: Callable[[Any], Row], words: str
) -> None:
    row = read_rows(packed / "train")[0]
    page = next(page for page in pages if page.id == row.id)
    assert check_burnt(row, page) is row
    with pytest.raises(TrainDataError, match=words) as caught:
        check_burnt(spoil(row), page)
    assert not any(str(value) in str(caught.value) for value in page.fields.values())


def test_some_rows_may_carry_guidance_that_holds_no_value(pages: list[LabelledPage], tmp_path: Path) -> None:
    """Half useful, 15 % irrelevant, the rest none; hints say where and under which label, in serving's own words."""
    from certloop.extract.engine.prompt import GUIDANCE_CLOSE, GUIDANCE_OPEN, prompt_text
    from certloop.train.pack.guidance import hint_guide

    many = [replace(pages[n % 6], id=f"{n}") for n in range(600)]
    guide = hint_guide(many, seed=3)
    drawn = [guide(page) for page in many]
    assert sum(map(bool, drawn)) / 600 == pytest.approx(0.65, abs=0.06)
    assert drawn == [hint_guide(many, seed=3)(page) for page in many] != [hint_guide(many, seed=4)(page) for page in many]
    values = {str(v) for page in pages for v in page.fields.values()}
    assert not any(value in line for lines in drawn for line in lines for value in values)
    assert {line.split("的标签")[0].split("印在")[0] for lines in drawn for line in lines} == set(pages[0].fields)
    counts = pack(replace(CONFIG, reasoning=False, guide=guide), [*many[:6], pages[6]], {}, tmp_path)
    rows = read_rows(tmp_path / "train")
    assert counts.guided == sum(GUIDANCE_OPEN in row.prompt for row in rows) > 0
    for row in rows:
        assert row.prompt == prompt_text(pages[0].doc_type.prompt, guide(next(p for p in many if p.id == row.id)))
        assert row.prompt.count(GUIDANCE_CLOSE) <= 1
    assert all(GUIDANCE_OPEN not in row.prompt for row in read_rows(tmp_path / "val")), "rows to be scored are plain"


def test_a_business_scope_may_speak_of_training_data(pages: list[LabelledPage], tmp_path: Path) -> None:
    """Words of the helpers are looked for in the reasoning: a certificate may print them."""
    page = replace(pages[0], fields={**pages[0].fields, "住所": "训练数据大厦系统消息路1号"})
    assert pack(replace(CONFIG, reasoning=False), [page], {}, tmp_path).rows == {"train": 1}


def test_splits_do_not_share_pictures_values_or_held_out_forms(pages: list[LabelledPage], tmp_path: Path) -> None:
    plain = replace(CONFIG, reasoning=False)
    train, test = pages[0], pages[-1]
    other = {"统一社会信用代码": "91000000MA00000000", "名称": "别家有限公司", "住所": "别处路一号楼"}
    for name, twin, words in [
        ("picture", replace(train, id="x", split="val", fields={**train.fields, **other}), "1 images of train again in val"),
        ("value", replace(pages[1], id="x", split="val", fields={**pages[1].fields, "名称": train.fields["名称"]}), "1 values"),
        ("form", replace(test, id="x", split="train", image=pages[1].image, fields={**test.fields, **other}), "layouts? of t"),
    ]:
        with pytest.raises(TrainDataError, match=words) as caught:
            pack(plain, [train, test, twin], {}, tmp_path / name)
        assert not re.search("|".join(map(re.escape, filter(None, train.fields.values()))), str(caught.value))
        assert not (tmp_path / name / "train" / "rows.jsonl").exists(), "nothing that could be trained on is left"
    same_form = replace(pages[6], layout=train.layout)
    assert pack(plain, [train, same_form], {}, tmp_path / "fine").rows == {"train": 1, "val": 1}, "val is not held out by form"


def test_labels_of_a_data_set_become_pages(tmp_path: Path) -> None:
    """From the data engine's own labels: type, fields in the prompt's order, boxes turned upright; bad lines are named."""
    from certloop.synth import MakeConfig, make

    out = tmp_path / "data"
    make(MakeConfig(out=out, types=("business_licence",), count=3, seed=5, profiles=(("clean", 1.0),), splits=(("train", 1.0),)))
    registry = load_types(())
    found = load_pages(out, out / "train.jsonl", registry)
    order = [spec.label for spec in registry.get("business_licence").fields.values()]
    for page in found:
        assert page.split == "train" and page.layout and page.doc_type.id == "business_licence"
        assert list(page.fields) == [label for label in order if label in page.fields]
        assert all(0 <= v <= 1 for box in page.boxes.values() for v in box)
    first = (out / "train.jsonl").read_text(encoding="utf-8").splitlines()[0]
    label = json.loads(first)
    turned = {**label, "rotate_cw_after_exif": 90}
    for name, line, words in [
        ("image", json.dumps({**label, "file": "images/none.jpg"}), "a label without an image"),
        ("folder", json.dumps({**label, "file": "../train.jsonl"}), "out of the folder"),
        ("value", json.dumps({**label, "fields": {"名称": 7}}), "text or null"),
        ("json", "{", "not a label"),
        ("empty", json.dumps({**label, "type_id": "nobody_knows"}), "no page to train on"),
        ("partial", json.dumps({**label, "fields": {"名称": label["fields"]["名称"]}}), "no page to train on"),
        ("unsure", json.dumps({**label, "uncertain": ["名称"]}), "no page to train on"),
    ]:
        (out / f"{name}.jsonl").write_text(line + "\n", encoding="utf-8")
        with pytest.raises(TrainDataError, match=words):
            load_pages(out, out / f"{name}.jsonl", registry)
    (out / "turned.jsonl").write_text(json.dumps(turned) + "\n", encoding="utf-8")
    (page,) = load_pages(out, out / "turned.jsonl", registry)
    left, top, right, bottom = found[0].boxes["名称"]
    assert page.boxes["名称"] == pytest.approx((1 - bottom, left, 1 - top, right))
    assert page.quarter_turns == 1
