"""What a page is taken for, and when the answer must be: unknown."""

from __future__ import annotations

import pytest
from layout_lines import at, form, kind_of

from certloop.extract.classify import UNKNOWN

COMPANY = (
    ("统一社会信用代码", "91350100M000100Y43"),
    ("名    称", "示例市样本贸易有限公司"),
    ("类    型", "有限责任公司"),
    ("法定代表人", "王小明"),
    ("注册资本", "壹佰万元整"),
    ("住    所", "示例市样本区光明路8号"),
    ("经营范围", "日用百货销售"),
)
PERMIT = (
    ("经营者名称", "示例市样本餐饮店"),
    ("社会信用代码", "91350100M000100Y43"),
    ("法定代表人", "王小明"),
    ("住    所", "示例市样本区光明路8号"),
    ("经营场所", "示例市样本区光明路8号"),
    ("主体业态", "餐饮服务经营者"),
    ("许可证编号", "JY23501020000018"),
    ("有效期至", "2026年12月15日"),
)
DRUG = (
    ("企业名称", "示例市样本大药房"),
    ("许可证编号", "闽DA0010001"),
    ("法定代表人", "王小明"),
    ("企业负责人", "李小红"),
    ("质量负责人", "张小刚"),
    ("注册地址", "示例市样本区光明路8号"),
    ("仓库地址", "***"),
    ("有效期至", "2026年12月15日"),
)


@pytest.mark.parametrize(
    ("title", "entries", "type_id"),
    [
        ("营业执照", COMPANY, "business_licence"),
        ("企业法人营业执照", COMPANY, "business_licence"),
        ("食品经营许可证", PERMIT, "food_operation_permit"),
        ("药品经营许可证", DRUG, "drug_operation_permit"),
    ],
)
def test_the_title_names_the_type(title: str, entries: tuple[tuple[str, str], ...], type_id: str) -> None:
    found = kind_of(form(*entries, title=title))
    assert found.type_id == type_id
    assert found.confidence > 0.8
    assert found.title is not None
    assert found.title.text == title


@pytest.mark.parametrize(
    "title", ["营业执照（副本）", "营业执照(副 本)", "营 业 执 照", "☆营业执照☆", "营业执照.", "个体工商户营业执照（副本）"]
)
def test_a_title_with_marks_around_it(title: str) -> None:
    assert kind_of(form(*COMPANY, title=title)).type_id == "business_licence"


@pytest.mark.parametrize(
    ("title", "type_id"), [("食品经宫许可证", "food_operation_permit"), ("药品经营许可正", "drug_operation_permit")]
)
def test_a_title_with_a_misread_character(title: str, type_id: str) -> None:
    entries = PERMIT if type_id == "food_operation_permit" else DRUG
    assert kind_of(form(*entries, title=title)).type_id == type_id


def test_similar_titles_are_told_apart_even_on_bare_pages() -> None:
    """食品经营许可证 and 药品经营许可证 differ in one character."""
    shared = (("许可证编号", "12345678"), ("法定代表人", "王小明"), ("有效期至", "2026年12月15日"))
    assert kind_of(form(*shared, title="食品经营许可证")).type_id == "food_operation_permit"
    assert kind_of(form(*shared, title="药品经营许可证")).type_id == "drug_operation_permit"


@pytest.mark.parametrize(
    ("title", "type_id"),
    [
        ("医疗器械经营许可证", "device_operation_permit"),
        ("医疗器械生产许可证", "device_production_permit"),
        ("食品生产许可证", "food_production_permit"),
        ("道路运输证", "road_transport_certificate"),
        ("道路运输经营许可证", "road_transport_operation_permit"),
        ("开户许可证", "bank_account_permit"),
    ],
)
def test_other_similar_titles(title: str, type_id: str) -> None:
    assert kind_of(form(("法定代表人", "王小明"), ("地    址", "示例市样本区光明路8号"), title=title)).type_id == type_id


