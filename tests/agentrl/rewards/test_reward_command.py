"""`certloop reward`, as a user types it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from certloop.cli import main

TRUTH = {"名称": "甲公司", "注册号": "1234567890", "住所": "一二三四五六七八九十", "类型": "有限"}


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def reward(truth: Any, prediction: str, *options: str) -> tuple[int, str, str]:
        files = {"truth": json.dumps(truth, ensure_ascii=False), "prediction": prediction}
        for name, text in files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit) as stopped:
            main(["reward", "--truth", str(tmp_path / "truth"), "--prediction", str(tmp_path / "prediction"), *options])
        out, err = capsys.readouterr()
        return int(stopped.value.code or 0), out, err

    return reward


def answer(**changes: str | None) -> str:
    return json.dumps({k: v for k, v in (TRUTH | changes).items() if v is not None}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("prediction", "f1", "score"),
    [
        (answer(), 1.0, 1.0),
        (answer(住所="一二三四五六七八九拾"), 0.9525, 0.831958),
        (answer(类型=None), 0.857143, 0.562786),
        (answer(备注="无"), 0.888889, 0.64308),
        ("{}", 0.0, 0.05),
        ("没有", 0.0, 0.0),
    ],
)
def test_the_pins(run: Any, prediction: str, f1: float, score: float) -> None:
    code, out, _ = run(TRUTH, prediction, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["f1"] == pytest.approx(f1, abs=1e-6)
    assert report["score"] == pytest.approx(score, abs=1e-6)


def test_pairs_and_what_was_left_over(run: Any) -> None:
    _, out, _ = run(TRUTH | {"备注": "<blank>"}, '{"名称": "甲公司", "注册码": "1234567890", "备注": "x", "电话": "1"}', "--json")
    report = json.loads(out)
    assert [(p["truth"], p["prediction"], p["value_similarity"]) for p in report["pairs"]] == [
        ("名称", "名称", 1.0), ("注册号", "注册码", 1.0),
    ]  # fmt: skip
    assert (report["missed"], report["extra"], report["invented"]) == (["住所", "类型"], ["电话"], ["备注"])
    assert (report["precision"], report["recall"]) == (0.5, 0.5)


def test_a_type_knows_the_other_names_of_its_labels(run: Any) -> None:
    truth, prediction = {"法定代表人": "张三"}, '{"负责人": "张三"}'
    assert json.loads(run(truth, prediction, "--json")[1])["score"] == pytest.approx(0.05)
    assert json.loads(run(truth, prediction, "--json", "--type", "business_licence")[1])["score"] == 1.0
    assert json.loads(run(truth, prediction, "--json", "--type", "营业执照")[1])["score"] == 1.0


def test_a_repaired_code_earns_nothing(run: Any) -> None:
    printed, valid = "91350100M000100Y44", "91350100M000100Y43"
    options = ("--json", "--type", "business_licence")
    assert json.loads(run({"统一社会信用代码": printed}, json.dumps({"统一社会信用代码": printed}), *options)[1])["score"] == 1.0
    assert json.loads(run({"统一社会信用代码": printed}, json.dumps({"统一社会信用代码": valid}), *options)[1])["f1"] == 0.0
    _, out, _ = run({"统一社会信用代码": printed}, json.dumps({"统一社会信用代码": valid}), *options)
    assert [pair["repaired"] for pair in json.loads(out)["pairs"]] == [True]
    assert "repaired" in run({"统一社会信用代码": printed}, json.dumps({"统一社会信用代码": valid}), *options[1:])[1]
    misread = json.dumps({"统一社会信用代码": printed})
    assert json.loads(run({"统一社会信用代码": valid}, misread, *options)[1])["f1"] > 0.8  # a slip is a slip


def test_an_answer_is_read_as_in_training(run: Any) -> None:
    """Reasoning before the JSON costs nothing, any other form the floor; the same as GSPO's reward."""
    from certloop.train.gspo_reward import score_answers

    for prediction, score, form in (
        (f"公司名在右上角，章压住了地址。\n{answer()}", 1.0, []),
        (f"```json\n{answer()}\n```", 0.95, ["fenced"]),
        (f"{answer()}\n以上。", 0.95, ["trailing_text"]),
        (answer()[:-3], 0.0, []),
    ):
        report = json.loads(run(TRUTH, prediction, "--json")[1])
        assert (report["score"], report["form"]) == (pytest.approx(score), form), prediction
        assert report["score"] == pytest.approx(score_answers([TRUTH], [prediction])[0][0])
    assert "form     fenced: costs 0.05" in run(TRUTH, f"```json\n{answer()}\n```")[1]


def test_lines_for_people(run: Any) -> None:
    code, out, _ = run(TRUTH, answer(类型=None, 备注="无"))
    assert code == 0
    assert out.startswith("score 0.")
    assert "missed   类型" in out
    assert "extra    备注" in out
    assert "no whole JSON object" in run(TRUTH, "?")[1]


def test_what_makes_no_sense(run: Any, tmp_path: Path) -> None:
    for truth, options, code_name in (
        ([], (), "reward_invalid"),
        (TRUTH, ("--type", "poem"), "unknown_type"),
        (TRUTH, ("--prediction", str(tmp_path / "missing")), "usage"),
        ({"名称": "a", "名 称": "b"}, (), "reward_invalid"),
    ):
        code, out, err = run(truth, answer(), *options)
        assert (code, out) == (2, "")
        assert f"error[{code_name}]" in err


def test_the_prediction_may_come_through_a_pipe(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(answer().encode())))
    assert json.loads(run(TRUTH, "{}", "--prediction", "-", "--json")[1])["score"] == 1.0
