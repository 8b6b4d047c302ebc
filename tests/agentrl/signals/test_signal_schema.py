"""The one schema of feedback: what is stored is finite, pointed at something, dated, and cannot be altered unseen."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.signals import Scope, Signal, Source, from_json, to_json, validate

GOOD = Signal(
    "t", Source.AUDITOR, Scope.FIELD, -1.0, 0.9, "edit", "li", "2026-01-02T03:04:05+08:00", "name", None, (3, 9), "look"
)


def test_a_signal_survives_json_unchanged() -> None:
    kept = replace(GOOD, evidence={"old": "甲", "new": None}, supersedes="0" * 32)
    assert from_json(to_json(kept)) == kept


def test_the_same_content_is_the_same_signal() -> None:
    assert replace(GOOD).signal_id == GOOD.signal_id
    assert replace(GOOD, value=-1).signal_id == GOOD.signal_id
    assert replace(GOOD, at="2026-01-02T03:04:06+08:00").signal_id != GOOD.signal_id


@pytest.mark.parametrize(
    "change",
    [
        {"value": float("nan")}, {"value": float("inf")}, {"value": 1.01}, {"value": -1.01}, {"value": True}, {"value": "1"},
        {"confidence": float("nan")}, {"confidence": -0.1}, {"confidence": 2}, {"source": "auditor"}, {"scope": "field"},
        {"field": None}, {"scope": Scope.STEP}, {"scope": Scope.STEP, "step": -1}, {"scope": Scope.TOKEN, "span": None},
        {"span": (9, 3)}, {"span": (-1, 3)}, {"span": (3, 3)}, {"at": "2026-01-02T03:04:05"}, {"at": ""}, {"actor": ""},
        {"reason": ""},
        {"traj_id": ""}, {"evidence": {"x": float("nan")}}, {"evidence": []}, {"hint": 3}, {"supersedes": 4},
        {"value": 10**400}, {"confidence": 10**400}, {"evidence": {"x": 10**5000}}, {"evidence": {"x": MappingProxyType({})}},
        {"step": 10**5000}, {"step": -1}, {"span": (0, 10**5000)}, {"span": 3},
    ],
)  # fmt: skip
def test_what_must_not_be_stored_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CertloopError) as caught:
        validate(replace(GOOD, **change))
    assert caught.value.code == "signal_invalid"


@pytest.mark.parametrize(
    "change",
    [{"value": 1.0}, {"schema": "certloop.signal/2"}, {"mood": "good"}, {"source": "rumour"}, {"span": [1]}, {"signal_id": "0"}],
)
def test_json_that_was_altered_or_is_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CertloopError) as caught:
        from_json(to_json(GOOD) | change)
    assert caught.value.code == "signal_invalid"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from([key for key in to_json(GOOD) if key not in ("schema", "signal_id")]), ANY_JSON)
def test_no_json_breaks_the_reader(key: str, value: Any) -> None:
    data = to_json(GOOD) | {key: value}
    del data["signal_id"]
    try:
        kept = from_json(data)
    except CertloopError:
        return
    assert from_json(to_json(kept)) == kept
