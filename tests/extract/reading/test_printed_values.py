"""Which printed pieces belong to a value, and which to its neighbours."""

from __future__ import annotations

import pytest
from layout_lines import EM, at, form, layout_of, read_page, width_of

SCOPE = "技术服务、技术开发、技术咨询；日用百货销售；办公用品销售；食品销售（仅销售预包装食品）；货物进出口。"


def wrapped(x: float, y: float, text: str, per_line: int, pitch: float = 48) -> list:
    return [at(x, y + pitch * n, text[i : i + per_line]) for n, i in enumerate(range(0, len(text), per_line))]


def test_two_columns() -> None:
    page = form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"))
    page += [at(900, 200, "注册资本"), at(1100, 200, "壹佰万元整"), at(900, 270, "成立日期"), at(1100, 270, "2019年03月05日")]
    page += [at(900, 340, "住    所"), at(1100, 340, "示例市样本区光明路8号")]
    assert read_page(page) == {
        "name": "示例市样本贸易有限公司",
        "type": "有限责任公司",
        "person": "王小明",
        "registered_capital": "壹佰万元整",
        "established_on": "2019年03月05日",
        "address": "示例市样本区光明路8号",
    }


def test_two_columns_whose_lines_the_detector_joined() -> None:
    page = [
        at(100, 200, "名    称  示例贸易有限公司      注册资本  壹佰万元整"),
        at(100, 270, "类    型  有限责任公司          成立日期  2019年03月05日"),
        at(100, 340, "法定代表人  王小明"),
    ]
    assert read_page(page) == {
        "name": "示例贸易有限公司",
        "registered_capital": "壹佰万元整",
        "type": "有限责任公司",
        "established_on": "2019年03月05日",
        "person": "王小明",
    }


@pytest.mark.parametrize("left_over", [1, 2, 3, 4])
def test_the_last_line_of_a_wrap_may_hold_a_few_characters(left_over: int) -> None:
    per_line = (len(SCOPE) - left_over) // 2
    text = SCOPE[: 2 * per_line + left_over]
    page = form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"))
    page += [at(100, 410, "经营范围"), *wrapped(360, 410, text, per_line)]
    assert read_page(page)["scope"] == text


@pytest.mark.parametrize("left_over", [1, 2, 4])
def test_an_address_wraps_too(left_over: int) -> None:
    """Its first line is as long as the scope's lines, so it goes on below."""
    full = 20
    address = "示例省示例市样本区光明街道光明社区光明路一百二十八号创新大厦三栋九楼"[: full + left_over]
    page = form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"))
    page += [at(100, 340, "住    所"), *wrapped(360, 340, address, full, pitch=40)]
    page += [at(100, 420, "法定代表人"), at(360, 420, "王小明")]
    page += [at(100, 490, "经营范围"), *wrapped(360, 490, SCOPE[:40], full, pitch=40)]
    found = read_page(page)
    assert (found["address"], found["person"], found["scope"]) == (address, "王小明", SCOPE[:40])


def test_a_wrap_in_the_right_column() -> None:
    page = form(
        ("名    称", "示例贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"), ("注册资本", "壹佰万元整")
    )
    page += [at(900, 200, "成立日期"), at(1100, 200, "2019年03月05日")]
    page += [at(900, 270, "住    所"), *wrapped(1100, 270, "示例省示例市样本区光明路一百二十八号创新大厦", 16, pitch=40)]
    page += [at(900, 410, "营业期限"), at(1100, 410, "长期")]
    found = read_page(page)
    assert found["address"] == "示例省示例市样本区光明路一百二十八号创新大厦"
    assert (found["type"], found["person"], found["term"]) == ("有限责任公司", "王小明", "长期")


def test_wraps_in_both_columns_stay_apart() -> None:
    page = form(("名    称", "示例贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"))
    page += [at(100, 410, "经营范围"), *wrapped(360, 410, SCOPE, 14)]
    page += [at(900, 200, "注册资本"), at(1100, 200, "壹佰万元整"), at(900, 270, "成立日期"), at(1100, 270, "2019年03月05日")]
    page += [at(900, 410, "住    所"), *wrapped(1100, 410, "示例省示例市样本区光明路一百二十八号创新大厦", 16)]
    found = read_page(page)
    assert (found["scope"], found["address"]) == (SCOPE, "示例省示例市样本区光明路一百二十八号创新大厦")


