"""What goes to judges, coaches, shared memory and logs names nobody: patterns of certificates, on fictional people and firms."""

from __future__ import annotations

import json
from datetime import date
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source
from certloop.agentrl.store import redact_json, redact_signal, redact_trajectory
from certloop.agentrl.trajectory import Action, Outcome, Step, ToolResult, Trajectory, dumps, validate
from certloop.extract.redaction import certificate_redactor, private_keys
from certloop.synth.fields.firms import FORMS, make_firm
from certloop.synth.fields.people import make_person
from certloop.templates import load_types

REDACTOR = certificate_redactor()
SENTENCES = (
    "{label}应为{value}，不是别的。",
    "{label}：{value}",
    "把{label}读成“{value}”",
    "{label} 改为 {value}",
    '答案是 {{"{label}": "{value}"}}',
    "重读右上角；{label}一栏是{value}。",
)
KINDS = st.sampled_from(
    ["person", "agent", "firm", "address", "home", "code", "regno", "id", "phone", "birth", "permit", "plate"]
)
LABELS = {
    "person": ("法定代表人", "负责人", "经营者", "签发人", "质量管理人", "日常监督管理人员"),
    "agent": ("受托人", "被授权人", "代理人姓名"),
    "firm": ("名称", "企业名称", "经营者名称", "委托单位", "业户名称"),
    "address": ("住所", "经营场所", "仓库地址", "注册地址"),
    "home": ("住址", "地址"),
    "code": ("统一社会信用代码", "社会信用代码"),
    "regno": ("注册号", "工商注册号"),
    "id": ("公民身份号码", "受托人身份证号", "身份证号码"),
    "phone": ("联系电话", "手机"),
    "birth": ("出生", "出生日期"),
    "permit": ("许可证编号", "许可证号", "编号"),
    "plate": ("车辆号牌",),
}


def fictional(kind: str, rng: Random) -> str:
    firm, person = make_firm(rng, form=rng.choice([f for f in FORMS if f != "individual"])), make_person(rng)
    day: date = person.birth
    values = {
        "person": person.name,
        "agent": person.name,
        "firm": firm.name,
        "address": firm.address,
        "home": person.address,
        "code": firm.credit_code,
        "regno": firm.registration_no,
        "id": person.id_number,
        "phone": f"1{rng.choice('3578')}{rng.randrange(10**9):09d}",
        "birth": rng.choice([f"{day.year}年{day.month}月{day.day}日", day.isoformat(), day.strftime("%Y.%m.%d")]),
        "permit": rng.choice(
            [
                f"JY{rng.randrange(10**14):014d}",
                f"琼AA{rng.randrange(10**9):09d}",
                f"京丰食药监械经营备{20150159 + rng.randrange(99)}号",
            ]
        ),
        "plate": f"津A{rng.randrange(10**5):05d}",
    }
    return values[kind]


