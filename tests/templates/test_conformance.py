"""Every document type folder is well formed, complete and safe to use.

Folders of your own: ``pytest tests/templates --template-path my_types``.
"""

from __future__ import annotations

# ruff: noqa: E501
import re
import shutil
from pathlib import Path

import pytest

from certloop.templates import DocumentType, TemplateError, UnknownTypeError, load_types, squash
from certloop.templates.loader import BUILTIN
from certloop.validators import KINDS

# FIELDS.md, by hand: id -> canonical label; required fields end in *.
FIELDS: dict[str, dict[str, str]] = {
    "business_licence": {
        "credit_code": "统一社会信用代码", "registration_no": "注册号", "name*": "名称", "type*": "类型", "person*": "法定代表人",
        "organization_form": "组成形式", "registered_capital": "注册资本", "paid_in_capital": "实收资本", "established_on": "成立日期",
        "term": "营业期限", "address*": "住所", "scope": "经营范围", "authority": "登记机关", "issued_on": "登记日期",
        "serial_no": "证照编号", "copy": "正副本",
    },
    "food_operation_permit": {
        "operator*": "经营者名称", "credit_code*": "社会信用代码", "person*": "法定代表人", "residence": "住所", "premises*": "经营场所",
        "business_form": "主体业态", "items": "经营项目", "permit_no*": "许可证编号", "valid_until*": "有效期至",
        "supervision_body": "日常监督管理机构", "supervision_staff": "日常监督管理人员", "hotline": "投诉举报电话", "authority": "发证机关",
        "signer": "签发人", "issued_on": "签发日期",
    },
    "food_production_permit": {
        "producer*": "生产者名称", "credit_code*": "社会信用代码", "person*": "法定代表人", "residence": "住所", "premises*": "生产地址",
        "food_types": "食品类别", "permit_no*": "许可证编号", "valid_until*": "有效期至", "supervision_body": "日常监督管理机构",
        "supervision_staff": "日常监督管理人员", "hotline": "投诉举报电话", "authority": "发证机关", "signer": "签发人",
        "issued_on": "签发日期",
    },
    "drug_operation_permit": {
        "name*": "企业名称", "credit_code": "统一社会信用代码", "person*": "法定代表人", "manager": "企业负责人",
        "quality_manager": "质量负责人", "mode": "经营方式", "scope": "经营范围", "registered_address*": "注册地址", "warehouse": "仓库地址",
        "permit_no*": "许可证编号", "serial_no": "流水号", "authority": "发证机关", "issued_on": "发证日期", "valid_until*": "有效期至",
    },
    "device_operation_permit": {
        "name*": "企业名称", "credit_code": "统一社会信用代码", "permit_no*": "许可证编号", "person*": "法定代表人", "manager": "企业负责人",
        "quality_manager": "质量管理人", "mode": "经营方式", "residence": "住所", "premises*": "经营场所", "warehouse": "库房地址",
        "scope": "经营范围", "authority": "发证部门", "issued_on": "发证日期", "valid_until*": "有效期限",
    },
    "device_production_permit": {
        "name*": "企业名称", "credit_code": "统一社会信用代码", "permit_no*": "许可证编号", "person*": "法定代表人", "manager": "企业负责人",
        "residence": "住所", "premises*": "生产地址", "scope": "生产范围", "authority": "发证部门", "issued_on": "发证日期",
        "valid_until*": "有效期限",
    },
    "bank_account_permit": {
        "name*": "公司名称", "bank*": "开户银行", "account*": "账号", "approval_no": "核准号", "permit_no": "编号", "person": "法定代表人",
        "issued_on": "发证日期",
    },
    "road_transport_operation_permit": {
        "operator*": "业户名称", "address": "地址", "scope*": "经营范围", "permit_no*": "许可证号", "valid_from": "有效期起",
        "valid_until*": "证件有效期", "authority": "核发机关", "issued_on": "发证日期",
    },
    "road_transport_certificate": {
        "operator*": "业户名称", "address": "地址", "plate*": "车辆号牌", "permit_no": "经营许可证号", "economic_type": "经济类型",
        "vehicle_type": "车辆类型", "capacity": "吨(座)位", "length": "长", "width": "宽", "height": "高", "scope": "经营范围",
        "first_issued_on": "初领日期", "issued_on": "发证日期", "certificate_no*": "道路运输证号", "authority": "核发机关",
        "remarks": "备注",
    },
    "id_card": {
        "name*": "姓名", "sex": "性别", "ethnicity": "民族", "birth": "出生", "address": "住址", "id_number*": "公民身份号码",
        "authority": "签发机关", "term": "有效期限",
    },
    "authorisation_letter": {
        "principal*": "委托人", "principal_code": "委托人统一社会信用代码", "principal_person": "法定代表人", "agent*": "受托人",
        "agent_id_number": "受托人身份证号", "agent_title": "职务", "agent_phone": "联系电话", "matter*": "委托事项", "powers": "代理权限",
        "project": "项目名称", "term": "委托期限", "no_sub_delegation": "无转委托权", "signed_on": "签署日期", "has_seal": "公章",
        "has_signature": "签字",
    },
}  # fmt: skip
# Other printed labels of FIELDS.md that must lead to the field.
ALIASES: dict[str, dict[str, list[str]]] = {
    "business_licence": {
        "credit_code": ["社会信用代码", "信用代码"], "registration_no": ["工商注册号"], "name": ["企业名称", "单位名称", "字号名称", "公司名称"],
        "type": ["公司类型", "主体类型", "企业类型", "经济性质"],
        "person": ["负责人", "执行事务合伙人", "投资人", "经营者", "法定代表人姓名", "经营者姓名", "业主姓名"],
        "registered_capital": ["注册资金", "出资额", "成员出资总额", "开办资金"], "established_on": ["注册日期"],
        "term": ["经营期限", "合伙期限"], "address": ["营业场所", "企业住所", "主要经营场所", "经营场所", "地址"],
        "scope": ["经营范围及方式", "业务范围"], "issued_on": ["发照日期", "核准日期", "发证日期"], "serial_no": ["编号", "证件编号"],
    },
    "food_operation_permit": {"person": ["法定代表人(负责人)"]},
    "drug_operation_permit": {"manager": ["主要负责人"], "registered_address": ["经营地址"], "permit_no": ["证号"]},
    "device_operation_permit": {"permit_no": ["备案编号"], "issued_on": ["备案日期"]},
    "bank_account_permit": {"name": ["存款人名称", "客户名称"], "person": ["单位负责人"]},
    "authorisation_letter": {"principal": ["委托单位"], "agent": ["被授权人"]},
}  # fmt: skip
ALL_TYPES = {t.id: t for t in load_types()}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "doc_type" in metafunc.fixturenames:
        types = list(load_types(metafunc.config.getoption("--template-path")))
        metafunc.parametrize("doc_type", types, ids=[t.id for t in types])


