"""A field is found in the answer's text and in its tokens, so that feedback on one field moves that field's tokens only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.trajectory import (
    Outcome,
    Role,
    Trajectory,
    Turn,
    build_tokens,
    field_span,
    field_token_span,
    token_span,
    value_spans,
)

LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(LEAVES, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=4), max_leaves=12)


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_each_span_holds_exactly_its_value(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    for path, (start, end) in value_spans(text).items():
        assert json.loads(text[start:end]) == at(value, path)


def test_a_span_is_the_whole_literal() -> None:
    text = '{"名称": "甲\\"乙", "n": 12, "名称": "丙"}'
    start, end = field_span(text, "名称") or (0, 0)
    assert text[start:end] == '"丙"'  # of a repeated key the last counts
    assert field_span(text, "地址") is None


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', '{"a": 1} x', '{"a": 1 "b": 2}', "{1: 2}", "[1 2]", "[" * 90, '{"a"'])
def test_text_that_is_no_json_has_no_spans(text: str) -> None:
    with pytest.raises(CertloopError) as caught:
        value_spans(text)
    assert caught.value.code == "trajectory_invalid"


def test_tokens_that_touch_the_characters() -> None:
    offsets = [(0, 0), (0, 2), (2, 5), (5, 6), (6, 9), (9, 9)]
    assert token_span((2, 5), offsets) == (2, 3)
    assert token_span((3, 7), offsets) == (2, 5)
    assert token_span((0, 9), offsets) == (1, 5)
    assert token_span((9, 12), offsets) is None


def answered(text: str, size: int) -> Trajectory:
    """Cut the answer into tokens of ``size`` characters, behind a prompt of seven tokens and one thought token."""
    pieces = [(i, min(i + size, len(text))) for i in range(0, len(text), size)]
    turns = [Turn(Role.USER, (9,) * 7), Turn(Role.ASSISTANT, (5, *range(len(pieces))), (-1.0,) * (len(pieces) + 1))]
    tokens = build_tokens(turns)
    return Trajectory(
        "t", "a", "toy", "2026-01-01T00:00:00Z", Outcome.CLEAN, final_json=text, token_ids=tokens.token_ids,
        logprobs=tokens.logprobs, loss_mask=tokens.loss_mask, segments=tokens.segments, token_offsets=((0, 0), *pieces),
    )  # fmt: skip


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1, max_size=5), st.integers(1, 6))
def test_the_token_span_of_a_field_covers_its_value_and_little_else(fields: dict[str, str], size: int) -> None:
    text = json.dumps(fields, ensure_ascii=False)
    trajectory = answered(text, size)
    for name, value in fields.items():
        span = field_token_span(trajectory, name)
        assert span is not None
        covered = "".join(text[s:e] for s, e in trajectory.token_offsets[span[0] - 7 : span[1] - 7])
        assert json.dumps(value, ensure_ascii=False) in covered
        assert len(covered) <= len(json.dumps(value, ensure_ascii=False)) + 2 * (size - 1)


def test_no_tokens_no_span() -> None:
    bare = Trajectory("t", "a", "toy", "2026-01-01T00:00:00Z", Outcome.CLEAN, final_json='{"a": 1}')
    assert field_token_span(bare, "a") is None
    assert field_token_span(answered('{"a": 1}', 2), "b") is None
    for text in ("a is 1", '{"a": 1', "", "[" * 100):  # what an answer that is no JSON says of a field, nobody can point at
        assert field_token_span(answered(text or " ", 2), "a") is None
