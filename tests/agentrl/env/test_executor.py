"""Whatever is asked of a tool, and whatever the tool does, is a result with a stable error kind."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.env import (
    Action,
    Args,
    EnvironmentFault,
    Executor,
    Fault,
    Tool,
    ToolFailure,
    alter,
    random_faults,
    scripted_faults,
)


class Crop(Args):
    box: tuple[int, int]
    note: str = ""


def tool(answer: Any, **options: Any) -> Tool:
    def run(args: Crop) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Tool("crop", Crop, run, **options)


def call(answer: Any, args: Any = None, **options: Any) -> Any:
    return Executor([tool(answer)], clock=lambda: 0.0, **options).execute(
        Action("crop", {"box": [1, 2]} if args is None else args)
    )


@pytest.mark.parametrize(
    "args",
    [{}, {"box": [1]}, {"box": ["1", "2"]}, {"box": [1, 2], "x": 1}, {"box": None}, {"box": {1, 2}},
     {"box": [1, 10**5000]}, {"box": [1, 2], "note": MappingProxyType({})}, {"box": [1, 2], "note": "\ud800"}, {"\ud800": 1}],
)  # fmt: skip
def test_arguments_are_checked_before_the_tool_runs(args: Any) -> None:
    result = call(AssertionError("must not run"), args)
    assert (result.ok, result.error_kind) == (False, "bad_args")


def test_bad_arguments_are_named_without_their_values() -> None:
    result = call({}, {"box": [1, "13800000000"]})
    assert result.payload == {"wrong": [{"argument": "box.1", "problem": "int_type"}]}


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    result = Executor([tool({})]).execute(Action("rotate"))
    assert (result.error_kind, result.payload) == ("unknown_tool", {"known": ["crop"]})


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ToolFailure("not_found"), "not_found"),
        (TimeoutError(), "timeout"),
        (ZeroDivisionError("13800000000"), "crashed"),
        (object(), "malformed"),
        (float("nan"), "malformed"),
        ({1: 2}, "malformed"),
        ([10**5000], "malformed"),  # JSON that Python does not write
        (MappingProxyType({}), "malformed"),
        ({"a": [MappingProxyType({})]}, "malformed"),
    ],
)
def test_what_a_tool_does_wrong(answer: Any, kind: str) -> None:
    result = call(answer)
    assert (result.ok, result.error_kind) == (False, kind)
    assert "13800000000" not in str(result)


def test_an_answer_that_refers_to_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert call(loop).error_kind == "malformed"


def test_a_call_that_took_too_long_is_a_timeout() -> None:
    ticks = iter([0.0, 31.0])
    result = Executor([tool({})], clock=lambda: next(ticks)).execute(Action("crop", {"box": [1, 2]}))
    assert (result.error_kind, result.latency_ms) == ("timeout", 31_000)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(EnvironmentFault):
        Executor([tool({}), tool({})])


def test_faults_by_script_and_what_they_look_like() -> None:
    executor = Executor([tool({"n": 5})], faults=scripted_faults({1: Fault.TIMEOUT, 2: Fault.CHANGED}), clock=lambda: 0.0)
    first, second, third = (executor.execute(Action("crop", {"box": [1, 2]})) for _ in range(3))
    assert (first.ok, first.payload) == (True, {"n": 5})
    assert (second.error_kind, second.latency_ms) == ("timeout", 30_000)
    assert third.ok
    assert third.payload != {"n": 5}
    assert executor.injected == [(1, Fault.TIMEOUT), (2, Fault.CHANGED)]


def test_random_faults_keep_their_rates_and_their_seed() -> None:
    source = random_faults({Fault.TIMEOUT: 0.2, Fault.CHANGED: 0.1}, 5, tools=frozenset({"crop"}))
    fates = [source(i, "crop") for i in range(2000)]
    assert fates == [source(i, "crop") for i in range(2000)]
    assert 340 < fates.count(Fault.TIMEOUT) < 460
    assert 140 < fates.count(Fault.CHANGED) < 260
    assert source(fates.index(Fault.TIMEOUT), "other") is None
    with pytest.raises(EnvironmentFault):
        random_faults({Fault.TIMEOUT: 0.8, Fault.CHANGED: 0.3}, 1)


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.recursive(LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=3), max_leaves=6), st.integers()
)
def test_an_altered_answer_always_differs(payload: Any, seed: int) -> None:
    assert alter(payload, seed) != payload
