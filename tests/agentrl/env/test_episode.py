"""The ReAct loop on the parts desk: whatever goes wrong, an episode ends with a valid trajectory and an outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.env import (
    Action,
    Decision,
    EnvironmentFault,
    EpisodeConfig,
    Fault,
    Grade,
    Limits,
    Outcome,
    Sampled,
    Tool,
    parse_decision,
    random_faults,
    run_episode,
    run_group,
    scripted_faults,
)
from certloop.agentrl.rewards import group_advantages
from certloop.agentrl.trajectory import Provenance, Role, Sampling, dumps, field_token_span, loads, validate
from tests.agentrl.desk import GOLDEN, Clerk, Lookup, Script, TokenClerk, parts_task, parts_tasks

CONFIG = EpisodeConfig(Provenance("tenant", policy_version="p1"), sampling=Sampling(1.0, 1.0))
RIGHT = '{"metres": 2.54}'


def run(policy: Any, **options: Any) -> Any:
    config = options.pop("config", CONFIG)
    task = options.pop("task", parts_task())
    return run_episode(task, policy, config, traj_id="t", created_at="2026-01-01T00:00:00Z", clock=lambda: 0.0, **options)


def test_observe_think_act_observe() -> None:
    episode = run(Clerk())
    t = episode.trajectory
    assert t.outcome is Outcome.CLEAN
    assert t.path == ("lookup", "convert")
    assert t.final_json == RIGHT
    assert [s.observation for s in t.steps] == [
        "the desk is open", '{"ok": true, "result": {"inches": 100}}', '{"ok": true, "result": {"metres": 2.54}}',
    ]  # fmt: skip
    assert t.steps[0].thought == "I need lookup"
    assert t.doc_type == "parts_desk"
    assert t.policy_version == "p1"
    reward = episode.reward
    assert (reward.reward, reward.quality, reward.path, reward.efficiency, reward.form) == (1.0, 1.0, 1.0, 1.0, 1.0)


def test_either_golden_path_is_right() -> None:
    longer = Script([
        Decision(action=Action("lookup", {"article": "B7"})),
        Decision(action=Action("convert", {"inches": 100.0})),
        Decision(action=Action("round_off", {"number": 2.54})),
        Decision(answer=RIGHT),
    ])  # fmt: skip
    episode = run(longer)
    assert episode.path == GOLDEN[0]
    assert episode.reward.reward == 1.0


def test_a_guess_on_no_path_is_gated_by_quality() -> None:
    right, wrong = run(Script([Decision(answer=RIGHT)])).reward, run(Script([Decision(answer='{"metres": 1}')])).reward
    assert right.path == pytest.approx(1 / 3)  # only "emit" of lookup, convert, emit
    assert right.reward == pytest.approx(0.4 + 0.3 / 3 + 0.2 + 0.1)
    assert wrong.reward == pytest.approx(0.1)  # the mix would be 0.40; a wrong answer earns at most 0.1


@pytest.mark.parametrize(
    ("decisions", "outcome", "reason"),
    [
        ([Decision(answer=RIGHT)], Outcome.CLEAN, None),
        ([Decision(answer="about two metres")], Outcome.MALFORMED, "answer"),
        ([Decision("hm")], Outcome.MALFORMED, "decision"),
        ([Decision(action=Action("lookup"), answer=RIGHT)], Outcome.MALFORMED, "decision"),
        ([Decision(action=Action("lookup", {"article": float("nan")}))], Outcome.MALFORMED, "decision"),
        ([Decision(refused=True)], Outcome.REFUSED, None),
        ([ValueError("secret 110105491231002")], Outcome.FAILED, "policy:ValueError"),
        (["not a decision"], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(thought=5)], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(answer=5)], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(action="lookup")], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(action=Action("lookup", {"article": "B7"}), cost=-1)], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(action=Action("lookup", {"article": 10**5000}))], Outcome.MALFORMED, "decision"),
        ([Decision(answer=RIGHT, sampled=Sampled((), (10**5000,), (-1.0,)))], Outcome.FAILED, "policy:trajectory_invalid"),
        ([Decision(action=Action(7))], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(answer=RIGHT, sampled=7)], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(answer=RIGHT, sampled=Sampled((), None, None))], Outcome.FAILED, "policy:not_a_decision"),
        ([Decision(answer=RIGHT, sampled=Sampled((), ("a",), (-1.0,)))], Outcome.FAILED, "policy:trajectory_invalid"),
        ([Decision(answer=RIGHT, sampled=Sampled((), (1,), ("x",)))], Outcome.FAILED, "policy:tokens"),
        ([Decision(action=Action("", {}))], Outcome.MALFORMED, "decision"),
        ([Decision(action=Action("lookup", {"article": "B7"}))] * 3, Outcome.TRUNCATED, "steps"),
        ([Decision(answer=RIGHT, cost=101)], Outcome.TRUNCATED, "tokens"),
        ([Decision(answer=RIGHT, cost=100)], Outcome.CLEAN, None),
    ],
)
def test_every_end_has_an_outcome(decisions: list[Any], outcome: Outcome, reason: str | None) -> None:
    config = replace(CONFIG, limits=Limits(steps=3, tokens=100))
    episode = run(Script(decisions), config=config)
    validate(episode.trajectory)
    assert episode.trajectory.outcome is outcome
    assert episode.trajectory.outcome_reason == reason
    assert "secret" not in str(episode.trajectory)
    if outcome is Outcome.FAILED:
        assert episode.reward is None  # it says nothing about the policy
    elif outcome is not Outcome.CLEAN:
        assert episode.reward.reward == 0.0


def test_grading_that_breaks_is_an_outcome() -> None:
    def broken(_: str) -> Grade:
        raise KeyError

    def excessive(_: str) -> Grade:
        return Grade(1.5)

    for grade, reason in ((broken, "grade:KeyError"), (excessive, "grade:ValueError")):
        episode = run(Clerk(), task=replace(parts_task(), grade=grade))
        assert (episode.trajectory.outcome, episode.trajectory.outcome_reason) == (Outcome.FAILED, reason)


def test_the_policy_sees_budgets_tools_and_guidance_but_no_truth() -> None:
    script = Script([Decision(action=Action("lookup", {"article": "B7"}), cost=30), Decision(answer=RIGHT)])
    run(script, config=replace(CONFIG, limits=Limits(5, 100), guidance="look twice"))
    first, second = script.seen
    assert (first.steps_left, first.tokens_left, second.steps_left, second.tokens_left) == (5, 100, 4, 70)
    assert first.guidance == "look twice"
    assert [(tool["name"], tool["kind"]) for tool in first.tools] == [
        ("lookup", "retrieval"), ("convert", "tool"), ("round_off", "skill"),
    ]  # fmt: skip
    assert first.tools[0]["parameters"]["required"] == ["article"]
    assert not {"golden_paths", "grade", "truth", "faults"} & set(dir(first))


def test_injected_faults_can_be_lived_with_and_cost_no_path() -> None:
    for fault in (Fault.TIMEOUT, Fault.RATE_LIMIT, Fault.MALFORMED):
        episode = run(Clerk(), faults=scripted_faults({0: fault}))
        assert episode.trajectory.path == ("lookup", "lookup", "convert")
        assert episode.path == ("lookup", "convert", "emit")
        assert episode.faults == ((0, fault),)
        assert episode.trajectory.steps[0].tool_result.error_kind == fault.value
        assert episode.reward.reward == 1.0


def test_a_changed_answer_looks_fine_and_is_not() -> None:
    episode = run(Clerk(), faults=scripted_faults({0: Fault.CHANGED}))
    assert episode.trajectory.outcome is Outcome.CLEAN
    assert episode.trajectory.steps[0].tool_result.ok
    assert episode.reward.quality == 0.0
    assert episode.reward.reward == pytest.approx(0.1)


def test_a_policy_may_give_up() -> None:
    episode = run(Clerk(), faults=random_faults({Fault.TIMEOUT: 1.0}, 1))
    assert episode.trajectory.outcome is Outcome.REFUSED
    assert episode.trajectory.path == ("lookup",) * 3


@given(st.integers(0, 10_000))
def test_any_weather_gives_data(seed: int) -> None:
    faults = random_faults(dict.fromkeys(Fault, 0.2), seed)
    task = next(parts_tasks(seed))
    first, again = (run(Clerk(article=task.task_id[6:]), task=task, faults=faults) for _ in range(2))
    assert first == again  # the same seed is the same episode
    assert first.trajectory.outcome in (Outcome.CLEAN, Outcome.REFUSED)
    assert 0.0 <= first.reward.reward <= 1.0


def test_tokens_are_kept_as_sampled_and_only_decisions_are_trained() -> None:
    t = run(TokenClerk()).trajectory
    roles = [s.role for s in t.segments]
    assert roles == [
        Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.OBSERVATION, Role.ASSISTANT, Role.OBSERVATION, Role.ASSISTANT,
    ]  # fmt: skip
    trained = "".join(chr(token) for token, bit in zip(t.token_ids, t.loss_mask, strict=True) if bit)
    assert trained.startswith("I need lookup|")
    assert 'inches": 100}' not in trained
    first = t.steps[0]
    assert "".join(map(chr, t.token_ids[first.tok_start : first.tok_end])).startswith("I need lookup|")
    span = field_token_span(t, "metres")
    assert span is not None
    assert "".join(map(chr, t.token_ids[slice(*span)])) == "2.54"


def test_tokens_that_make_no_sense_end_the_episode_as_failed() -> None:
    episode = run(TokenClerk(logprob=lambda i: float("nan")))
    assert (episode.trajectory.outcome, episode.trajectory.outcome_reason) == (Outcome.FAILED, "policy:logprob_invalid")
    assert episode.trajectory.token_ids == ()
    assert episode.reward is None
    short = Sampled((), (1, 2), (-0.5,))
    assert run(Script([Decision(answer=RIGHT, sampled=short)])).trajectory.outcome_reason == "policy:token_lengths"


def test_a_group_becomes_advantages() -> None:
    group = run_group(
        parts_task(), Clerk(), CONFIG, 4, group_id="g", created_at="2026-01-01T00:00:00Z",
        faults=lambda i: scripted_faults({0: Fault.CHANGED} if i == 0 else {}),
    )  # fmt: skip
    assert {e.trajectory.group_id for e in group} == {"g"}
    assert len({e.trajectory.traj_id for e in group}) == 4
    advantages = group_advantages([e.reward.reward for e in group if e.reward is not None])
    assert advantages == pytest.approx([-1.7320508, 0.5773503, 0.5773503, 0.5773503])


def test_the_same_seed_makes_the_same_tasks() -> None:
    assert [t.task_id for t in islice(parts_tasks(3), 5)] == [t.task_id for t in islice(parts_tasks(3), 5)]


def test_tasks_and_limits_that_make_no_sense() -> None:
    with pytest.raises(EnvironmentFault):
        replace(parts_task(), golden_paths=())
    with pytest.raises(EnvironmentFault):
        Limits(steps=0)


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ('{"thought": "t", "tool": "zoom", "args": {"x": 1}}', Decision("t", Action("zoom", {"x": 1}))),
        ('{"answer": {"a": "值"}}', Decision(answer='{"a": "值"}')),
        ('{"answer": "plain"}', Decision(answer="plain")),
        ('{"refuse": true}', Decision(refused=True)),
        ("no json", Decision()),
        ("[1]", Decision()),
        ('{"thought": 3, "tool": "x"}', Decision()),
        ('{"thought": "t", "tool": "x", "args": []}', Decision("t")),
        ("[" * 100_000, Decision()),
    ],
)
def test_text_becomes_a_decision(text: str, decision: Decision) -> None:
    assert parse_decision(text) == decision


@given(st.text() | st.dictionaries(st.text(), st.text()).map(json.dumps))
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_decision(text)


@pytest.mark.parametrize("payload", [[10**5000], MappingProxyType({"inches": 100}), {"inches": MappingProxyType({})}])
def test_a_tool_that_answers_what_json_cannot_hold_ends_no_run(payload: Any) -> None:
    tool = Tool("lookup", Lookup, lambda _: payload)
    episode = run(Clerk(), task=replace(parts_task(), make_tools=lambda: (tool,)))
    assert [step.tool_result.error_kind for step in episode.trajectory.steps[:-1]] == ["malformed"] * 3
    assert loads(dumps(episode.trajectory)) == episode.trajectory
    assert episode.trajectory.outcome is Outcome.REFUSED


def test_a_form_that_is_no_bool_ends_no_run() -> None:
    assert run(Clerk(), task=replace(parts_task(), grade=lambda _: Grade(1.0, form="yes"))).reward.form == 1.0  # type: ignore[arg-type]
