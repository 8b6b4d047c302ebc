"""A licence speaks of one kind of firm: its name, its type and its labels agree, and a shared copy keeps the kind."""

from __future__ import annotations

from random import Random

import pytest

from certloop.synth.fields.firms import FORMS, make_firm
from certloop.synth.fields.kinds import FAMILIES, family_of, form_told
from certloop.synth.fields.vocabulary import words
from certloop.synth.label import make_sample
from certloop.synth.layout import Layout, load_layouts
from certloop.synth.perturb import load_profile
from certloop.synth.pseudonymise import CertificatePseudonymiser
from certloop.synth.sample import Recipe, draw_document
from certloop.templates import load_types

LICENCES = load_layouts("business_licence")
PERSON = {
    "company": {"法定代表人", "法定代表人姓名"},
    "foreign": {"法定代表人"},
    "partnership": {"执行事务合伙人"},
    "sole": {"投资人"},
    "individual": {"经营者", "经营者姓名"},
    "branch": {"负责人"},
}
CAPITAL = {"company": {"注册资本"}, "foreign": {"注册资本"}, "partnership": {"出资额"}}


def assert_agree(form: str, name: str, type_text: str) -> None:
    """What a registrar would see at once."""
    match form:
        case "individual" | "sole":
            assert type_text == {"individual": "个体工商户", "sole": "个人独资企业"}[form]
            assert "公司" not in name and "合伙" not in name
        case "partnership":
            pairs = {"（有限合伙）": "有限合伙企业", "（普通合伙）": "普通合伙企业"}
            assert name[-6:] in pairs and type_text == pairs[name[-6:]]
        case "branch":
            assert name.endswith("分公司") and ("分公司" in type_text or "分支机构" in type_text)
        case _:
            assert name.endswith("公司")
            assert ("股份有限公司" in type_text) is name.endswith("股份有限公司")
            assert ("有限责任公司" in type_text) is not name.endswith("股份有限公司")
            assert ("外国" in type_text or "港澳台" in type_text) is (form == "foreign")


@pytest.mark.parametrize("form", FORMS)
def test_name_and_type_of_a_firm_agree(form: str) -> None:
    types, endings = set(), set()
    for seed in range(1500):
        firm = make_firm(Random(seed), form=form)
        assert_agree(form, firm.name, firm.type)
        assert form_told(firm.type) == form, firm.type
        types.add(firm.type)
        endings.add(firm.name[-6:])
    if form == "partnership":
        assert types == {"有限合伙企业", "普通合伙企业"} and len(endings) == 2
    if form == "company":
        assert sum("股份" in t for t in types) > 2 and len(types) > 8


@pytest.mark.parametrize("layout", LICENCES, ids=lambda layout: layout.id)
def test_the_labels_of_a_licence_fit_its_kind_of_firm(layout: Layout) -> None:
    (family,) = {family_of(form) for form in layout.firms}
    for row in layout.rows:
        for form in family & set(layout.firms):
            if row.field == "person":
                assert set(row.labels) <= PERSON[form]
            if row.field in ("registered_capital", "paid_in_capital"):
                assert set(row.labels) - {"实收资本"} <= CAPITAL.get(form, set())
                assert row.field == "registered_capital" or form == "company"
            if row.field == "organization_form":
                assert form == "individual"


def test_every_kind_has_a_licence_form() -> None:
    assert (
        {form for layout in LICENCES for form in layout.firms} == set(FORMS) == {form for family in FAMILIES for form in family}
    )


@pytest.mark.parametrize("layout_id", [layout.id for layout in LICENCES])
def test_a_drawn_licence_agrees_with_itself(layout_id: str) -> None:
    for seed in range(4):
        document = draw_document(Recipe("business_licence", seed, 500, layouts=(layout_id,)))
        values, form = document.page.values, document.firm.form
        if values.get("type") and values.get("name"):
            assert_agree(form, str(values["name"]), str(values["type"]))
        assert document.page.wordings["person"].replace(" ", "") in PERSON[form]