def test_every_type_of_the_list_has_a_folder_and_every_folder_is_loaded() -> None:
    assert set(ALL_TYPES) == set(FIELDS)
    assert {p.parent.name for p in BUILTIN.glob("*/type.toml")} == set(ALL_TYPES)


@pytest.mark.parametrize("type_id", FIELDS)
def test_the_fields_are_those_of_the_list(type_id: str) -> None:
    wanted = {name.rstrip("*"): label for name, label in FIELDS[type_id].items()}
    have = {f.id: f.label for f in ALL_TYPES[type_id].fields.values()}
    assert wanted.items() <= have.items()
    assert set(have) - set(wanted) <= {"copy", "authority"}, "a field that FIELDS.md does not know"
    assert set(ALL_TYPES[type_id].required) == {name.rstrip("*") for name in FIELDS[type_id] if name.endswith("*")}


@pytest.mark.parametrize(("type_id", "field_id"), [(t, f) for t, fields in ALIASES.items() for f in fields])
def test_printed_variants_of_the_list_lead_to_the_field(type_id: str, field_id: str) -> None:
    labels = {squash(label) for label in ALL_TYPES[type_id].fields[field_id].labels}
    assert {squash(alias) for alias in ALIASES[type_id][field_id]} <= labels


def test_a_licence_needs_one_of_its_two_numbers() -> None:
    assert ("credit_code", "registration_no") in ALL_TYPES["business_licence"].one_of


