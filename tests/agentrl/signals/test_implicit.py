"""The next message as feedback, in Chinese and English, by the documented rules (METHODS §5)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.signals import (
    HintVote,
    Origin,
    Reason,
    Scope,
    Source,
    between_markers,
    choose_hint,
    classify_message,
    classify_tool_result,
    field_named,
    next_message_signals,
    review_signals,
    with_hint,
    without_answer,
)
from certloop.agentrl.trajectory import Outcome, Role, ToolResult, Trajectory, Turn, build_tokens

ORIGIN = Origin("t", "user", "2026-01-02T03:04:05+00:00")


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("谢谢，搞定了", 1), ("不对，有效期应为2035-05-31", -1), ("你应该先查二维码", -1),  # the pins of METHODS §5
        ("没问题，可以了", 1), ("不错", 1), ("完全正确", 1), ("收到，谢谢", 1), ("没错，就是这个", 1),
        ("谢谢，但是法人写错了", -1), ("这不是我要的", -1), ("再识别一次", -1), ("重新读一下", -1), ("可以帮我重新读一下吗", -1),
        ("地址漏了一个字", -1), ("把名称改成全称", -1), ("不用改了，谢谢", 1), ("请帮我看下一张", 0),
        ("这是对的吗？", 0), ("对不对？", 0),
        ("注册资本是多少", 0), ("Thanks, perfect!", 1), ("no problem, thanks", 1), ("It works again, thank you", 1),
        ("Looks good.", 1),
        ("No, the date should be 2035-05-31.", -1), ("No.", -1), ("Try again", -1), ("that is not what I asked", -1),
        ("You should check the QR code first", -1), ("please fix the address", -1), ("the name is missing", -1),
        ("nothing wrong, great", 1),
        ("What is the address?", 0), ("here is another one", 0), ("I know the answer now", 0),
        # A denied praise is no praise, and a denied complaint no complaint.
        ("不正确", -1), ("并不正确", -1), ("不满意", -1), ("不太准确", -1), ("isn't correct", -1), ("That wasn't right", -1),
        ("not accurate", -1), ("没有错误", 1), ("完全没有错误，谢谢", 1), ("没有读错，很好", 1), ("没有漏，可以了", 1),
        ("没有问题吧？", 0), ("请问是否正确", 0), ("有问题再联系，谢谢", 1), ("有问题吗？", 0), ("识别成功，谢谢", 1),
        # How people complain of a reading.
        ("地址不完整", -1), ("日期不一致", -1), ("名称跟原件不符", -1), ("与原件有出入", -1), ("名称少一个字", -1),
        ("号码差一位", -1), ("这里有问题", -1), ("没有读出经营范围", -1), ("第二行没读", -1), ("你看错行了", -1),
        ("把O看成0了", -1), ("日期反了", -1), ("这个不是法人", -1), ("请再核对", -1), ("there is a typo in the name", -1),
        ("the address is incomplete", -1), ("mismatch", -1),
        # How people are content in one word.
        ("好", 1), ("OK", 1), ("可以。", 1), ("对的！", 1), ("非常准确", 1), ("yes", 1), ("That's right.", 1),
        ("好，请读下一份", 0),
    ],
)  # fmt: skip
def test_what_a_message_says(message: str, value: int) -> None:
    found = classify_message(message)
    assert found is not None
    assert found.value == value


@pytest.mark.parametrize("message", ["", " ", "\n\u3000"])
def test_an_empty_next_state_gives_no_sample(message: str) -> None:
    assert classify_message(message) is None
    assert next_message_signals(ORIGIN, message) == []


def test_a_rephrased_request_is_negative() -> None:
    first = "请识别这张营业执照的经营范围"
    assert classify_message("请识别这一张营业执照上的经营范围", previous_request=first).value == -1.0  # type: ignore[union-attr]
    assert classify_message("请看另一份合同", previous_request=first).value == 0.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("不对，有效期应为2035-05-31", "有效期应为2035-05-31"),
        ("你应该先查二维码", "你应该先查二维码"),
        ("No, you should check the QR code first.", "you should check the QR code first"),
        ("错了！请看第二行。号码漏了一位", "号码漏了一位"),
        ("不对", None),
        ("谢谢，搞定了", None),
    ],
)
def test_a_correction_is_kept_as_hint(message: str, hint: str | None) -> None:
    found = classify_message(message)
    assert found is not None
    assert found.hint == hint


@pytest.mark.parametrize(
    ("hint", "safe"),
    [
        ("有效期应为2035-05-31", "有效期应为…"),
        ("有效期至 2035年5月31日，在第二行", "有效期至 …，在第二行"),
        ("法定代表人改成张三", "法定代表人改成…"),
        ("字段「注册号」第18位不对", "字段…第18位不对"),
        ("号码是914403001922038216，放大重读", "号码是…，放大重读"),
        ("the date should be 31 May 2035, second line", "the date should be …, second line"),
        ("先查二维码", "先查二维码"),
    ],
)
def test_a_hint_can_be_freed_of_the_answer(hint: str, safe: str) -> None:
    assert without_answer(hint) == safe


def test_a_tools_answer_is_judged_by_its_role() -> None:
    assert classify_tool_result(ToolResult(True, {"text": "错误"})).value == 1.0
    assert classify_tool_result(ToolResult(False, error_kind="bad_args")).value == -1.0
    assert classify_tool_result(ToolResult(False, error_kind="timeout")).value == 0.0


def answered(answer: dict[str, str]) -> Trajectory:
    text = json.dumps(answer, ensure_ascii=False)
    tokens = build_tokens([Turn(Role.USER, (1,)), Turn(Role.ASSISTANT, tuple(map(ord, text)), (-1.0,) * len(text))])
    return Trajectory(
        "t", "a", "toy", "2026-01-01T00:00:00Z", Outcome.CLEAN, final_json=text, token_ids=tokens.token_ids,
        logprobs=tokens.logprobs, loss_mask=tokens.loss_mask, segments=tokens.segments,
        token_offsets=tuple((i, i + 1) for i in range(len(text))),
    )  # fmt: skip


def test_a_correction_reaches_the_tokens_of_the_field_it_names() -> None:
    trajectory = answered({"name": "甲", "until": "2035-05-13"})
    labels = {"name": ["名称"], "until": ["有效期", "有效期至"]}
    whole, field = next_message_signals(ORIGIN, "不对，有效期应为2035-05-31", labels=labels, trajectory=trajectory)
    assert (whole.scope, whole.value, whole.source, whole.reason) == (
        Scope.TRAJECTORY,
        -1.0,
        Source.IMPLICIT,
        Reason.NEXT_MESSAGE,
    )
    assert (field.scope, field.field, field.hint) == (Scope.FIELD, "until", "有效期应为…")
    assert field.evidence["hint_with_answer"] == "有效期应为2035-05-31"
    assert field.span is not None
    assert "".join(map(chr, trajectory.token_ids[slice(*field.span)])) == '"2035-05-13"'


def test_praise_names_no_field() -> None:
    (only,) = next_message_signals(ORIGIN, "名称正确，谢谢", labels={"name": ["名称"]})
    assert (only.scope, only.value, only.hint) == (Scope.TRAJECTORY, 1.0, None)


def test_the_longest_label_names_the_field() -> None:
    labels = {"name": ["名称"], "company": ["企业名称"], "date": ["Expiry date"]}
    assert field_named("企业名称不对", labels) == "company"
    assert field_named("the expiry DATE is wrong", labels) == "date"
    assert field_named("不对", labels) is None


def test_hints_between_markers() -> None:
    assert between_markers("x [HINT_START] one [HINT_END] [HINT_START]\n two\n[HINT_END]") == "two"
    assert between_markers("[HINT_START]  [HINT_END]") is None
    assert between_markers("[HINT_END] one [HINT_START]") is None


def test_the_longest_hint_of_a_positive_vote_is_kept() -> None:
    long, longer = "check the second line", "check the QR code before the number"
    assert choose_hint([HintVote(1, long), HintVote(1, longer), HintVote(-1, longer * 2)]) == longer
    assert choose_hint([HintVote(1, "ten chars!"), HintVote(-1, long)]) is None  # not more than ten
    assert choose_hint([HintVote(1, "ten chars!!")]) == "ten chars!!"
    assert choose_hint([]) is None


def test_the_hint_goes_behind_the_last_user_message() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    hinted = with_hint(messages, "look")
    assert [m["content"] for m in hinted] == ["a", "b", "c\n\n[user's hint / instruction]\nlook"]
    assert messages[2]["content"] == "c"
    with pytest.raises(ValueError, match="no user message"):
        with_hint([{"role": "system", "content": "x"}], "look")


@given(st.text(), st.text())
def test_no_message_breaks_the_rules(message: str, request: str) -> None:
    found = classify_message(message, previous_request=request)
    assert found is None or found.value in (-1.0, 0.0, 1.0)
    without_answer(message)


LONG = 1 << 20


@pytest.mark.parametrize("unit", ["「", "“", "『", "应为", "2020年", "not ", "no ", "? ", "错了。not "])
def test_a_megabyte_of_a_message_is_judged_in_no_time(unit: str) -> None:
    """A pattern that looks for its end anew from every place takes hours here."""
    text = unit * (LONG // len(unit))
    assert len(without_answer(text)) <= LONG
    assert classify_message("错了。" + text) is not None


def test_quotes_are_taken_out_whatever_stands_in_them() -> None:
    assert without_answer("写的是「甲「乙」，不是“丙”或『丁』") == "写的是…，不是…或…"
    assert without_answer('写的是"甲" 和 "乙') == '写的是… 和 "乙'


def test_markers_without_end_are_read_in_no_time() -> None:
    assert between_markers("[HINT_START]" * (LONG // 12)) is None
    assert between_markers("[HINT_START]" * (LONG // 12) + "look[HINT_END]").endswith("look")  # type: ignore[union-attr]
    assert between_markers("a [HINT_START] one [HINT_START] two [HINT_END]") == "one [HINT_START] two"


def test_a_correction_of_an_answer_that_is_no_json_is_kept() -> None:
    trajectory = replace(answered({}), final_json="名称是甲", token_offsets=((0, 2), (2, 4)))
    whole, field = next_message_signals(ORIGIN, "名称不对，应为乙", labels={"name": ["名称"]}, trajectory=trajectory)
    assert (whole.value, field.field, field.span) == (-1.0, "name", None)
    (edit, approval) = review_signals(ORIGIN, {"name": "甲"}, {"name": "乙"}, trajectory=trajectory)
    assert (edit.field, edit.span, approval.value) == ("name", None, 0.0)
