"""Whatever is handed in from outside, nothing but typed errors comes out, and what is kept can be written and read again."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.env import (
    Action,
    Args,
    Decision,
    EpisodeConfig,
    Fault,
    Grade,
    Outcome,
    Task,
    Tool,
    run_episode,
    scripted_faults,
)
from certloop.agentrl.errors import CertloopError
from certloop.agentrl.rewards import f1_power_reward, f1_power_rewards
from certloop.agentrl.signals import Origin, Reason, Scope, Signal, Source, from_json, fuse, next_message_signals, to_json
from certloop.agentrl.trajectory import Provenance, dumps, loads, render

LEAF = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5)
ODD = st.sampled_from(["\ud800", "１２", "<blank>", ""])
ANY = st.recursive(
    LEAF | ODD, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3), max_leaves=6
)


@given(ANY, ANY, st.sampled_from(["greedy", "hungarian"]))
def test_any_truth_and_any_answer(truth: Any, answer: Any, method: Any) -> None:
    try:
        one = f1_power_reward(truth, answer, method=method)
    except CertloopError:
        one = None
    try:
        (many,) = f1_power_rewards([truth], [answer], method=method)
    except CertloopError:
        many = None  # type: ignore[assignment]
    assert (one is None) == (many is None)
    if one is not None:
        assert one.reward == many.reward
        assert 0.0 <= one.reward <= 1.0
        json.dumps(one.to_log(), allow_nan=False)


class X(Args):
    x: int = 0


class Odd:
    """Calls a tool first and answers then, with whatever it was given."""

    def __init__(self, tool: Any, args: Any, answer: Any, cost: Any) -> None:
        self.first = Decision("look", Action(tool, args), cost=cost)
        self.second = Decision(answer=answer)

    def decide(self, view: Any) -> Decision:
        return self.second if view.history else self.first


def episode(policy: Odd, result: Any, fault: Fault | None = None) -> Any:
    task = Task("t", "toy", "?", (("x",),), lambda: [Tool("x", X, lambda _: result)], lambda _: Grade(1.0))
    faults = scripted_faults({} if fault is None else {0: fault})
    return run_episode(
        task, policy, EpisodeConfig(Provenance("a")), traj_id="t", created_at="2026-01-01T00:00:00Z", faults=faults
    )


@given(ANY, ANY, ANY, ANY)
def test_any_decision_is_an_episode(tool: Any, args: Any, answer: Any, cost: Any) -> None:
    trajectory = episode(Odd(tool, args, answer, cost), 1).trajectory
    assert loads(dumps(trajectory)).outcome is trajectory.outcome


@given(ANY, st.none() | st.sampled_from(list(Fault)))
def test_any_answer_of_a_tool_is_an_observation(result: Any, fault: Fault | None) -> None:
    trajectory = episode(Odd("x", {}, "1", 0), result, fault).trajectory
    assert trajectory.outcome is Outcome.CLEAN
    assert loads(dumps(trajectory).encode()).path == ("x",)
    render(trajectory)


WORDS = st.text(alphabet='不对错了没有吗？。是名称应为abc no「」"“” \n123年月日', max_size=30)


@given(WORDS, WORDS, st.lists(WORDS, max_size=3))
def test_any_message_makes_signals_that_can_be_stored(message: str, before: str, labels: list[str]) -> None:
    origin = Origin("t", "user", "2026-01-01T00:00:00Z")
    for signal in next_message_signals(origin, message, labels={"a": labels}, previous_request=before):
        assert from_json(json.loads(json.dumps(to_json(signal)))) == signal


INSTANTS = ["2026-01-01T00:00:00Z", "2026-01-01T08:00:00+08:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]


@st.composite
def histories(draw: st.DrawFn) -> list[Signal]:
    """Signals of anybody at any time, some of which replace or take back earlier ones."""
    out: list[Signal] = []
    for _ in range(draw(st.integers(1, 8))):
        scope = draw(st.sampled_from(list(Scope)))
        signal = Signal(
            "t", draw(st.sampled_from(list(Source))), scope, draw(st.floats(-1, 1)), draw(st.floats(0, 1)),
            str(draw(st.sampled_from(list(Reason)))), draw(st.sampled_from("ab")), draw(st.sampled_from(INSTANTS)),
            field=draw(st.sampled_from("xy")) if scope is Scope.FIELD else None, step=1, span=(0, 1),
        )  # fmt: skip
        if out and draw(st.booleans()):
            signal = replace(signal, supersedes=draw(st.sampled_from(out)).signal_id)
        out.append(signal)
    return out


@given(histories(), st.integers())
def test_any_history_folds_to_one_reward_in_whatever_order_and_how_often_it_comes(signals: list[Signal], seed: int) -> None:
    fused, again = fuse(signals), signals * 2
    Random(seed).shuffle(again)
    assert fuse(again) == fused
    for verdict in (fused.trajectory, *fused.fields.values()):
        assert verdict.value is None or -1.0 <= verdict.value <= 1.0
        assert 0.0 <= verdict.confidence <= 1.0