@given(kind=KINDS, sentence=st.sampled_from(SENTENCES), seed=st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_a_value_beside_its_label_goes(kind: str, sentence: str, seed: int) -> None:
    rng = Random(seed)
    value = fictional(kind, rng)
    text = sentence.format(label=rng.choice(LABELS[kind]), value=value)
    out = REDACTOR.text(text)
    assert value not in out
    assert "[" in out
    assert REDACTOR.text(out) == out


@given(kind=st.sampled_from(["firm", "address", "home", "code", "regno", "id", "phone", "permit"]), seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_what_shows_what_it_is_goes_without_a_label_too(kind: str, seed: int) -> None:
    value = fictional(kind, Random(seed))
    assert value not in REDACTOR.text(f"第二行是 {value}，读错了。")


@given(st.integers(0, 2**32), st.sampled_from(["“{}”读成了别的", "应为{}。", "{}先生来电", "是{}，", "读作「{}」"]))
@settings(max_examples=200, deadline=None)
def test_a_person_between_marks_or_behind_a_verb_goes(seed: int, sentence: str) -> None:
    name = make_person(Random(seed)).name
    assert name not in REDACTOR.text(sentence.format(name))


@pytest.mark.parametrize(
    "text",
    [
        "号码校验失败：红通道去章，放大三倍重读，再校验",
        "成立日期 2019年3月5日 与登记日期矛盾",
        "经营范围跨行时按标点续读，不在行首截断",
        "食品证右上编号 JY+14 位数字；经营者名称=营业执照名称",
        "上海版式二维码在左下",
        "请看右下角的道路",
        "名称在统一社会信用代码之下",
        "法定代表人一栏被印章盖住，看不清",
        "经营者名称不清楚，放大再读",
        "类型是有限责任公司，注册资本 500 万元",
        "住所跨两行，第二行不是标签",
        "有效期至 2026-06-22",
        "ocr -> 12 lines, 0.98; zoom(field=name)",
        "the name is cut at the right edge",
    ],
)
def test_what_a_coach_says_of_a_layout_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_a_misread_name_does_not_stay_in_parts() -> None:
    trajectory = Trajectory(
        "t", "acme", "business_licence", "2026-03-01T08:00:00Z", Outcome.CLEAN,
        final_json=json.dumps({"名称": "示例市鼎凯餐饮管理有限公司", "法定代表人": "欧阳杰新"}, ensure_ascii=False),
    )  # fmt: skip
    redactor = certificate_redactor(trajectory)
    assert redactor.text("像是鼎凯餐饮管理") == "像是[value]"
    assert redactor.text("第一行 示例市鼎凯餐") == "第一行 [value]"
    assert "杰新" not in redactor.text("“欧阳杰新”写得很小")


def test_a_redacted_trajectory_holds_nothing_of_the_page() -> None:
    """The lines that tools saw name people whom the answer does not."""
    firm, person = make_firm(Random(5)), make_person(Random(6))
    seen = {"changed": True, "lines": [0, 1], "texts": {"0": f"股东 {person.name}", "1": person.id_number}}
    steps = (
        Step(0, "", "read the page", Action("ocr"), ToolResult(True, seen)),
        Step(
            1,
            json.dumps({"ok": True, "result": seen}, ensure_ascii=False),
            f"名称像是{firm.name}",
            Action("validate", {"doc_type": "business_licence", "values": {"name": firm.name}}),
            ToolResult(True, {"failed": [{"field": "credit_code", "rules": ["uscc_check"]}]}),
        ),
    )
    answer = json.dumps({"名称": firm.name, "统一社会信用代码": firm.credit_code}, ensure_ascii=False)
    trajectory = Trajectory(
        "t", "acme", "business_licence", "2026-03-01T08:00:00Z", Outcome.CLEAN, steps=steps, final_json=answer
    )
    copy = validate(redact_trajectory(trajectory, certificate_redactor(trajectory)))
    text = dumps(copy)
    for word in (person.name, person.id_number, firm.name, firm.credit_code):
        assert word not in text
    assert "uscc_check" in text
    assert copy.path == ("ocr", "validate")
    assert json.loads(copy.final_json or "") == {"名称": "[value]", "统一社会信用代码": "[value]"}


def test_an_auditors_edit_names_nobody() -> None:
    signal = Signal(
        traj_id="t", source=Source.AUDITOR, scope=Scope.FIELD, value=-1.0, confidence=1.0, reason=Reason.EDIT, actor="auditor-7",
        at="2026-03-02T08:00:00+00:00", field="法定代表人", hint="法定代表人应为王小明，少了一笔",
        evidence={"old": "王小朋", "new": "王小明"},
    )  # fmt: skip
    copy = redact_signal(signal, REDACTOR)
    assert set(copy.evidence.values()) == {"[value]"}
    assert "王小明" not in (copy.hint or "")


def test_labels_of_a_users_own_types_count(tmp_path) -> None:
    keys = private_keys(load_types(()))
    assert {"名称", "name", "person", "企业名称", "texts", "公民身份号码"} <= keys
    assert not {"类型", "经营范围", "成立日期", "validate", "field"} & keys
    assert redact_json({"name": "任何人", "type": "有限责任公司"}, REDACTOR) == {"name": "[value]", "type": "有限责任公司"}


@given(st.text(alphabet="示例市区县路街号公司有限责任名称应为法定代表人王小明0123-AJ（）“”：，。 年月日", max_size=80))
@settings(max_examples=300, deadline=None)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


def test_long_texts_do_not_hang() -> None:
    for text in (
        "路" * 20_000,
        "市" * 20_000,
        "a1" * 20_000,
        "公" * 20_000,
        "示例市样本区路" * 3000,
        "名称：经" * 5000,
        "王" * 20_000,
    ):
        REDACTOR.text(text)
