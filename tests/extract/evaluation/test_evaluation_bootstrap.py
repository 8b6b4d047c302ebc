"""Intervals over documents: right width, repeatable, and comparisons that pair."""

from __future__ import annotations

import json
from random import Random

import pytest

from certloop.extract.evaluation import (
    Count,
    DocumentScore,
    EvaluationError,
    LabelDocument,
    LabelRow,
    evaluate,
    mean_interval,
    paired_interval,
    ratio_interval,
    schema_from_registry,
)
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result
from certloop.templates import load_types

SCHEMA = schema_from_registry(load_types(()))


def test_the_width_is_that_of_the_normal_approximation() -> None:
    """400 coins: 1.96 * 0.5 / 20 = 0.049."""
    values = [1.0, 0.0] * 200
    found = mean_interval(values)
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.451, abs=0.006) and found.high == pytest.approx(0.549, abs=0.006)
    uneven = [n / 7 for n in range(50)]
    assert mean_interval(uneven) == mean_interval(uneven, seed=0) != mean_interval(uneven, seed=1)


def test_a_rate_counts_fields_and_draws_documents() -> None:
    """Ten documents of ten fields each, all right or all wrong: fields are no independent evidence."""
    found = ratio_interval([10.0] * 5 + [0.0] * 5, [10.0] * 10)
    assert found.mean == 0.5
    assert found.low is not None and found.high is not None and found.high - found.low > 0.5
    unequal = ratio_interval([1.0, 8.0], [1.0, 10.0])
    assert unequal.mean == pytest.approx(9 / 11)


def test_pairs_cancel_what_makes_pages_hard() -> None:
    rng = Random(0)
    before = [rng.random() for _ in range(100)]
    after = [value + 0.05 + rng.uniform(-0.02, 0.02) for value in before]
    gain = paired_interval(after, before)
    assert gain.low is not None and gain.high is not None
    assert 0.04 < gain.low < 0.05 < gain.high < 0.06
    with pytest.raises(EvaluationError, match="same labels"):
        paired_interval([1.0], [])
    with pytest.raises(EvaluationError):
        ratio_interval([1.0], [])


@pytest.mark.parametrize(("parts", "wholes"), [([], []), ([0.0], [0.0])])
def test_nothing_has_no_interval(parts: list[float], wholes: list[float]) -> None:
    assert str(ratio_interval(parts, wholes)) == "-"
    json.dumps(ratio_interval(parts, wholes).to_json(), allow_nan=False)


def read(file: str, name: str | None, *marks: str) -> Result:
    fields = {"name": FieldResult("名称", name, status=FieldStatus.READ if name else FieldStatus.BLANK, confidence=0.9)}
    result = {"outcome": "malformed" if "no_json" in marks else "clean", "marks": list(marks), "finish": "stop", "tokens": 7}
    step = {"thought": "", "tool": "ask_model", "args": {}, "ok": True, "result": result}
    return Result(file, FileStatus.OK, (Document("business_licence", 1.0, fields, steps=(step,)),))


def test_a_report_has_intervals_counts_answers_and_compares() -> None:
    labels = [LabelRow(f"{n}.png", (LabelDocument("营业执照", {"名称": f"第{n}家公司"}),)) for n in range(4)]
    better = [read(f"{n}.png", f"第{n}家公司") for n in range(4)]
    worse = [*better[:2], read("2.png", None, "no_json"), read("3.png", "别家公司", "fenced")]
    after, before = (evaluate(results, labels, SCHEMA) for results in (better, worse))
    assert before.scored[2] == DocumentScore("2.png", 0, "business_licence", Count(0, 1), 0.0, pytest.approx(0.05))
    intervals = before.intervals("business_licence")
    assert intervals["strict"].mean == 0.5 and intervals["strict"].n == 4
    assert (before.answers.valid, before.answers.strict, before.answers.tokens) == (Count(3, 4), Count(2, 4), 28)
    assert before.answers.marks == {"no_json": 1, "fenced": 1}
    assert after.against(before)["strict"].mean == 0.5
    assert "valid JSON 3/4" in before.to_table() and "bootstrap" in before.to_table()
    data = before.to_json(seed=5, resamples=50)
    assert data["bootstrap_95"]["seed"] == 5
    assert data["bootstrap_95"]["by_document"]["all"]["strict"]["mean"] == 0.5
    json.dumps(data, allow_nan=False)
    with pytest.raises(EvaluationError, match="same documents"):
        after.against(evaluate(worse[:2], labels[:2], SCHEMA))