@pytest.mark.parametrize(
    ("entries", "type_id"), [(COMPANY, "business_licence"), (PERMIT, "food_operation_permit"), (DRUG, "drug_operation_permit")]
)
def test_many_labels_make_up_for_a_title_that_was_cut_off(entries: tuple[tuple[str, str], ...], type_id: str) -> None:
    found = kind_of(form(*entries, title=""))
    assert found.type_id == type_id
    assert found.title is None


def test_an_identity_card_has_no_title_on_its_front() -> None:
    page = [
        at(100, 100, "姓名 王小明"),
        at(100, 170, "性别 男"),
        at(260, 170, "民族 汉"),
        at(100, 240, "出生 1990年1月1日"),
        at(100, 310, "住址 示例市样本区光明路8号"),
        at(100, 450, "公民身份号码 350102199001011234"),
    ]
    assert kind_of(page).type_id == "id_card"


def test_an_empty_page_is_unknown() -> None:
    assert kind_of([]).type_id == UNKNOWN


def test_an_invoice_is_unknown() -> None:
    page = [
        at(500, 80, "增值税电子普通发票", 48),
        at(1000, 60, "发票代码：035001900111", 22),
        at(1000, 95, "发票号码：00000001", 22),
        at(1000, 130, "开票日期：2021年06月18日", 22),
        at(100, 200, "名    称：示例市样本贸易有限公司", 24),
        at(100, 240, "纳税人识别号：91350100M000100Y43", 24),
        at(100, 280, "地址、电话：示例市样本区光明路8号 0591-00000000", 24),
        at(100, 320, "开户行及账号：示例银行示例市光明支行 350100010000000001", 24),
        at(100, 400, "货物或应税劳务、服务名称", 24),
        at(700, 400, "规格型号", 24),
        at(900, 400, "单位", 24),
        at(1000, 400, "数量", 24),
        at(1100, 400, "金额", 24),
        at(100, 440, "*餐饮服务*餐费", 24),
        at(100, 560, "价税合计（大写）", 24),
        at(500, 560, "壹佰元整", 24),
        at(100, 620, "名    称：示例市光明餐饮有限公司", 24),
        at(100, 660, "纳税人识别号：91350100M000100Y43", 24),
    ]
    assert kind_of(page).type_id == UNKNOWN


def test_a_letter_that_mentions_a_licence_is_unknown() -> None:
    page = [
        at(500, 80, "关于提交资料的说明", 48),
        at(100, 200, "示例银行："),
        at(160, 260, "我公司已于2019年3月5日取得营业执照，统一社会信用代码为"),
        at(100, 320, "91350100M000100Y43，法定代表人王小明，注册资本壹佰万元。"),
        at(100, 380, "现将营业执照复印件一份、开户许可证复印件一份提交贵行，请予"),
        at(100, 440, "办理账户变更手续，并将食品经营许可证原件退回我公司。"),
        at(800, 560, "示例市样本贸易有限公司"),
        at(800, 620, "2021年6月18日"),
    ]
    assert kind_of(page).type_id == UNKNOWN


def test_running_text_is_unknown() -> None:
    page = [at(100, 100 + 50 * n, "春眠不觉晓处处闻啼鸟夜来风雨声花落知多少") for n in range(12)]
    assert kind_of(page).type_id == UNKNOWN


@pytest.mark.parametrize("title", ["营业执照申请书", "食品经营许可证申请书", "企业登记申请表"])
def test_an_application_form_is_not_the_certificate(title: str) -> None:
    assert kind_of(form(("名    称", "示例市样本贸易有限公司"), ("联系电话", "059100000000"), title=title)).type_id == UNKNOWN


def test_a_forced_type_is_taken() -> None:
    from layout_lines import layout_of

    found = layout_of(form(*COMPANY, title="没有这种证"), "business_licence")
    assert found.drafts["name"].text == "示例市样本贸易有限公司"


def test_a_letter_that_only_lists_a_licence_is_unknown() -> None:
    page = [
        at(300, 100, "关于提交营业执照的函", 60),
        at(100, 250, "各有关单位"),
        at(100, 320, "现将下列材料报送贵单位审核"),
        at(100, 390, "营业执照"),
        at(100, 460, "成立日期：2019年3月5日"),
    ]
    assert kind_of(page).type_id == "unknown"