@pytest.mark.parametrize(
    ("type_text", "name", "code", "form"),
    [
        ("有限责任公司(外国法人独资)", "宏瑟博（贵阳）粮油有限公司", "915201131145183770", "foreign"),
        ("有限责任公司（台港澳法人独资）分支机构", "", "", "branch"),
        ("一人有限责任公司(自然人独资)", "", "", "company"),
        ("有限责任公司(有限合伙企业投资)", "", "", "company"),
        ("外商投资有限合伙企业", "", "", "partnership"),
        ("合伙企业分支机构", "", "", "branch"),
        ("个人独资企业", "某某中心", "", "sole"),
        ("个体（个人经营）", "", "", "individual"),
        ("全民所有制", "", "", "company"),
        ("农民专业合作社", "", "", "company"),
        ("", "某某（上海）有限公司徐汇分公司", "", "branch"),
        ("", "某某事务所（特殊普通合伙）", "", "partnership"),
        ("", "阿明小吃店", "92310104MA1FR00000", "individual"),
        ("", "阿明小吃店", "91310104MA1FR00000", None),
        ("", "", "", None),
    ],
)
def test_the_words_of_a_document_tell_the_kind(type_text: str, name: str, code: str, form: str | None) -> None:
    assert form_told(type_text, name, code) == form


def test_every_type_of_the_word_lists_is_recognised() -> None:
    for text in words("forms", "company_types") + words("forms", "share_types"):
        assert form_told(text) in ("company", "foreign")
    assert {form_told(text) for text in words("forms", "branch_types")} == {"branch"}


@pytest.mark.parametrize(("layout", "seed"), [(layout.id, 1 + n) for n, layout in enumerate(LICENCES)])
def test_a_shared_copy_speaks_of_the_same_kind_of_firm(layout: str, seed: int) -> None:
    recipe = Recipe("business_licence", seed, 900, layouts=(layout,))
    before = draw_document(recipe)
    sample = make_sample(recipe, load_profile("clean"), document=before)
    _, answer = CertificatePseudonymiser(profile="clean").rerender(
        sample.encoded(), sample.label["fields"], "business_licence", seed
    )
    name, form = str(answer["名称"]), before.firm.form
    told = form_told(str(answer.get("类型") or ""), name)
    if told is None:  # an old licence of a trader prints no type
        assert "组成形式" in answer and form == "individual"
    else:
        assert told in family_of(form), (form, answer)
    if answer.get("类型"):
        assert_agree(str(told), name, str(answer["类型"]))
    assert ("注册资本" in answer) <= (form in CAPITAL)


@pytest.mark.parametrize("seed", range(4))
def test_a_shared_company_stays_a_company_whatever_rows_it_shows(seed: int) -> None:
    """The rows of a partnership's form are those of a company's without its number: the kind decides, not the rows."""
    recipe = Recipe("business_licence", 5, 900, layouts=("horizontal_2019",))
    page = make_sample(recipe, load_profile("clean")).encoded()
    answer = {
        "统一社会信用代码": "915201131145183770", "名称": "宏瑟博（贵阳）粮油有限公司", "类型": "有限责任公司(外国法人独资)",
        "法定代表人": "史涛浩", "注册资本": "5万港元", "成立日期": "2010年05月06日", "营业期限": "2010年05月06日至长期",
        "住所": "贵阳市白云区朝阳西路791号", "经营范围": "餐饮服务", "登记日期": "2022年07月24日",
    }  # fmt: skip
    _, copy = CertificatePseudonymiser(profile="clean").rerender(page, answer, "business_licence", seed)
    assert_agree("foreign", str(copy["名称"]), str(copy["类型"]))


@pytest.mark.parametrize("type_id", ["food_operation_permit", "drug_operation_permit", "bank_account_permit"])
def test_a_permit_keeps_the_kind_of_its_holder(type_id: str) -> None:
    label = next(spec.label for spec in load_types(()).get(type_id).fields.values() if spec.id in ("operator", "name"))
    page = make_sample(Recipe(type_id, 2, 900), load_profile("clean"))
    for name, form in (
        ("某某药房有限公司", "company"),
        ("某某诊所（普通合伙）", "partnership"),
        ("某某有限公司城西分公司", "branch"),
    ):
        answer = {**page.label["fields"], label: name}
        _, copy = CertificatePseudonymiser(profile="clean").rerender(page.encoded(), answer, type_id, 4)
        assert form_told("", str(copy[label])) == form