def test_the_next_line_of_an_unlabelled_neighbour_is_not_swallowed() -> None:
    """Below 法定代表人 王小明 stands the value of a label that the reader did not see."""
    page = form(
        ("名    称", "示例市样本贸易有限公司"),
        ("类    型", "有限责任公司(自然人独资)"),
        ("法定代表人", "王小明"),
    )
    page += [at(360, 410, "由股东以货币出资"), at(100, 480, "成立日期"), at(360, 480, "2019年03月05日")]
    assert read_page(page)["person"] == "王小明"


def test_a_value_under_its_label() -> None:
    page = [
        *(at(100, 200, "统一社会信用代码"), at(100, 250, "91350100M000100Y43")),
        *(at(100, 340, "名称"), at(100, 390, "示例市样本贸易有限公司")),
        *(at(100, 480, "法定代表人"), at(100, 530, "王小明")),
    ]
    assert read_page(page) == {"credit_code": "91350100M000100Y43", "name": "示例市样本贸易有限公司", "person": "王小明"}


def test_a_code_under_its_label_beside_other_rows() -> None:
    page = form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"), y=300)
    page += [at(100, 170, "统一社会信用代码", 22), at(100, 205, "91350100M000100Y43", 22)]
    assert read_page(page)["credit_code"] == "91350100M000100Y43"


@pytest.mark.parametrize("offset", [-0.6, -0.4, 0.4, 0.6])
def test_a_value_set_higher_or_lower_than_its_label(offset: float) -> None:
    entries = [
        ("名    称", "示例市样本贸易有限公司"),
        ("类    型", "有限责任公司"),
        ("法定代表人", "王小明"),
        ("注册资本", "壹佰万元整"),
    ]
    page = []
    for n, (label, value) in enumerate(entries):
        page += [at(100, 200 + 80 * n, label), at(300, 200 + 80 * n + offset * EM, value)]
    assert read_page(page) == {
        "name": "示例市样本贸易有限公司",
        "type": "有限责任公司",
        "person": "王小明",
        "registered_capital": "壹佰万元整",
    }


def test_account_permit_in_sentences() -> None:
    page = [
        at(400, 90, "开户许可证", 66),
        at(100, 200, "核准号：J3910000000001"),
        at(700, 200, "编号：3910-00000001"),
        at(160, 280, "经审核，示例市样本贸易有限公司符合开户条件，准予"),
        at(100, 340, "开立基本存款账户。"),
        at(100, 410, "法定代表人（单位负责人）王小明"),
        at(700, 410, "开户银行 示例银行示例市光明支行"),
        at(100, 480, "账号 350100010000000001"),
        at(700, 560, "发证机关（盖章）"),
        at(700, 620, "2015年02月19日"),
    ]
    assert read_page(page, "bank_account_permit") == {
        "approval_no": "J3910000000001",
        "permit_no": "3910-00000001",
        "name": "示例市样本贸易有限公司",
        "person": "王小明",
        "bank": "示例银行示例市光明支行",
        "account": "350100010000000001",
        "issued_on": "2015年02月19日",
    }


def test_the_account_holder_in_a_sentence_over_two_lines() -> None:
    page = [
        at(400, 90, "开户许可证", 66),
        at(160, 280, "经审核，示例市样本区光明街道创新大厦样本"),
        at(100, 340, "贸易有限公司符合开户条件，准予开立基本存款账户。"),
        at(100, 480, "账号 350100010000000001"),
    ]
    assert read_page(page, "bank_account_permit")["name"] == "示例市样本区光明街道创新大厦样本贸易有限公司"


@pytest.mark.parametrize("heading", ["重要提示", "须  知"])
def test_a_notice_box_is_no_field(heading: str) -> None:
    page = form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"))
    page += [
        at(1000, 200, heading),
        at(900, 250, "1.商事主体的经营范围由章程确定。经营范围中属于法律", 20),
        at(900, 285, "规定应当经批准的项目，取得许可审批文件后方可开展。", 20),
        at(900, 320, "2.商事主体经营范围和许可审批项目等有关事项及年报", 20),
        at(900, 355, "信息，请登录公示平台查询。", 20),
    ]
    assert read_page(page) == {"name": "示例市样本贸易有限公司", "type": "有限责任公司", "person": "王小明"}


