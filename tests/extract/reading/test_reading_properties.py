"""What holds for every page: it may stand anywhere, turned and of any size, and no value holds a character that no line had."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_lines import at, form, layout_of, read_page, read_turned, turned

from certloop.extract.engine.lines import TextLine

LICENCE = [
    *form(
        ("统一社会信用代码", "91350100M000100Y43"),
        ("名    称", "示例市样本贸易有限公司"),
        ("类    型", "有限责任公司(自然人独资)"),
        ("住    所", "示例省示例市样本区光明路八号"),
        ("法定代表人", "王小明"),
        ("经营范围", "技术服务、技术开发、技术咨询；日用百货"),
    ),
    at(360, 598, "销售；货物进出口"),
    at(900, 200, "注册资本"),
    at(1060, 200, "壹佰万元整"),
    at(900, 270, "成立日期"),
    at(1060, 270, "2019年03月05日"),
    at(900, 340, "营业期限"),
    at(1060, 340, "2019年03月05日至长期"),
    at(900, 700, "登记机关"),
    at(900, 770, "2019"),
    at(990, 770, "年3"),
    at(1060, 770, "月"),
    at(1110, 770, "5日"),
]
EXPECTED = {
    "credit_code": "91350100M000100Y43",
    "name": "示例市样本贸易有限公司",
    "type": "有限责任公司(自然人独资)",
    "address": "示例省示例市样本区光明路八号",
    "person": "王小明",
    "scope": "技术服务、技术开发、技术咨询；日用百货销售；货物进出口",
    "registered_capital": "壹佰万元整",
    "established_on": "2019年03月05日",
    "term": "2019年03月05日至长期",
    "issued_on": "2019年3月5日",
}


def without_blanks(values: dict[str, str]) -> dict[str, str]:
    return {key: value.replace(" ", "") for key, value in values.items()}


def test_the_page_itself() -> None:
    assert without_blanks(read_page(LICENCE)) == EXPECTED


@pytest.mark.parametrize("degrees", [0, 90, 180, 270, 7, -7, 97])
def test_a_turned_page_reads_the_same(degrees: float) -> None:
    assert without_blanks(read_turned(turned(LICENCE, degrees))) == EXPECTED


@settings(max_examples=60)
@given(
    degrees=st.sampled_from([0, 90, 180, 270]).flatmap(lambda quarter: st.floats(-7, 7).map(lambda small: quarter + small)),
    scale=st.floats(0.5, 3),
    shift=st.tuples(st.floats(0, 3000), st.floats(0, 3000)),
)
def test_turned_scaled_and_moved(degrees: float, scale: float, shift: tuple[float, float]) -> None:
    assert without_blanks(read_turned(turned(LICENCE, degrees, scale=scale, shift=shift))) == EXPECTED


@given(st.permutations(range(len(LICENCE))))
def test_the_order_of_the_lines_does_not_matter(order: list[int]) -> None:
    assert without_blanks(read_page([LICENCE[i] for i in order])) == EXPECTED


OFF = st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=len(LICENCE), max_size=len(LICENCE))


@given(OFF)
def test_a_detector_that_is_off_by_two_pixels_changes_nothing(off: list[tuple[float, float]]) -> None:
    moved = [line.mapped(np.array([[1, 0, x], [0, 1, y]])) for line, (x, y) in zip(LICENCE, off, strict=True)]
    assert without_blanks(read_page(moved)) == EXPECTED


WORDS = st.text(
    alphabet="名称类型住所法定代表人统一社会信用代码注册资本0123456789年月日至：:（）()有限公司ABX*. 　", min_size=1, max_size=14
).filter(str.strip)
PIECE = st.builds(at, st.floats(0, 1500), st.floats(0, 1500), WORDS, st.floats(12, 60), spacing=st.floats(0, 2))


@settings(max_examples=150)
@given(st.lists(PIECE, min_size=1, max_size=25))
def test_a_value_holds_only_characters_that_lines_had(page: list[TextLine]) -> None:
    printed = Counter(char for line in page for char in line.text)
    layout = layout_of(page)
    for draft in layout.drafts.values():
        assert not Counter(draft.text.replace(" ", "")) - printed, draft
        assert "".join(g.char for g in draft.glyphs) == draft.text.replace(" ", "")


@settings(max_examples=100)
@given(st.lists(PIECE, min_size=1, max_size=20))
def test_no_character_belongs_to_two_labelled_values(page: list[TextLine]) -> None:
    drafts = [d for d in layout_of(page).drafts.values() if d.source in ("label", "below")]
    used = [id(glyph) for draft in drafts for glyph in draft.glyphs]
    assert len(used) == len(set(used))
