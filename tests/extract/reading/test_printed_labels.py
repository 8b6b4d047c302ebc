"""However a label is printed or half seen, the value beside it is found."""

from __future__ import annotations

import pytest
from layout_lines import at, form, layout_of, read_page, standing, width_of

from certloop.extract.engine.lines import TextLine

COMPANY = (
    ("统一社会信用代码", "91350100M000100Y43"),
    ("名    称", "示例市样本贸易有限公司"),
    ("类    型", "有限责任公司"),
    ("法定代表人", "王小明"),
    ("注册资本", "壹佰万元整"),
    ("成立日期", "2019年03月05日"),
    ("住    所", "示例市样本区光明路8号"),
)
VALUES = {
    "credit_code": "91350100M000100Y43",
    "name": "示例市样本贸易有限公司",
    "type": "有限责任公司",
    "person": "王小明",
    "registered_capital": "壹佰万元整",
    "established_on": "2019年03月05日",
    "address": "示例市样本区光明路8号",
}


def test_spaced_labels() -> None:
    assert read_page(form(*COMPANY)) == VALUES


def test_a_spaced_label_and_its_value_on_one_line() -> None:
    page = [
        at(100, 200, "名    称  示例市样本贸易有限公司"),
        at(100, 270, "类    型  有限责任公司"),
        at(100, 340, "法定代表人  王小明"),
    ]
    assert read_page(page) == {k: VALUES[k] for k in ("name", "type", "person")}


@pytest.mark.parametrize("mark", ["：", ":", ": ", "﹕", ""])
def test_a_label_glued_to_its_value(mark: str) -> None:
    page = [at(100, 200 + 70 * n, label.replace(" ", "") + mark + value) for n, (label, value) in enumerate(COMPANY)]
    assert read_page(page) == VALUES


def test_a_label_in_two_boxes() -> None:
    page = form(*COMPANY)
    page[3:4] = [at(100, 270, "名"), at(196, 270, "称")]  # 名 ... 称
    assert read_page(page) == VALUES


def test_a_long_label_in_pieces() -> None:
    page = form(*COMPANY)
    page[1:2] = [at(100, 200, "统一社会"), at(100 + width_of("统一社会"), 200, "信用代码")]
    assert read_page(page) == VALUES


def test_every_character_of_a_label_in_its_own_box() -> None:
    page = form(*COMPANY)
    page[9:10] = [at(100 + 40 * n, 480, char) for n, char in enumerate("注册资本")]
    assert read_page(page) == VALUES


def test_stacked_labels_joined_downwards() -> None:
    """The first and second characters of 名称, 类型 and 住所 as two standing lines."""
    ys = [200, 270, 340]
    page = [
        standing(115, ys, "名类住"),
        standing(211, ys, "称型所"),
        at(360, 200, "示例市样本贸易有限公司"),
        at(360, 270, "有限责任公司"),
        at(360, 340, "示例市样本区光明路8号"),
        at(100, 410, "法定代表人"),
        at(360, 410, "王小明"),
    ]
    assert read_page(page) == {k: VALUES[k] for k in ("name", "type", "address", "person")}


@pytest.mark.parametrize(
    ("label", "field"),
    [
        ("字号名称", "name"),
        ("企业名称", "name"),
        ("公司类型", "type"),
        ("主体类型", "type"),
        ("法定代表人姓名", "person"),
        ("负 责 人", "person"),
        ("经 营 者", "person"),
        ("投 资 人", "person"),
        ("执行事务合伙人", "person"),
        ("营业场所", "address"),
        ("经营场所", "address"),
        ("主要经营场所", "address"),
        ("注册资金", "registered_capital"),
        ("注册日期", "established_on"),
    ],
)
def test_other_names_of_a_label(label: str, field: str) -> None:
    fields = list(VALUES)
    entries = [(label if f == field else printed, value) for f, (printed, value) in zip(fields, COMPANY, strict=True)]
    assert read_page(form(*entries)) == VALUES


