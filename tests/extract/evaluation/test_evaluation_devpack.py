"""The same counts as the development pack's own scorer, on the truth and on spoilt truths.

Needs CERTLOOP_DEVPACK (the folder with labels.jsonl; the scorer is looked for in ../tools); skipped where it is unset.
"""

import contextlib
import importlib.util
import io
import json
import os
import random
import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from certloop.extract.evaluation import comparable, evaluate, read_labels, read_results, same_value, schema_from_registry
from certloop.templates import load_types

PACK = os.environ.get("CERTLOOP_DEVPACK")
SCORER = Path(PACK or ".").resolve().parent / "tools" / "score_devpack.py"
pytestmark = pytest.mark.skipif(
    not PACK or not SCORER.is_file(), reason="CERTLOOP_DEVPACK is unset (or has no ../tools/score_devpack.py): not compared"
)
ALPHABET = "〇○零Oo一二十年月日至止自长期2０1８ .-/★*,，。【】（)~—公司"


@pytest.fixture(scope="module")
def scorer():
    spec = importlib.util.spec_from_file_location("score_devpack", SCORER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spoil(value: str | None, rng: random.Random) -> str | None:
    """One of the ways in which readers fail, or another print of the same value."""
    if value is None:
        return rng.choice([None, None, "编造"])
    cut = rng.randrange(len(value) + 1)
    same_print = [
        value,
        value,
        value + "**",
        value.replace("（", "(").replace("，", ","),
        " ".join(value),
        value.replace("〇", "○"),
    ]
    same_date = value.replace("年", "-").replace("月", "-").replace("日", "")
    worse = [None, "", " ", value[:cut], value[cut:], value + "类型", "名称" + value, value[::-1], value.replace("长期", "")]
    return rng.choice([*same_print, same_date, *worse])


def answers(rng: random.Random | None, schema) -> list[dict]:
    """The truth as results, spoilt when a generator is given."""
    rows = []
    for row in map(json.loads, (Path(PACK) / "labels.jsonl").read_text(encoding="utf-8").splitlines()):
        documents = []
        for truth in row.get("documents") or [row]:
            known = schema.find(truth["doc_type"])
            values = dict(truth["fields"]) | dict.fromkeys(truth.get("absent_fields") or [])
            if rng:
                values = {label: spoil(value, rng) for label, value in values.items()}
            fields = {str(i): {"label": k, "value": v, "confidence": 0.5} for i, (k, v) in enumerate(values.items())}
            wrong_type = rng is not None and rng.random() < 0.1
            documents.append({"doc_type": known.id if known and not wrong_type else "unknown", "fields": fields})
        if rng and rng.random() < 0.1:
            documents = documents[:1] if len(documents) > 1 else [*documents, {"doc_type": "unknown", "fields": {}}]
        if rng is None or rng.random() > 0.05:
            rows.append({"file": f"somewhere/{row['file']}", "status": "ok", "documents": documents})
    return rows


@pytest.mark.parametrize("seed", [None, *range(12)])
def test_counts_agree(scorer, tmp_path, seed) -> None:
    schema = schema_from_registry(load_types())
    path = tmp_path / "out.jsonl"
    rows = answers(None if seed is None else random.Random(seed), schema)
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        scorer.main(str(path))
    report = evaluate(read_results(path), read_labels(Path(PACK) / "labels.jsonl"), schema)
    counts = r"strict exact (\d+/\d+).*?; codes (\d+/\d+); invented (\d+/\d+); unknown types (\d+/\d+)"
    theirs = re.search(counts, printed.getvalue().splitlines()[-1]).groups()
    assert re.search(counts, report.summary()).groups() == theirs
    by_field = dict(re.findall(r"^(\S+)\t(\d+/\d+)$", printed.getvalue(), re.MULTILINE))
    ours = {label: str(scores.strict) for label, scores in report.by_field.items() if scores.strict.n}
    renamed = {"存款人名称", "公司名称", "统一社会信用代码", "社会信用代码"}  # the scorer knows aliases of the licence only
    assert {k: v for k, v in ours.items() if k not in renamed} == {k: v for k, v in by_field.items() if k not in renamed}
    if seed is None:
        assert report.overall.strict.rate == 1.0
        assert report.overall.means == (1.0, 1.0, 1.0)


@given(
    label=st.sampled_from(["名称", "成立日期", "营业期限", "有效期至"]),
    a=st.text(ALPHABET, max_size=16),
    b=st.text(ALPHABET, max_size=16),
)
def test_the_comparison_agrees_text_by_text(scorer, label, a, b) -> None:
    assert comparable(a) == scorer.norm(a)
    try:
        theirs = scorer.same(label, a, b)
    except (KeyError, ValueError):
        assume(False)  # numerals of both kinds in one number: the scorer gives up
    assert same_value(label, a, b) == theirs