def test_no_printed_label_belongs_to_two_fields(doc_type: DocumentType) -> None:
    owners: dict[str, str] = {}
    for spec in doc_type.fields.values():
        for label in spec.labels:
            other = owners.setdefault(squash(label), spec.id)
            assert other == spec.id, f"{doc_type.id}: {label} names {other} and {spec.id}"


def test_a_label_stands_once_in_its_field_and_is_no_stop_label(doc_type: DocumentType) -> None:
    for spec in doc_type.fields.values():
        squashed = [squash(label) for label in spec.labels]
        assert len(squashed) == len(set(squashed)), f"{doc_type.id}.{spec.id}: a label stands twice"
        assert set(squashed).isdisjoint(map(squash, doc_type.stop_labels)), (
            f"{doc_type.id}.{spec.id}: both a label and a stop label"
        )


def test_validators_are_known(doc_type: DocumentType) -> None:
    for spec in doc_type.fields.values():
        assert set(spec.validator_kinds) <= set(KINDS), f"{doc_type.id}.{spec.id}"


def test_an_enum_has_values_and_only_an_enum(doc_type: DocumentType) -> None:
    for spec in doc_type.fields.values():
        assert bool(spec.values) == (spec.kind.value == "enum"), f"{doc_type.id}.{spec.id}"


def test_the_title_is_among_the_titles_and_is_not_excluded(doc_type: DocumentType) -> None:
    assert doc_type.title in doc_type.titles
    assert not [t for t in doc_type.titles for n in doc_type.not_titles if squash(n) in squash(t)]


def test_the_prompt_names_every_field_once_and_in_order(doc_type: DocumentType) -> None:
    listed = re.search(r"字段：(.*)。", doc_type.prompt)
    assert listed is not None
    assert listed.group(1).split("、") == [f.label for f in doc_type.fields.values()]
    assert doc_type.title in doc_type.prompt


def test_the_prompt_holds_no_answer_and_no_trigger(doc_type: DocumentType) -> None:
    """It is the generic prompt that training packs byte for byte: no value, no example, no mode switch, no guidance block."""
    assert not re.search(r"[0-9０-９A-Za-z<>{}\[\]#=]", doc_type.prompt.replace("JSON", "").replace("null", ""))
    assert not re.search(r"例如|示例|答案|提示[:：]|参考|正确值", doc_type.prompt)
    assert doc_type.prompt.endswith("\n")
    assert "不要改正" in doc_type.prompt, "print is copied, never repaired"


def test_patterns_find_no_catastrophe(doc_type: DocumentType) -> None:
    """Patterns meet whatever OCR gives: long runs without the value must end at once (a hang fails the run's time limit)."""
    patterns = [rule.pattern for f in doc_type.fields.values() for rule in f.sentences]
    patterns += [f.value_pattern for f in doc_type.fields.values() if f.value_pattern is not None]
    for pattern in patterns:
        for text in ("委托" * 500, "公司" * 500, "1" * 1000, "系" * 1000):
            pattern.search(text)


