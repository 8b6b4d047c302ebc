"""Whatever text lines the engine gives, anywhere and of any shape: a reading or nothing, never an exception, in bounded time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certloop.extract.classify import classify, find_titles
from certloop.extract.engine.lines import TextLine
from certloop.extract.guidance import Guidance
from certloop.extract.planning import plan
from certloop.extract.reading.document import read_layout
from certloop.extract.reading.glyphs import rows_of, runs_of
from certloop.extract.reading.labels import find_labels
from certloop.extract.reading.orient import find_upright
from certloop.extract.reading.values import assign
from certloop.extract.split import split_lines
from certloop.templates import load_types

REGISTRY = load_types()
TYPES = tuple(REGISTRY)
LABELS = sorted(
    {label for t in TYPES for spec in t.fields.values() for label in spec.labels} | {title for t in TYPES for title in t.titles}
)
VALUES = [
    "91350100M000100Y43", "2019年03月05日", "2019年03月05日至长期", "年6", "月", "18日", "(副本)", "XXXX", "****",
    "示例市样本贸易有限公司",
    "经审核,示例公司符合开户条件", "壹佰万元整", "：", "JY23501020000018", "示交运管许可货字350100000001号",
]  # fmt: skip
SIZE = st.floats(-5000, 5000)

texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(LABELS),
    st.sampled_from(VALUES),
    st.builds(
        lambda *parts: "".join(parts), st.sampled_from(LABELS), st.sampled_from(["", "：", " ", "　"]), st.sampled_from(VALUES)
    ),
)
THIN = 1e-2  # a box of no height at all holds no text
any_quads = (
    st.lists(SIZE, min_size=8, max_size=8)
    .map(lambda n: np.array(n, np.float32).reshape(4, 2))
    .filter(lambda quad: float(np.linalg.norm(quad[3] - quad[0])) > THIN)
)
narrow = st.tuples(SIZE, SIZE, st.floats(0, 900), st.floats(0.05, 2)).map(
    lambda p: np.array([[p[0], p[1]], [p[0] + p[2], p[1]], [p[0] + p[2], p[1] + p[3]], [p[0], p[1] + p[3]]], np.float32)
)


@st.composite
def upright_quads(draw: st.DrawFn) -> Any:
    """Line boxes as a detector gives them, on a coarse grid so that they often stand beside or above each other."""
    x, y = draw(st.integers(0, 24)) * 50.0, draw(st.integers(0, 24)) * 45.0
    width, height = draw(st.sampled_from([20, 60, 120, 240, 480])), draw(st.sampled_from([18, 36, 40, 80]))
    return np.array([[x, y], [x + width, y], [x + width, y + height], [x, y + height]], np.float32)


@st.composite
def text_lines(draw: st.DrawFn, quads: st.SearchStrategy[Any] | None = None) -> TextLine:
    text = draw(texts)
    quad = draw(quads if quads is not None else st.one_of(upright_quads(), upright_quads(), any_quads, narrow))
    places = tuple((i + 0.5) / max(1, len(text)) for i in range(len(text)))
    if draw(st.integers(0, 9)) == 0:
        places = tuple(draw(st.lists(st.floats(-1, 2), min_size=len(text), max_size=len(text))))
    score = draw(st.floats(0, 1))
    return TextLine(quad, text, score, places, (score,) * len(text))


def read(lines: Sequence[TextLine], type_id: str | None = None) -> dict[str, Any]:
    """Everything that stands between the engine and the answer; returns what the answer would be made of."""
    upright = find_upright(lines, 1200, 1100)
    assert math.isfinite(upright.degrees)
    turned = upright.lines(lines)
    parts = split_lines(turned, REGISTRY)
    assert sorted(map(id, turned)) == sorted(id(line) for part in parts for line in part)
    out: dict[str, Any] = {}
    for number, part in enumerate(parts):
        rows = rows_of(runs_of(part))
        find_titles(rows, REGISTRY)
        found = classify(rows, REGISTRY, doc_type=type_id)
        out[f"{number}"] = (found.type_id, found.confidence)
        assert 0 <= found.confidence <= 1
        if found.type_id == "unknown":
            continue
        doc_type = REGISTRY.get(found.type_id)
        assign(rows, find_labels(rows, doc_type), doc_type.fields)
        layout = read_layout(rows, doc_type, found)
        plan(doc_type, layout)
        for key, draft in layout.drafts.items():
            assert draft.text
            assert key in doc_type.fields
            assert 0 <= draft.score <= 1
            assert draft.quad is not None
            assert np.isfinite(draft.quad).all()
        out |= {f"{number}/{k}": (d.text, d.score) for k, d in layout.drafts.items()}
    return out


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(lines=st.lists(text_lines(), max_size=30), type_id=st.sampled_from([None, *(t.id for t in TYPES)]))
def test_any_lines_are_read_or_left(lines: list[TextLine], type_id: str | None) -> None:
    assert read(lines, type_id) == read(lines, type_id)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(text_lines(upright_quads()), min_size=15, max_size=40))
def test_crowded_pages(lines: list[TextLine]) -> None:
    """Labels, values and titles on top of each other, all types tried."""
    for doc_type in TYPES[::3]:
        read(lines, doc_type.id)


FIELDS = sorted({key for t in TYPES for key in t.fields} | {"no_such_field"})
SHARE = st.floats(0, 1)


def _box(shares: list[float]) -> list[float]:
    """Left and top before right and bottom."""
    a, b, c, d = shares
    return [min(a, c), min(b, d), max(a, c), max(b, d)]


hints = st.fixed_dictionaries(
    {"field": st.sampled_from(FIELDS)},
    optional={
        "anchor_aliases": st.lists(
            st.one_of(st.sampled_from(LABELS), st.text(min_size=1, max_size=4).filter(str.strip)), max_size=3
        ),
        "region": st.lists(SHARE, min_size=4, max_size=4).map(_box).filter(lambda r: r[0] < r[2] and r[1] < r[3]),
        "value_regex": st.sampled_from(["[0-9]+", "公司", ".+", "^..", "年.月", "(?<=：)..."]),
        "tool_policy": st.lists(st.sampled_from(["zoom", "red_ink", "qr"]), max_size=2),
    },
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    lines=st.lists(text_lines(upright_quads()), max_size=15),
    told=st.lists(hints, min_size=1, max_size=3),
    type_id=st.sampled_from([t.id for t in TYPES]),
)
def test_any_guidance_on_any_page(lines: list[TextLine], told: list[dict[str, Any]], type_id: str) -> None:
    rows, doc_type = rows_of(runs_of(lines)), REGISTRY.get(type_id)
    applied = Guidance.from_json(told).for_page(type_id, "")
    layout = read_layout(rows, doc_type, classify(rows, REGISTRY, doc_type=type_id), applied)
    plan(doc_type, layout, hints=applied)
    assert set(layout.drafts) <= set(doc_type.fields)


@pytest.mark.parametrize("character", ["\ufb01", "㎡", "ﷺ", "\u0301", "\u200b", "\ud800", "\U0001f600", "\x00", "①", "％"])
def test_characters_whose_comparison_form_is_longer_or_empty(character: str) -> None:
    quad = np.array([[0, 0], [300, 0], [300, 38], [0, 38]], np.float32)
    for text in (character, f"名称：{character}公司", f"名{character}称：示例公司", character * 30):
        places = tuple((i + 0.5) / len(text) for i in range(len(text)))
        read([TextLine(quad, text, 0.9, places, (0.9,) * len(text))], "business_licence")


def grid(count: int, text: str, columns: int = 3) -> list[TextLine]:
    lines = []
    for i in range(count):
        x, y = (i % columns) * 420.0, (i // columns) * 40.0
        quad = np.array([[x, y], [x + 400, y], [x + 400, y + 34], [x, y + 34]], np.float32)
        lines.append(TextLine(quad, text, 0.9, tuple((n + 0.5) / len(text) for n in range(len(text))), (0.9,) * len(text)))
    return lines


@pytest.mark.parametrize(
    "text",
    [
        "统一社会信用代码名称类型住所法定代表人",
        "示例市样本贸易有限公司道路普通货物运输",
        "20212021年6月18日日年月20190305",
        "经审核" * 8,
        "(" * 20,
        "营业执照",
    ],
)
def test_a_page_of_300_lines_is_read_in_bounded_time(text: str) -> None:
    """A hundred times what a page takes: no test times the reader, this only catches what never ends."""
    before = time.process_time()
    read(grid(300, text), "business_licence")
    read(grid(300, text))
    assert time.process_time() - before < 60


def test_one_line_of_thousands_of_characters() -> None:
    before = time.process_time()
    for text in ("名称" * 2000, "经审核" * 1500, "2019年" * 1000, "a" * 4000, "授权委托" * 1000):
        for type_id in ("business_licence", "bank_account_permit", "authorisation_letter"):
            read(grid(1, text), type_id)
    assert time.process_time() - before < 60
