"""Whatever a server streams is an answer or one typed error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from certloop.extract.engine.chat_client import Completion, _collect, _object, _plain
from certloop.extract.engine.errors import ModelError
from certloop.extract.engine.openai import token_offsets

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
TOKEN = st.fixed_dictionaries({}, optional={"token": JSON, "logprob": JSON, "bytes": JSON})
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "delta": JSON | st.fixed_dictionaries({"content": st.text(max_size=6)}),
        "message": JSON | st.fixed_dictionaries({"content": st.text(max_size=6)}),
        "finish_reason": JSON | st.sampled_from(["stop", "length", None]),
        "logprobs": JSON | st.fixed_dictionaries({"content": JSON | st.lists(TOKEN, max_size=3)}),
        "token_ids": JSON,
    },
)
EVENT = st.fixed_dictionaries(
    {},
    optional={"model": JSON, "choices": JSON | st.lists(JSON | CHOICE, max_size=2), "usage": JSON, "prompt_token_ids": JSON},
)


@given(st.lists(EVENT, max_size=4))
def test_streams(events: list[dict[str, Any]]) -> None:
    with suppress(ModelError):
        found = _collect(iter(events))
        assert isinstance(found, Completion)
        token_offsets(found)


@given(EVENT | JSON)
def test_plain_answers(event: Any) -> None:
    import json

    with suppress(ModelError):
        assert isinstance(_plain(json.dumps(event)), Completion)


@given(st.text())
def test_lines_that_are_no_objects(text: str) -> None:
    with suppress(ModelError):
        assert isinstance(_object(text), dict)


@given(st.text(max_size=12), st.lists(st.binary(max_size=4), max_size=6))
def test_offsets_lie_in_the_text(text: str, pieces: list[bytes]) -> None:
    found = Completion(text, "stop", tokens=tuple((piece, -1.0) for piece in pieces))
    spans = token_offsets(found)
    assert len(spans) in (0, len(pieces))
    assert all(0 <= start <= end <= len(text) for start, end in spans)