SAMPLE_FIELDS = """[[fields]]
id = "code"
label = "代码"
kind = "uscc"

[[fields]]
id = "name"
label = "名称"
kind = "text"
"""
SAMPLE = (
    """id = "sample_permit"
version = "1"
title = "示例证"
title_en = "Sample"
titles = ["示例证"]

"""
    + SAMPLE_FIELDS
)
BROKEN = {
    "no title": ('title = "示例证"', "", "title"),
    "unknown key of the type": ('version = "1"', 'version = "1"\ncolour = "red"', "colour"),
    "unknown key of a field": ('kind = "uscc"', 'kind = "uscc"\nrequire = true', "require"),
    "unknown kind": ('kind = "uscc"', 'kind = "codes"', "codes"),
    "field id twice": ('id = "name"', 'id = "code"', "twice"),
    "other folder name": ('id = "sample_permit"', 'id = "other"', "sample_permit"),
    "broken pattern": ('kind = "uscc"', 'kind = "uscc"\nvalue_pattern = "("', "bad pattern"),
    "sentence without its group": ('kind = "uscc"', 'kind = "uscc"\nsentences = ["码(.*)"]', "value"),
    "one_of names no field": ('title_en = "Sample"', 'title_en = "Sample"\none_of = [["code", "number"]]', "number"),
    "bad placement": ('kind = "uscc"', 'kind = "uscc"\nplacement = "left"', "placement"),
    "not TOML": ('kind = "uscc"', "kind = uscc", "type.toml"),
    "fields are numbers": (SAMPLE_FIELDS, "fields = [1, 2]", "field number 1"),
    "fields are none": (SAMPLE_FIELDS, "fields = []", "'fields' is missing or empty"),
    "field id is a number": ('id = "code"', "id = 3", "field number 1: 'id'"),
    "label is a list": ('label = "代码"', 'label = ["代码"]', "field code: 'label'"),
    "kind is a list": ('kind = "uscc"', 'kind = ["uscc"]', "field code: 'kind'"),
    "aliases is a number": ('kind = "uscc"', 'kind = "uscc"\naliases = 5', "field code: 'aliases' must be a list"),
    "aliases are numbers": ('kind = "uscc"', 'kind = "uscc"\naliases = [1]', "field code: 'aliases' must be a list of texts"),
    "validators is a text": ('kind = "uscc"', 'kind = "uscc"\nvalidators = "uscc"', "field code: 'validators'"),
    "required is a text": ('kind = "uscc"', 'kind = "uscc"\nrequired = "no"', "field code: 'required' must be true or false"),
    "pattern is a number": ('kind = "uscc"', 'kind = "uscc"\nvalue_pattern = 5', "field code: 'value_pattern'"),
    "one_of is a number": ('title_en = "Sample"', 'title_en = "Sample"\none_of = 5', "'one_of' must be a list"),
    "one_of holds a number": ('title_en = "Sample"', 'title_en = "Sample"\none_of = [5]', "'one_of' must be a list"),
    "meta is a number": ('title_en = "Sample"', 'title_en = "Sample"\nmeta = 5', "'meta' must be a table"),
    "version is a list": ('version = "1"', "version = [1]", "'version'"),
    "titles hold a number": ('titles = ["示例证"]', "titles = [1]", "'titles'"),
}


def write_type(folder: Path, text: str) -> Path:
    (folder / "sample_permit").mkdir(parents=True)
    (folder / "sample_permit" / "type.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_user_folder_adds_a_type(tmp_path: Path) -> None:
    registry = load_types([write_type(tmp_path, SAMPLE)])
    assert registry.get("sample_permit").fields["code"].label == "代码"
    assert len(registry) == len(ALL_TYPES) + 1


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_folder_is_refused_by_name(tmp_path: Path, what: str) -> None:
    old, new, named = BROKEN[what]
    assert old in SAMPLE
    with pytest.raises(TemplateError, match=re.escape(named)) as caught:
        load_types([write_type(tmp_path, SAMPLE.replace(old, new))])
    assert str(tmp_path / "sample_permit" / "type.toml") in str(caught.value)
    assert caught.value.code == "template_invalid"


def test_a_prompt_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    (write_type(tmp_path, SAMPLE) / "sample_permit" / "prompt.txt").write_bytes("字段".encode("gb18030"))
    with pytest.raises(TemplateError, match=r"prompt\.txt: not UTF-8"):
        load_types([tmp_path])


def test_a_later_folder_replaces_an_earlier_type(tmp_path: Path) -> None:
    shutil.copytree(BUILTIN / "id_card", tmp_path / "id_card")
    text = (tmp_path / "id_card" / "type.toml").read_text(encoding="utf-8")
    (tmp_path / "id_card" / "type.toml").write_text(text.replace('version = "1"', 'version = "1-ours"'), encoding="utf-8")
    changed = load_types([tmp_path]).get("id_card")
    assert (changed.version, changed.source) == ("1-ours", str(tmp_path))


def test_a_missing_folder_and_an_unknown_type_say_so(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="does not exist"):
        load_types([tmp_path / "nothing"])
    with pytest.raises(UnknownTypeError, match="id_card") as caught:
        load_types().get("passport")
    assert caught.value.code == "unknown_type"


def test_a_range_is_printed_beside_a_field_that_exists(doc_type: DocumentType) -> None:
    for spec in doc_type.fields.values():
        assert spec.range_part in ("start", "end")
        assert spec.range_of is None or spec.range_of in doc_type.fields, f"{doc_type.id}.{spec.id}: range_of"