@pytest.mark.parametrize(
    ("right", "misread"),
    [
        ("统一社会信用代码", "统一社会信用代玛"),
        ("统一社会信用代码", "统—社会信用代码"),
        ("法定代表人", "法定代衣人"),
        ("注册资本", "注朋资本"),
        ("成立日期", "成立曰期"),
    ],
)
def test_a_label_with_one_wrong_character(right: str, misread: str) -> None:
    page = form(*((misread if label == right else label, value) for label, value in COMPANY))
    assert read_page(page) == VALUES


@pytest.mark.parametrize(("number", "rest"), [(1, "称"), (2, "型"), (6, "所")])
def test_only_the_last_character_of_a_short_label_is_left(number: int, rest: str) -> None:
    """Glare took 名; 称 still stands where the column's labels end."""
    assert read_page(_spread(number, rest, "")) == {k: v for k, v in VALUES.items() if k != "credit_code"}


@pytest.mark.parametrize(("number", "misread"), [(1, "各 称"), (2, "粪 型"), (6, "用 所")])
def test_the_first_character_of_a_short_spread_label_is_misread(number: int, misread: str) -> None:
    first, last = misread.split()
    assert read_page(_spread(number, last, first)) == {k: v for k, v in VALUES.items() if k != "credit_code"}


def test_two_characters_before_the_last_of_a_label_are_text_and_no_label() -> None:
    assert "address" not in read_page(_spread(6, "所", "会务"))


def _spread(number: int, last: str, first: str) -> list[TextLine]:
    """A form whose labels are spread over 150 px, with what was read of the ``number``-th: its last character, and the first."""
    labels = [label for label, _ in COMPANY[1:]]
    page = []
    for at_row, (_, value) in enumerate(COMPANY[1:]):
        left = 100.0
        label = labels[at_row].replace("    ", "")
        spacing = (150 - 30 * len(label)) / (30 * (len(label) - 1))  # all labels spread over 150 px
        y = 200 + 70 * at_row
        if at_row == number - 1:
            page += [at(left, y, first)] if first else []
            page.append(at(100 + 120, y, last))
        else:
            page.append(at(left, y, label, spacing=spacing))
        page.append(at(300, y, value))
    return page


def test_a_label_of_another_size_than_its_value() -> None:
    page = form(*COMPANY)
    small = [at(360, line.quad[:, 1].mean(), line.text, 22) if line.left > 350 and i else line for i, line in enumerate(page)]
    assert read_page(small) == VALUES


def test_a_printed_label_without_a_value_is_known_and_has_none() -> None:
    page = form(*(entry if entry[0] != "注册资本" else ("注册资本", "") for entry in COMPANY))
    layout = layout_of(page)
    assert "registered_capital" in layout.cells
    assert "registered_capital" not in layout.drafts
    assert {k: d.text for k, d in layout.drafts.items()} == {k: v for k, v in VALUES.items() if k != "registered_capital"}


def test_a_form_without_scope_and_capital_has_neither() -> None:
    page = form(*(entry for entry in COMPANY if entry[0] != "注册资本"))
    layout = layout_of(page)
    for field in ("scope", "registered_capital", "paid_in_capital", "term", "registration_no"):
        assert field not in layout.cells
        assert field not in layout.drafts


def test_a_word_inside_a_value_is_no_label() -> None:
    page = form(*COMPANY, ("经营范围", "登记代理，企业名称查询，类型化产品销售；住所托管服务"))
    assert read_page(page) == VALUES | {"scope": "登记代理，企业名称查询，类型化产品销售；住所托管服务"}


def test_an_exact_label_beats_a_longer_one_that_is_alike() -> None:
    """证件有效期 is printed; 证件有效期起, which is another field, is not."""
    page = [
        at(400, 90, "道路运输经营许可证", 66),
        *(at(100, 200, "业户名称"), at(260, 200, "示例市样本运输有限公司")),
        *(at(100, 270, "经营范围"), at(260, 270, "道路普通货物运输")),
        *(at(1000, 270, "证件有效期"), at(1200, 270, "2025年06月17日")),
    ]
    found = read_page(page, "road_transport_operation_permit")
    assert found["valid_until"] == "2025年06月17日"
    assert "valid_from" not in found
