"""Several certificates in one picture, and one certificate that stays one."""

from __future__ import annotations

from collections.abc import Sequence

from layout_lines import at, form, kind_of, read_page, turned

from certloop.extract.engine.lines import TextLine
from certloop.extract.split import split_lines
from certloop.templates import load_types

FIRST = (
    ("统一社会信用代码", "91350100M000100Y43"),
    ("名    称", "示例市样本贸易有限公司"),
    ("类    型", "有限责任公司"),
    ("法定代表人", "王小明"),
)
SECOND = (
    ("统一社会信用代码", "91350100M000100Y51"),
    ("名    称", "示例市光明餐饮有限公司"),
    ("类    型", "个人独资企业"),
    ("投 资 人", "李小红"),
)
PERMIT = (
    ("经营者名称", "示例市样本餐饮店"),
    ("社会信用代码", "91350100M000100Y43"),
    ("法定代表人", "王小明"),
    ("许可证编号", "JY23501020000018"),
)


def split(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    return split_lines(lines, load_types())


def names(parts: Sequence[Sequence[TextLine]]) -> list[str | None]:
    return [read_page(part).get("name") for part in parts]


def test_one_certificate_stays_one() -> None:
    page = form(*FIRST)
    assert split(page) == [page]


def test_side_by_side() -> None:
    parts = split([*form(*FIRST), *form(*SECOND, x=1300, value_x=1560)])
    assert names(parts) == ["示例市样本贸易有限公司", "示例市光明餐饮有限公司"]
    assert [read_page(p)["person"] for p in parts] == ["王小明", "李小红"]


def test_one_above_the_other() -> None:
    parts = split([*form(*FIRST), *form(*SECOND, y=1000)])
    assert names(parts) == ["示例市样本贸易有限公司", "示例市光明餐饮有限公司"]


def test_four_on_one_page() -> None:
    corners = [(100, 200), (1300, 200), (100, 1000), (1300, 1000)]
    page = [line for x, y in corners for line in form(*FIRST, x=x, value_x=x + 260, y=y)]
    parts = split(page)
    assert len(parts) == 4
    assert names(parts) == ["示例市样本贸易有限公司"] * 4


def test_two_types_side_by_side() -> None:
    parts = split([*form(*FIRST), *form(*PERMIT, title="食品经营许可证", x=1300, value_x=1560)])
    assert [kind_of(part).type_id for part in parts] == ["business_licence", "food_operation_permit"]


def test_the_gutter_need_not_lie_in_the_middle() -> None:
    small, _, _ = turned(form(*SECOND), scale=0.7, shift=(1200, 60))
    parts = split([*form(*FIRST), *small])
    assert names(parts) == ["示例市样本贸易有限公司", "示例市光明餐饮有限公司"]


def test_every_line_lands_in_exactly_one_document() -> None:
    page = [*form(*FIRST), *form(*SECOND, x=1300, value_x=1560), at(600, 900, "扫描全能王 创建")]
    parts = split(page)
    assert sorted(id(line) for part in parts for line in part) == sorted(map(id, page))


def test_a_title_repeated_in_small_print_is_no_second_document() -> None:
    page = [*form(*FIRST), at(500, 700, "营业执照", 24), at(100, 760, "国家市场监督管理总局监制", 20)]
    assert len(split(page)) == 1


def test_a_title_within_a_sentence_is_no_second_document() -> None:
    page = [*form(*FIRST), at(100, 700, "凭营业执照依法自主开展经营活动，食品经营许可证另行办理")]
    assert len(split(page)) == 1


def test_a_caption_under_the_title_is_no_second_document() -> None:
    page = [*form(*FIRST, y=320), at(420, 275, "营业执照（副本）", 40)]
    assert len(split(page)) == 1
