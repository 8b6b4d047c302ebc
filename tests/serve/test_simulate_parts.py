"""The simulation's parts: pages are seen once whoever reads them, auditors answer a quarter, the control hears nothing true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import OcrEngine
from certloop.serve.loop.auditor import Auditor
from certloop.serve.loop.memo import MemoEngine
from certloop.serve.loop.report import recovery, summary
from certloop.serve.loop.simulate import Life, Scored, SimulationConfig
from certloop.serve.loop.stream import StreamConfig, documents
from certloop.serve.loop.systems import shuffled
from tests.serve.live import small_page


def image() -> np.ndarray:
    import cv2

    decoded = cv2.imdecode(np.frombuffer(small_page(1), np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    return np.ascontiguousarray(decoded[:, :, ::-1])


def same(a: list[TextLine], b: list[TextLine]) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(x.quad, y.quad)
        and (x.text, x.score, x.char_x, x.char_scores) == (y.text, y.score, y.char_x, y.char_scores)
        for x, y in zip(a, b, strict=True)
    )


def test_what_was_seen_outlives_the_process_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = image()
    seen = MemoEngine(kept=tmp_path / "looks.db").read(page)
    assert same(seen, OcrEngine().read(page))
    monkeypatch.setattr(OcrEngine, "detect", lambda *_, **__: pytest.fail("looked again"))
    monkeypatch.setattr(OcrEngine, "recognise_crop", lambda *_: pytest.fail("looked again"))
    again = MemoEngine(kept=tmp_path / "looks.db")
    assert same(again.read(page), seen)
    assert same(again.read(page), seen)


def test_auditors_answer_a_quarter_at_most_and_first_what_needs_them() -> None:
    auditor = Auditor(0.25, 0.0, 0)
    answered = [auditor.answers(number >= 40) for number in range(120)]
    assert sum(answered[:40]) <= 10
    assert sum(answered) <= 30
    assert sum(answered[40:46]) >= 3, "a reserve is there when forms drift"


def test_an_auditor_errs_at_his_rate() -> None:
    auditor = Auditor(0.25, 0.03, 1)
    truth = {"名称": "青松样本贸易有限公司", "住所": "样本市一路1号", "类型": "有限责任公司"}
    wrong = sum(value != truth[label] for _ in range(4000) for label, value in auditor.answer(truth).items())
    assert 0.025 < wrong / 12_000 < 0.035


def test_the_control_never_hears_a_true_value() -> None:
    answers = [
        {"类型": "有限责任公司", "名称": "甲"},
        {"类型": "有限责任公司", "名称": "乙"},
        {"类型": "个体工商户", "名称": "丙"},
    ]
    assert shuffled(answers, {"类型": "有限责任公司", "名称": "丁"}) == {"类型": "个体工商户", "名称": "乙"}
    assert shuffled(answers[:2], {"类型": "有限责任公司", "名称": "丁"}) == {"名称": "乙"}


def test_recovery_and_gain_by_hand() -> None:
    """Ten documents a day of ten fields: all right before the drift on day 2, half right for a day, all right again."""
    config = SimulationConfig(StreamConfig(days=6, per_day=10, drift_days=(2,)))
    life = Life(config)
    for number in range(60):
        day = number // 10
        right = 5 if day == 2 else 10
        life.scored.append(
            Scored(day, number, day >= 2, 10, {"frozen": 5 if day >= 2 else 10, "learning": right, "control": right})
        )
    assert recovery(life, 2) == 8, "within .05 of 1.0 over the next 20 documents: two bad ones among them"
    said = summary(life)
    assert said["gain"]["mean"] == pytest.approx(0.375)
    assert said["documents"] == 60


def test_the_stream_is_a_function_of_its_seed() -> None:
    config = StreamConfig(days=2, per_day=1, drift_days=(1,), width_px=500, seed=3)
    first, again = list(documents(config)), list(documents(config))
    assert [a.layout for a in first] == [a.layout for a in again]
    assert all(np.array_equal(a.sample.image, b.sample.image) for a, b in zip(first, again, strict=True))
