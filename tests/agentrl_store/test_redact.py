"""What leaves the tenant holds no number, phone, mail address, street address or known name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.signals.schema import Reason, Scope, Signal
from certloop.agentrl.store import Pattern, PatternRedactor, own_redactor, redact_json, redact_signal, redact_trajectory
from certloop.agentrl.trajectory import Action, Redaction, Step, ToolResult, Trajectory, dumps, validate

REDACTOR = PatternRedactor(names=["张样本", "示例市样本贸易有限公司", "Li Yang"])


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("身份证 11010519491231002X。", "身份证 [number]。"),
        ("１１０１０５１９４９１２３１００２Ｘ", "[number]"),  # full-width digits
        ("110105 19491231 002X", "[number]"),
        ("统一社会信用代码91350100M000100Y43有误", "统一社会信用代码[number]有误"),
        ("JY11108071215650", "[number]"),
        ("粤穗食药监械经营许20171161号", "粤穗食药监械经营许[number]号"),
        ("津交运管许可德字120128300595号", "津交运管许可德字[number]号"),
        ("核准号 J2900123456789, 注册号 110108000000016", "核准号 [number], 注册号 [number]"),
        ("电话13812345678或+86 138-1234-5678", "电话[phone]或[phone]"),
        ("010-62345678转801", "[phone]"),
        ("(0755)26001234", "[phone]"),
        ("请联系 a.b+c@example.com.cn 谢谢", "请联系 [email] 谢谢"),
        ("住所：示例市样本区样本路12号3层301室", "住所：[address]"),
        ("法定代表人张样本", "法定代表人[name]"),
        ("张 样 本", "[name]"),
        ("Li Yang 说", "[name] 说"),
        ("示例市样本贸易有限公司（张样本）", "[name]（[name]）"),
        ("6222 0202 0000 1234 567", "[number]"),
    ],
)
def test_personal_data_goes(text: str, redacted: str) -> None:
    assert REDACTOR.text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "第18位校验不通过，放大重读该号码",
        "成立日期 2019-03-05，至 2039.3.4",
        "2019年3月5日",
        "ocr(page=0) -> 12 lines, 0.98",
        "注册资本 500 万元",
        "",
        "请看右下角的道路",
    ],
)
def test_what_a_judge_needs_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_a_number_beside_a_date_goes_and_the_date_stays() -> None:
    assert REDACTOR.text("2019-03-05 110105194912310021") == "2019-03-05 [number]"


def test_callers_bring_their_own_patterns_and_fields() -> None:
    mine = PatternRedactor(patterns=[Pattern("firm", re.compile(r"\w+商行"))], fields=["owner"])
    assert mine.text("样本商行开业") == "[firm]开业"
    assert redact_json({"owner": ["任何", 1], "part": "A-17", "absent": None}, mine) == {
        "owner": "[value]", "part": "A-17", "absent": None,
    }  # fmt: skip


def test_json_keeps_its_shape() -> None:
    value = {"a": ["13812345678", 13812345678, 7, 0.5, True, None], "b": '{"phone": "13812345678", "n": 3}'}
    assert redact_json(value, REDACTOR) == {
        "a": ["[phone]", "[phone]", 7, 0.5, True, None],
        "b": '{"phone": "[phone]", "n": 3}',
    }


@given(st.text(alphabet=st.sampled_from("张样本 ab0123456789-号路市区省XＸ１２[]number.年@"), max_size=60))
def test_redacting_twice_changes_nothing_more_and_no_long_number_stays(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once
    assert "张样本" not in once
    assert not re.search(r"[0-9]{9,}", once)


def test_long_input_does_not_hang() -> None:
    for text in ("路" * 20_000, "市" * 20_000, "a1" * 20_000, "1 " * 20_000, "2019-03-05 " * 2_000, "a@" * 10_000):
        REDACTOR.text(text)


def test_a_redacted_trajectory_is_valid_and_holds_none_of_its_values(make_trajectory: Callable[..., Trajectory]) -> None:
    steps = (
        Step(
            0,
            "读到 张样本 91350100M000100Y43",
            "像是张样本",
            Action("zoom", {"text": "张样本"}),
            ToolResult(True, ["张样本"]),
            9,
            22,
        ),
        Step(1, "", "答", None, None, 22, 31, reflection="张样本没错"),
    )
    trajectory = make_trajectory(steps=steps, image_sha256=("0" * 64,), outcome_reason="张样本 left")
    copy = validate(redact_trajectory(trajectory, own_redactor(trajectory)))
    assert copy.redaction is Redaction.REDACTED
    assert "张样本" not in dumps(copy)
    assert "A-17" not in dumps(copy)
    assert "91350100M000100Y43" not in dumps(copy)
    assert json.loads(copy.final_json or "") == {"owner": "[value]", "part": "[value]"}
    assert (copy.token_ids, copy.image_sha256, copy.path) == ((), (), ("zoom",))


def test_a_redacted_signal_keeps_its_verdict(make_signal: Callable[..., Signal]) -> None:
    evidence = {"old": "张", "new": "张样本", "hint_with_answer": "应读作张样本"}
    signal = make_signal(
        value=-1.0, scope=Scope.FIELD, field="owner", reason=Reason.EDIT, hint="应为张样本，电话13812345678", evidence=evidence
    )
    copy = redact_signal(signal, PatternRedactor(names=["张样本"], fields=["owner"]))
    assert (copy.value, copy.field, copy.reason) == (-1.0, "owner", Reason.EDIT)
    assert copy.hint == "应为[name]，电话[phone]"
    assert set(copy.evidence.values()) == {"[value]"}
