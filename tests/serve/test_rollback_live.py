"""A release is taken back while requests come: none fails, no document is lost, none that comes later meets it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "rollback.py"


@pytest.mark.slow
def test_a_rollback_under_load_fails_nobody(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("rollback_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.rollback(tmp_path, rate=20.0, seconds=6.0, every=20, rollbacks=2)
    assert found["failed"] == []
    assert (found["requests"], found["documents_lost"]) == (120, 0)
    assert found["documents"] == 120 // 20 + 2
    assert [swap["by"] for swap in found["swaps"]] == ["command", "api"]
    assert found["read_under_what_was_taken_back"] == 0
    assert found["registry_damage"] == []
