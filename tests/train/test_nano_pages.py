"""Nano's pages: drawn from a seed alone, consistent, with a truth that says what is printed."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest

from certloop.synth.fields.codes import USCC_ALPHABET
from certloop.synth.fields.vocabulary import read_data
from certloop.synth.fields.vocabulary import words as synth_words
from certloop.synth.render.fonts import default_faces
from certloop.train.errors import TrainConfigError
from certloop.train.nano import answer_text, nano_pages
from certloop.train.nano.examples import draw_example
from certloop.train.nano.form import HEIGHT_PX, ROLES, WIDTH_PX, form_ids, forms
from certloop.train.nano.guidance import HintKind, draw_guidance, hint
from certloop.train.nano.vocabulary import TYPE_ID, TYPES, nano_type, page_glyphs, words
from certloop.validators import Outcome, validate

LABELS = ["统一社会信用代码", "名称", "类型", "法定代表人", "成立日期", "住所"]


def test_a_page_depends_on_seed_and_number_alone() -> None:
    whole = nano_pages(3, 6)
    again = nano_pages(3, 2, start=4)
    assert np.array_equal(whole[4].pixels, again[0].pixels) and whole[5].fields == again[1].fields
    assert not np.array_equal(whole[0].pixels, nano_pages(4, 1)[0].pixels)
    assert whole[0].pixels.shape == (HEIGHT_PX, WIDTH_PX, 3)


def test_the_answer_is_one_json_object_in_the_order_of_the_type() -> None:
    assert [spec.label for spec in nano_type().fields.values()] == LABELS
    for page in nano_pages(5, 40, layouts="all"):
        assert json.loads(page.answer) == dict(page.fields)
        assert list(page.fields) == [label for label in LABELS if label in page.fields]
    assert answer_text({"住所": "甲", "名称": "乙"}) == '{"名称": "乙", "住所": "甲"}'


def test_some_pages_lack_a_field_and_its_label() -> None:
    pages = nano_pages(6, 200)
    short = [page for page in pages if len(page.fields) == 5]
    assert 8 < len(short) < 50 and len(short) + sum(len(p.fields) == 6 for p in pages) == 200
    for page in short:
        assert set(page.printed) == set(page.fields) and {"统一社会信用代码", "名称"} <= set(page.fields)


def test_values_agree_with_each_other_and_one_code_in_ten_is_misprinted() -> None:
    pages = nano_pages(7, 300)
    wrong = 0
    for page in pages:
        code = page.fields["统一社会信用代码"]
        county = words().counties[code[2:8]]
        assert len(code) == 18 and set(code) <= set(USCC_ALPHABET)
        assert page.fields["名称"].startswith(county.split("市")[0])
        assert page.fields.get("住所", county).startswith(county)
        wrong += any(verdict.outcome is Outcome.FAIL for verdict in validate("uscc", code))
    assert 15 <= wrong <= 48  # 10 % of 300, within three standard deviations


def test_every_value_stands_inside_the_page_and_its_box() -> None:
    for page in nano_pages(8, 60, layouts="all"):
        assert page.centres[:, 0].min() > 4 and page.centres[:, 0].max() < WIDTH_PX - 4
        assert page.centres[:, 1].min() > 6 and page.centres[:, 1].max() < HEIGHT_PX - 6
        for label, (left, top, right, bottom) in page.boxes.items():
            inside = (
                (page.centres[:, 0] > left)
                & (page.centres[:, 0] < right)
                & (page.centres[:, 1] > top)
                & (page.centres[:, 1] < bottom)
            )
            assert page.fields[label] in "".join(char for char, hit in zip(page.chars, inside, strict=True) if hit)


def test_seen_and_unseen_forms_are_apart() -> None:
    assert len(form_ids("seen")) >= 3 and len(form_ids("unseen")) >= 2
    assert not set(form_ids("seen")) & set(form_ids("unseen"))
    assert {page.layout for page in nano_pages(9, 60)} == set(form_ids("seen"))
    assert {draw_example(1, n).page.layout for n in range(60)} == set(form_ids("seen"))
    printed = {squashed for form in forms().values() for labels in form.labels.values() for squashed in labels}
    assert printed <= {label for spec in nano_type().fields.values() for label in spec.labels}
    with pytest.raises(TrainConfigError, match="unknown forms"):
        nano_pages(1, 1, layouts="nowhere")


def test_a_worn_value_is_fainter_than_its_page() -> None:
    plain, worn = nano_pages(10, 12, clean=True), nano_pages(10, 12, worn=1.0, clean=True)
    for page, bad in zip(plain, worn, strict=True):
        assert page.worn is None and bad.worn in bad.fields
        left, top, right, bottom = (int(v) for v in bad.boxes[bad.worn])
        cut = (slice(max(top, 0), bottom), slice(max(left, 0), right))
        assert bad.pixels[cut].min() > page.pixels[cut].min() + 30


def test_the_words_are_the_data_engines_own() -> None:
    known = words()
    assert set(known.surnames) <= set(synth_words("people", "surnames"))
    assert set(known.given) <= set(synth_words("people", "male")) | set(synth_words("people", "female"))
    assert set(known.first) <= set(synth_words("names", "first")) and set(known.second) <= set(synth_words("names", "second"))
    assert set(known.roads) <= set(synth_words("places", "roads")) and set(known.road_kinds) <= set(
        synth_words("places", "road_kinds")
    )
    industries = {word for entry in read_data("words")["industries"] for word in entry["name_words"]}
    assert set(known.industries) <= industries | {"医药"}
    counties = {
        code: city["name"] + county for city in read_data("regions")["cities"] for code, county in city["counties"].items()
    }
    assert known.counties.items() <= counties.items()


def test_every_glyph_is_drawn_by_both_faces_and_there_are_about_two_hundred() -> None:
    assert 190 <= len(page_glyphs()) <= 240 and len(set(page_glyphs())) == len(page_glyphs())
    for role in ROLES:
        for char in page_glyphs():
            assert default_faces().face_for(role, char)
    assert set("".join(page.chars for page in nano_pages(11, 100, layouts="all"))) <= set(page_glyphs())


def test_the_type_is_found_on_a_search_path() -> None:
    from certloop.templates import load_types

    assert load_types([TYPES]).get(TYPE_ID).prompt.endswith("。\n")


def test_guidance_comes_in_the_promised_shares() -> None:
    fields = nano_pages(12, 1)[0].fields
    kinds = [draw_guidance(Random(n), fields)[0] for n in range(2000)]
    share = {kind: kinds.count(kind) / 2000 for kind in HintKind}
    assert share[HintKind.RIGHT] == pytest.approx(0.5, abs=0.035)
    assert share[HintKind.WRONG] + share[HintKind.NEAR] == pytest.approx(0.15, abs=0.025)
    for n in range(200):
        kind, lines, hinted = draw_guidance(Random(n), fields)
        for line, label in zip(lines, hinted, strict=True):
            assert (fields[label] in line) == (kind is HintKind.RIGHT) and label in line
    near = hint(Random(1), HintKind.NEAR, "住所", fields["住所"])[1]
    assert sum(a != b for a, b in zip(near, fields["住所"], strict=True)) == 1
