"""A model's answer is found on the page, across line breaks and misread characters, and not where it does not stand."""

from __future__ import annotations

import numpy as np
import pytest

from certloop.extract.classify import classify
from certloop.extract.engine.grounding import locate
from certloop.extract.engine.lines import TextLine
from certloop.extract.reading.document import LayoutReading, read_layout
from certloop.extract.reading.glyphs import rows_of, runs_of
from certloop.templates import Registry

EM = 20


def line(text: str, x: float, y: float) -> TextLine:
    width = EM * len(text)
    quad = np.array([[x, y], [x + width, y], [x + width, y + EM / 0.78], [x, y + EM / 0.78]], np.float32)
    places = tuple((n + 0.5) / len(text) for n in range(len(text)))
    return TextLine(quad, text, 0.98, places, (0.98,) * len(text))


@pytest.fixture
def layout(registry: Registry) -> LayoutReading:
    lines = [
        line("营业执照", 300, 20),
        line("名称", 40, 100),
        line("长沙恒达商贸有限公司", 160, 100),
        line("法定代表人", 40, 150),
        line("王小明", 160, 150),
        line("经营范围", 40, 200),
        line("建材销售；五金交电批发；信息", 160, 200),
        line("技术咨询服务；道路货物运输", 160, 230),
        line("（不含危险货物）", 160, 260),
        line("王小明", 600, 400),
    ]
    rows = rows_of(runs_of(lines))
    doc_type = registry.get("business_licence")
    return read_layout(rows, doc_type, classify(rows, registry, doc_type=doc_type.id))


def extent(quad: np.ndarray) -> tuple[float, float, float, float]:
    return (*quad.min(axis=0).tolist(), *quad.max(axis=0).tolist())


def test_a_value_is_found_beside_its_label(layout: LayoutReading) -> None:
    place = locate("长沙恒达商贸有限公司", layout, "name")
    assert place is not None and place.agreement == 1.0
    assert place.score == pytest.approx(0.98)
    left, top, right, bottom = extent(place.quad)
    assert 150 < left < 175 and 345 < right < 370 and 95 < top < bottom < 135


def test_a_value_that_ocr_misread_is_found_with_less_agreement(layout: LayoutReading) -> None:
    place = locate("长沙恒达商贸有限公司".replace("达", "运"), layout, "name")
    assert place is not None
    assert place.agreement == pytest.approx(0.9)


def test_a_long_value_is_found_on_all_its_lines(layout: LayoutReading) -> None:
    text = "建材销售；五金交电批发；信息技术咨询服务；道路货物运输（不含危险货物）"
    place = locate(text, layout, "scope")
    assert place is not None and place.agreement > 0.95
    left, top, right, bottom = extent(place.quad)
    assert top < 205 and bottom > 270 and left < 175 and right > 420


def test_of_two_like_places_the_one_at_the_label_counts(layout: LayoutReading) -> None:
    place = locate("王小明", layout, "person")
    assert place is not None
    assert extent(place.quad)[0] < 200


def test_a_value_is_looked_for_outside_of_its_field_too(layout: LayoutReading) -> None:
    place = locate("王小明", layout, "authority")
    assert place is not None and place.agreement == 1.0


@pytest.mark.parametrize("value", ["北京甲乙丙丁科技集团", "1", "", " \n"])
def test_what_stands_nowhere_has_no_place(layout: LayoutReading, value: str) -> None:
    assert locate(value, layout, "serial_no") is None
