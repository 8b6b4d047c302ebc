"""The committed nano model reads unseen pages through the product's own path: decode, OCR, prompt, model, places, checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from certloop.extract import Extractor
from certloop.extract.config import ExtractConfig, ModelConfig
from certloop.extract.evaluation import Report, evaluate, read_labels, schema_from_registry
from certloop.templates import load_types
from certloop.train.nano import EARLY, TEACHER, nano_folder
from certloop.train.nano.vocabulary import TYPE_ID, TYPES
from certloop.train.teach.pages import LabelledPage, nano_labelled, write_labels

SEED = 90_001
CONFIG = ExtractConfig(engine="qwen-vl", template_path=(str(TYPES),))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledPage]:
    folder = tmp_path_factory.mktemp("pages")
    drawn = nano_labelled(folder, SEED, 12)
    write_labels(folder / "labels.jsonl", drawn)
    return drawn


def report_of(pages: list[LabelledPage], which: str) -> Report:
    model = ModelConfig(model=str(nano_folder(which)), max_tokens=200, device="cpu")
    folder = Path(pages[0].image).parent
    with Extractor(replace(CONFIG, model=model)) as extractor:
        results = [extractor.read(page.image, doc_type=TYPE_ID) for page in pages]
    return evaluate(results, read_labels(folder / "labels.jsonl"), schema_from_registry(load_types((str(TYPES),))))


@pytest.fixture(scope="module")
def teacher(pages: list[LabelledPage]) -> Report:
    return report_of(pages, TEACHER)


def test_the_teacher_reads_and_the_early_student_does_not_yet(pages: list[LabelledPage], teacher: Report) -> None:
    early = report_of(pages, EARLY)
    assert teacher.answers.valid.rate == 1.0 and teacher.answers.strict.rate == 1.0
    assert teacher.overall.greedy_f1 is not None and teacher.overall.greedy_f1 >= 0.85
    gain = teacher.against(early)["f1"]
    assert gain.low is not None and gain.low > 0


def test_what_it_is_sure_of_is_right(teacher: Report) -> None:
    sure = [sample.correct for sample in teacher.samples if sample.confidence > 0.9]
    assert len(sure) > 20
    assert sum(sure) / len(sure) > 0.95
