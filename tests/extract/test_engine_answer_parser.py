"""Whatever a model writes is read as far as it goes, and marked where it is not what was asked for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.rewards import parse_answer
from certloop.agentrl.trajectory import Outcome
from certloop.extract.engine.answer_parser import Mark, read_answer
from certloop.extract.engine.loops import MIN_RUN, LoopWatch, loop_start, text_loop
from certloop.extract.engine.prompt import answer_json, answer_text

KEYS = st.sampled_from(["名称", "类型", "住所", "法定代表人", "成立日期", 'a"b', ""])
VALUES = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FIELDS = st.dictionaries(KEYS, VALUES, max_size=6)
REASONING = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="{}`<>"), max_size=30)


@pytest.mark.parametrize(
    ("text", "fields", "marks", "outcome"),
    [
        ('先看标题。\n{"名称": "甲", "类型": null}', {"名称": "甲", "类型": None}, set(), Outcome.CLEAN),
        ("{}", {}, set(), Outcome.CLEAN),
        ('<think>想</think>\n{"a": "b"}', {"a": "b"}, set(), Outcome.CLEAN),
        ('想</think>{"a": "b"}', {"a": "b"}, set(), Outcome.CLEAN),
        ('<think>想着 {"a": "b"}', {"a": "b"}, {Mark.UNCLOSED_THINK}, Outcome.CLEAN),
        ('<think>{"a": "b"}</think> 完', {"a": "b"}, {Mark.IN_THOUGHT, Mark.TRAILING}, Outcome.CLEAN),
        ('```json\n{"a": "b"}\n```', {"a": "b"}, {Mark.FENCED}, Outcome.CLEAN),
        ('{"a": "1"} 更正 {"a": "2"}', {"a": "2"}, {Mark.SEVERAL}, Outcome.CLEAN),
        ('{"a": "1"} 更正 {"a": "2', {"a": "1"}, {Mark.TRAILING}, Outcome.CLEAN),
        ('{"a": "1", "a": "2"}', {"a": "2"}, {Mark.DUPLICATE_KEYS}, Outcome.CLEAN),
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}, {Mark.NOT_FINITE}, Outcome.CLEAN),
        ('{"a": 007.50}', {"a": "007.50"}, {Mark.NOT_TEXT, Mark.LENIENT}, Outcome.CLEAN),
        ('{"a": 0.50, "b": true, "c": ["x"]}', {"a": "0.50", "b": "true", "c": '["x"]'}, {Mark.NOT_TEXT}, Outcome.CLEAN),
        ('{"fields": {"a": "b"}}', {"a": "b"}, {Mark.WRAPPED}, Outcome.CLEAN),
        ('{"a": "x" "b": "y",}', {"a": "x", "b": "y"}, {Mark.LENIENT}, Outcome.CLEAN),
        ('{"a"："x"，"b"："y"}', {"a": "x", "b": "y"}, {Mark.LENIENT}, Outcome.CLEAN),
        ('{"a": "一\n二"}', {"a": "一\n二"}, {Mark.LENIENT}, Outcome.CLEAN),
        ('{"a": "b"} 完毕', {"a": "b"}, {Mark.TRAILING}, Outcome.CLEAN),
        ('{"a": "x", "b": "很长', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x", "b', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x", "b": 12', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x", "b": nu', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x", "b": tr', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x", "b": -Inf', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x", "b": ', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x", "b": nix}', {"a": "x"}, {Mark.BROKEN}, Outcome.MALFORMED),
        ('{"a": "x", "b": "\\u4e', {"a": "x"}, {Mark.CUT}, Outcome.TRUNCATED),
        ('{"a": "x, "b": "y"}', {}, {Mark.BROKEN}, Outcome.MALFORMED),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}, {Mark.NOT_TEXT}, Outcome.CLEAN),
        ("没有答案", {}, {Mark.NO_JSON}, Outcome.MALFORMED),
        ("", {}, {Mark.NO_JSON}, Outcome.MALFORMED),
    ],
)  # fmt: skip
def test_faults_are_read_and_marked(text: str, fields: dict[str, str | None], marks: set[Mark], outcome: Outcome) -> None:
    answer = read_answer(text)
    assert answer.fields == fields
    assert answer.marks == marks
    assert answer.outcome is outcome
    assert answer.strict == (not marks)


def test_the_thought_is_what_stands_before_the_object() -> None:
    assert read_answer('<think>先看</think>再看。\n```json\n{"a": "b"}\n```').thought == "先看再看。"
    assert read_answer("只有想法").thought == "只有想法"


@given(FIELDS, REASONING)
def test_an_answer_as_asked_for_is_read_strictly_and_exactly(fields: dict[str, str | None], reasoning: str) -> None:
    text = answer_text(fields, reasoning)
    answer = read_answer(text)
    assert answer.strict
    assert answer.fields == fields
    assert answer.thought == reasoning.strip()
    assert answer.json_text == answer_json(fields) == text[answer.span[0] : answer.span[1]]
    for key, (start, end) in answer.value_spans.items():
        assert json.loads(text[start:end]) == fields[key]


@given(FIELDS, REASONING, st.data())
def test_of_a_cut_answer_whole_values_are_saved_and_nothing_else(
    fields: dict[str, str | None], reasoning: str, data: st.DataObject
) -> None:
    text = answer_text(fields, reasoning)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    answer = read_answer(cut)
    assert not answer.complete
    assert set(answer.fields.items()) <= set(fields.items())
    assert answer.outcome in (Outcome.TRUNCATED, Outcome.MALFORMED)


@given(st.text(st.sampled_from('{}[]":,，：\\nul tfNaI0-1.甲乙\n`<think>/'), max_size=200))
def test_no_text_is_too_odd_to_read(text: str) -> None:
    answer = read_answer(text)
    assert all(isinstance(value, str | None) for value in answer.fields.values())
    strict = parse_answer(text)
    if strict is not None and strict.strict and strict.fields:
        assert answer.fields == strict.fields, "what the reward's strict parser takes is read alike"


@given(st.text(max_size=300))
def test_any_unicode_text_is_read(text: str) -> None:
    answer = read_answer(text)
    json.dumps(answer.fields).encode()
    answer.thought.encode()


@pytest.mark.parametrize("piece", ['{"a":', '{"', '{"a":[', "```", "<think>", '{"a":"b"}', '{"a":{"a":'])
def test_bombs_of_one_piece_are_read_too(piece: str) -> None:
    assert len(read_answer(piece * 50_000).fields) <= 1


def test_loops_are_marked_where_masks_and_fillers_are_not() -> None:
    looped = read_answer('{"名称": "甲", "经营范围": "' + "建材销售；" * 40)
    assert looped.fields == {"名称": "甲"}
    assert looped.marks == {Mark.CUT, Mark.LOOP}
    masked = read_answer('{"公民身份号码": "' + "*" * 18 + '", "备注": "' + "—" * 40 + '"}')
    assert masked.strict


def test_a_loop_is_found_while_it_grows_and_afterwards_at_the_same_place() -> None:
    items = [1, 2, 3, *([7, 8, 9] * 60)]
    watch = LoopWatch()
    stopped = next(n for n, item in enumerate(items) if watch.push(item))
    assert stopped == 3 + 3 + MIN_RUN - 1, "the run counts from the second period on"
    assert loop_start(items) == 6
    assert loop_start(items[:stopped]) is None
    assert text_loop("甲乙丙丁" * 5) is None


@given(st.lists(st.integers(0, 3), max_size=200))
def test_both_ways_of_finding_loops_agree(items: list[int]) -> None:
    watch = LoopWatch()
    grown = any(watch.push(item) for item in items)
    assert grown == (loop_start(items) is not None)
