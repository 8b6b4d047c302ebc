"""Every hack of the history is forbidden by a test that is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from certloop.agentrl.rewards.history import RewardVersion, reward_history

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("version", reward_history(), ids=lambda version: version.version)
def test_the_named_test_exists_and_asserts(version: RewardVersion) -> None:
    path, _, name = version.test.partition("::")
    module = ast.parse((ROOT / path).read_text("utf-8"))
    found = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1, version.test
    assert any(isinstance(node, ast.Assert) for node in ast.walk(found[0]))


def test_versions_are_in_order_and_complete() -> None:
    history = reward_history()
    assert [int(one.version) for one in history] == list(range(1, len(history) + 1))
    assert all(one.reward and one.hack and one.since for one in history)