def test_an_annual_inspection_table_is_no_field() -> None:
    page = form(
        ("注 册 号", "350100100000001"),
        ("名    称", "示例市样本贸易有限公司"),
        ("住    所", "示例市样本区光明路8号"),
        ("法定代表人", "王小明"),
    )
    page += [
        at(900, 200, "年度检验情况"),
        at(900, 270, "2009年度"),
        at(1100, 270, "2010年度"),
        at(900, 340, "年检合格"),
        at(1100, 340, "年检合格"),
    ]
    assert read_page(page) == {
        "registration_no": "350100100000001",
        "name": "示例市样本贸易有限公司",
        "address": "示例市样本区光明路8号",
        "person": "王小明",
    }


def test_a_date_in_pieces() -> None:
    page = form(
        ("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"), ("注册资本", "壹佰万元整")
    )
    page += [at(700, 640, "登记机关"), at(700, 720, "2021"), at(800, 720, "年6"), at(880, 720, "月"), at(940, 720, "18日")]
    assert read_page(page)["issued_on"].replace(" ", "") == "2021年6月18日"


def test_a_range_of_which_two_fields_take_an_end_each() -> None:
    page = [
        at(300, 90, "道路运输经营许可证", 66),
        at(100, 200, "许可证号  示交运管许可货字350100000001号"),
        at(100, 270, "业户名称  示例市样本运输有限公司"),
        at(100, 340, "地    址  示例市样本区光明路8号"),
        at(100, 410, "经营范围  道路普通货物运输"),
        at(100, 480, "证件有效期  2021年06月18日起至2025年06月17日"),
    ]
    found = read_page(page, "road_transport_operation_permit")
    assert (found["valid_from"], found["valid_until"]) == ("2021年06月18日", "2025年06月17日")


def test_a_range_stays_whole_where_the_type_has_one_field() -> None:
    page = form(
        ("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("营业期限", "2019年03月05日至2049年03月04日")
    )
    assert read_page(page)["term"] == "2019年03月05日至2049年03月04日"


@pytest.mark.parametrize("mask", ["XXXXXXXXXXXXXXXXXX", "******************"])
def test_a_masked_value_is_marked_as_such(mask: str) -> None:
    layout = layout_of(form(("名    称", "示例市样本贸易有限公司"), ("统一社会信用代码", mask), ("类    型", "有限责任公司")))
    draft = layout.drafts.get("credit_code")
    assert draft is not None
    assert draft.masked


@pytest.mark.parametrize("code", ["91350100M000100Y4", "9135O1OOM000100Y43", "91350100M000100Y434"])
def test_a_code_is_what_is_printed(code: str) -> None:
    """17 characters stay 17, O stays O: nothing is repaired."""
    page = form(("统一社会信用代码", code), ("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"))
    assert read_page(page)["credit_code"] == code


def test_a_code_with_blanks_between_its_digits() -> None:
    page = form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"))
    page += [at(100, 410, "注 册 号"), at(360, 410, "350100100000001", spacing=0.4)]
    assert read_page(page)["registration_no"].replace(" ", "") == "350100100000001"


def test_text_far_right_of_a_value_is_not_part_of_it() -> None:
    page = form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"))
    page.append(at(360 + width_of("王小明") + 10 * EM, 340, "扫描二维码了解更多信息"))
    assert read_page(page)["person"] == "王小明"


def test_the_copy_mark_beside_the_title() -> None:
    page = [
        *form(("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明")),
        at(480, 145, "（副本）", 26),
    ]
    assert read_page(page)["copy"] == "副本"


_FIRM = (("类    型", "有限责任公司"), ("法定代表人", "王小明"), ("注册资本", "壹佰万元整"))


@pytest.mark.parametrize(
    "name", ["经营范围策划有限公司", "营业期限文化传媒有限公司", "注册资本管理咨询有限公司", "经营者之家有限公司"]
)
def test_a_value_may_begin_with_the_words_of_a_label(name: str) -> None:
    assert read_page(form(("名    称", name), *_FIRM))["name"] == name


def test_a_scope_that_names_labels_is_not_cut() -> None:
    scope = "商标代理；注册资本验资咨询；法定代表人变更代理；住所托管"
    assert read_page(form(("名    称", "示例市样本贸易有限公司"), *_FIRM, ("经营范围", scope)))["scope"] == scope


def test_a_bracket_of_the_label_is_no_part_of_the_value() -> None:
    page = [
        at(400, 90, "开户许可证", 66),
        at(100, 200, "法定代表人（单位负贵入）王小明"),
        at(100, 270, "开户银行"), at(300, 270, "示例银行样本支行"),
        at(100, 340, "账号"), at(300, 340, "6222000011112222"),
    ]  # fmt: skip
    assert read_page(page, "bank_account_permit")["person"] == "王小明"
