"""A repaired check digit earns nothing wherever answers of certificates are scored; the reward of every type proves itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.rewards import f1_power_reward
from certloop.agentrl.rewards.templates import FieldExtraction, validate
from certloop.extract.environment import document_task
from certloop.extract.evaluation import schema_from_registry
from certloop.extract.repairs import repair_test
from certloop.templates import load_types
from certloop.train.gspo_reward import score_answers

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "labels.jsonl"
ROWS = [row for row in map(json.loads, EXAMPLES.read_text(encoding="utf-8").splitlines()) if row["fields"]]
LABEL = "统一社会信用代码"
PRINTED, VALID = "91350100M000100Y44", "91350100M000100Y43"  # METHODS §12: the check character is 3
TRUTH = {LABEL: PRINTED, "名称": "示例有限公司"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["file"]))
def test_the_reward_of_a_real_type_proves_itself_without_a_model(row: dict[str, Any]) -> None:
    registry = load_types(())
    schema = schema_from_registry(registry).find(row["doc_type"])
    doc_type = registry.get(schema.id if schema is not None else "business_licence")  # a form of no known type has a reward, too
    validate(FieldExtraction(row["fields"], canonical=doc_type.canonical_labels(), repaired=repair_test([doc_type])))


def reward(code: str) -> str:
    return json.dumps(TRUTH | {LABEL: code}, ensure_ascii=False)


def test_the_episode_gives_a_repair_nothing_and_the_verbatim_code_everything() -> None:
    class Nowhere:
        make_tools = staticmethod(lambda: ())

    task = document_task(Nowhere(), doc_type=load_types(()).get("business_licence"), truth=TRUTH, golden=("ocr", "emit_json"))  # type: ignore[arg-type]
    assert task.grade is not None
    qualities = [grade.quality for grade in (task.grade(reward(c)) for c in (PRINTED, VALID)) if grade is not None]
    assert qualities == [1.0, pytest.approx(0.05 + 0.95 * 0.5**4)]


def test_training_gives_a_repair_nothing_either() -> None:
    answers = [reward(c) for c in (PRINTED, VALID, f"{PRINTED[:-2]}54", "")]
    rewards = [r for r, _ in score_answers([TRUTH] * 4, answers)]
    assert rewards[:2] == [1.0, pytest.approx(0.05 + 0.95 * 0.5**4)]
    assert rewards[2] > rewards[1] == pytest.approx(f1_power_reward({"a": "1", "b": "2"}, {"a": "1", "b": "x"}).reward)


def test_a_slip_in_a_code_that_holds_is_a_slip() -> None:
    repaired = repair_test(load_types(()).types.values())
    assert repaired(LABEL, PRINTED, VALID)
    assert not repaired(LABEL, VALID, PRINTED)
    assert not repaired("名称", PRINTED, VALID)
    assert not repaired("没有的栏目", PRINTED, VALID)
