"""What a stored trajectory guarantees, and which error names what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.trajectory import (
    Action,
    Consent,
    Outcome,
    Provenance,
    Role,
    Sampling,
    Segment,
    Step,
    ToolResult,
    Trajectory,
    Turn,
    build_tokens,
    dumps,
    from_json,
    loads,
    render,
    to_json,
    trajectory_from_steps,
    validate,
)

AT = "2026-01-31T08:00:00+00:00"
STEP = Step(0, "a page", "read it", Action("ocr", {"page": 0}), ToolResult(True, {"lines": 3}, latency_ms=12.5), 2, 6)
GOOD = Trajectory(
    traj_id="t1",
    tenant_id="a",
    doc_type="toy",
    created_at=AT,
    outcome=Outcome.CLEAN,
    consent=Consent.TENANT,
    image_sha256=("0" * 64,),
    steps=(STEP, Step(1, thought="done", tok_start=6, tok_end=8, alpha=0.8, value=-1.0)),
    final_json='{"a": "1"}',
    token_ids=(1, 2, 3, 4, 5, 6, 7, 8),
    logprobs=(None, None, -0.1, -0.2, None, None, -0.3, -0.0),
    loss_mask=(0, 0, 1, 1, 0, 0, 1, 1),
    segments=(
        Segment(Role.USER, 0, 2),
        Segment(Role.ASSISTANT, 2, 4),
        Segment(Role.OBSERVATION, 4, 6),
        Segment(Role.ASSISTANT, 6, 8),
    ),
    token_offsets=((0, 6), (6, 10)),
    sampling=Sampling(0.6, 0.95),
)


def test_a_trajectory_survives_json_unchanged() -> None:
    assert loads(dumps(GOOD)) == GOOD
    assert json.loads(dumps(GOOD))["schema"] == "certloop.trajectory/1"
    assert "\n" not in dumps(GOOD)


def test_the_path_is_the_tools_in_order() -> None:
    assert GOOD.path == ("ocr",)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("trajectory_invalid", {"traj_id": ""}),
        ("trajectory_invalid", {"tenant_id": ""}),
        ("trajectory_invalid", {"created_at": "2026-01-31T08:00:00"}),  # no time zone
        ("trajectory_invalid", {"created_at": "yesterday"}),
        ("trajectory_invalid", {"outcome": True}),  # never a bool
        ("trajectory_invalid", {"image_sha256": ("page.jpg",)}),
        ("trajectory_invalid", {"token_ids": (1, 2, 3, 4, 5, 6, 7, -8)}),
        ("trajectory_invalid", {"token_ids": (1, 2, 3, 4, 5, 6, 7, 10**5000)}),
        ("trajectory_invalid", {"token_offsets": ((0, 6), (6, 11))}),
        ("trajectory_invalid", {"sampling": Sampling(1.0, 0.0)}),
        ("not_finite", {"sampling": Sampling(float("nan"), 1.0)}),
        ("token_lengths", {"loss_mask": (0, 0, 1, 1, 0, 0, 1)}),
        ("token_lengths", {"logprobs": ()}),
        ("token_lengths", {"token_offsets": ((0, 6),)}),
        ("segments_do_not_tile", {"segments": GOOD.segments[:-1]}),
        ("segments_do_not_tile", {"segments": (Segment(Role.USER, 0, 3), *GOOD.segments[1:])}),
        ("segments_do_not_tile", {"segments": GOOD.segments[1:]}),
        ("segments_do_not_tile", {"segments": (Segment(Role.USER, 0, 0), *GOOD.segments)}),
        ("mask_not_assistant", {"loss_mask": (0, 1, 1, 1, 0, 0, 1, 1)}),  # a user's token would be trained
        ("mask_not_assistant", {"loss_mask": (0, 0, 1, 0, 0, 0, 1, 1)}),
        ("logprob_invalid", {"logprobs": (None, None, None, -0.2, None, None, -0.3, -0.4)}),
        ("logprob_invalid", {"logprobs": (None, None, float("nan"), -0.2, None, None, -0.3, -0.4)}),
        ("logprob_invalid", {"logprobs": (None, None, float("-inf"), -0.2, None, None, -0.3, -0.4)}),
        ("logprob_invalid", {"logprobs": (None, None, 0.2, -0.2, None, None, -0.3, -0.4)}),
    ],
)
def test_what_is_wrong_with_a_trajectory_has_a_code(code: str, change: dict[str, Any]) -> None:
    with pytest.raises(CertloopError) as caught:
        validate(replace(GOOD, **change))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("steps_invalid", {"t": 1}),
        ("steps_invalid", {"tok_end": None}),
        ("steps_invalid", {"tok_end": 9}),
        ("steps_invalid", {"tok_end": 7}),  # overlaps the next step
        ("steps_invalid", {"action": None}),
        ("steps_invalid", {"action": Action("")}),
        ("steps_invalid", {"action": Action("ocr", {"scale": float("nan")})}),
        ("steps_invalid", {"action": Action("ocr", {"scale": 10**5000})}),
        ("steps_invalid", {"action": Action("ocr", {"scale": MappingProxyType({})})}),
        ("steps_invalid", {"tool_result": ToolResult(True, MappingProxyType({}))}),
        ("steps_invalid", {"tool_result": ToolResult(False)}),
        ("steps_invalid", {"tool_result": ToolResult(True, error_kind="timeout")}),
        ("steps_invalid", {"tool_result": ToolResult(True, {1: "key"})}),
        ("steps_invalid", {"alpha": 1.5}),
        ("not_finite", {"alpha": float("nan")}),
        ("not_finite", {"value": float("inf")}),
        ("not_finite", {"tool_result": ToolResult(True, latency_ms=float("inf"))}),
    ],
)
def test_what_is_wrong_with_a_step_has_a_code(code: str, change: dict[str, Any]) -> None:
    with pytest.raises(CertloopError) as caught:
        validate(replace(GOOD, steps=(replace(STEP, **change), GOOD.steps[1])))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("trajectory_version", {"schema": "certloop.trajectory/2"}),
        ("trajectory_invalid", {"reward": 1.0}),  # a reward is a fold over signals, never a key of a trajectory
        ("trajectory_invalid", {"outcome": "great"}),
        ("trajectory_invalid", {"steps": [{"t": 0, "feeling": "fine"}]}),
        ("trajectory_invalid", {"token_ids": 7}),
    ],
)
def test_json_of_another_shape_is_refused(code: str, change: dict[str, Any]) -> None:
    with pytest.raises(CertloopError) as caught:
        from_json(to_json(GOOD) | change)
    assert caught.value.code == code


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema": "certloop.trajectory/1"}', "[" * 100_000])
def test_text_that_is_no_trajectory_is_refused(text: str) -> None:
    with pytest.raises(CertloopError):
        loads(text)


def test_an_engine_without_tokens_gives_steps_only() -> None:
    steps = [
        {"thought": "read the page", "tool": "ocr", "args": {}, "ok": True, "result": {"lines": 9}},
        {"thought": "look closer", "tool": "zoom", "args": {"field": "x"}, "ok": False, "result": None, "error_kind": "timeout"},
        {"thought": "again", "tool": "zoom", "args": {}, "ok": False, "result": {}},
    ]
    kept = trajectory_from_steps(
        steps,
        provenance=Provenance("a", policy_version="embedded"),
        traj_id="t",
        doc_type="toy",
        created_at=AT,
        final={"k": "值"},
    )
    assert kept.path == ("ocr", "zoom", "zoom")
    assert kept.outcome is Outcome.CLEAN
    assert kept.final_json == '{"k": "值"}'
    assert [s.tool_result.error_kind for s in kept.steps if s.tool_result] == [None, "timeout", "failed"]
    assert kept.policy_version == "embedded"
    assert kept.token_ids == ()
    assert loads(dumps(kept)) == kept


def test_a_step_without_a_tool_and_an_episode_without_an_answer() -> None:
    with pytest.raises(CertloopError, match="names no tool"):
        trajectory_from_steps([{}], provenance=Provenance("a"), traj_id="t", doc_type="toy", created_at=AT, final=None)
    kept = trajectory_from_steps([], provenance=Provenance("a"), traj_id="t", doc_type="toy", created_at=AT, final=None)
    assert kept.outcome is Outcome.FAILED


def test_a_person_can_read_it() -> None:
    text = render(replace(GOOD, steps=(replace(STEP, observation="红章\x1b[2J\u202e下\n一行" + "长" * 200), GOOD.steps[1])))
    assert "trajectory t1  toy  clean" in text
    assert "act      ocr(page=0)" in text
    assert 'got      {"lines": 3}' in text
    assert '"a": "1"' in text
    assert "8 tokens (user 2, assistant 4, observation 2), 4 trained" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(len(line) for line in text.splitlines()) <= 120


ROLES = st.sampled_from(list(Role))


@st.composite
def turns(draw: st.DrawFn) -> list[Turn]:
    out = []
    for role in draw(st.lists(ROLES, max_size=8)):
        ids = tuple(draw(st.lists(st.integers(0, 200_000), max_size=6)))
        sampled = role is Role.ASSISTANT
        logprobs = tuple(draw(st.lists(st.floats(-50, 0), min_size=len(ids), max_size=len(ids)))) if sampled else ()
        out.append(Turn(role, ids, logprobs))
    return out


@given(turns())
def test_built_tokens_always_hold_the_invariants(parts: list[Turn]) -> None:
    tokens = build_tokens(parts)
    bare = replace(GOOD, steps=(), token_offsets=())
    kept = validate(
        replace(
            bare,
            token_ids=tokens.token_ids,
            logprobs=tokens.logprobs,
            loss_mask=tokens.loss_mask,
            segments=tokens.segments,
        )
    )
    assert kept.token_ids == tuple(token for turn in parts for token in turn.token_ids)
    assert sum(kept.loss_mask) == sum(len(turn.token_ids) for turn in parts if turn.role is Role.ASSISTANT)
    assert loads(dumps(kept)) == kept


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from([key for key in to_json(GOOD) if key != "schema"]), ANY_JSON)
def test_no_json_breaks_the_reader(key: str, value: Any) -> None:
    try:
        kept = from_json(to_json(GOOD) | {key: value})
    except CertloopError:
        return
    assert loads(dumps(kept)) == kept


@given(st.sampled_from(["action", "tool_result", "tok_start", "observation", "alpha", "reflection", "t"]), ANY_JSON)
def test_no_step_breaks_the_reader(key: str, value: Any) -> None:
    data = to_json(GOOD)
    data["steps"] = [data["steps"][0] | {key: value}, data["steps"][1]]
    try:
        kept = from_json(data)
    except CertloopError:
        return
    assert loads(dumps(kept)) == kept


def test_half_a_surrogate_pair_can_be_written_as_utf8() -> None:
    kept = replace(GOOD, token_offsets=(), final_json='{"a": "\ud800"}')
    assert loads(dumps(kept).encode()) == kept
