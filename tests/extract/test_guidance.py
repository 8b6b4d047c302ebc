"""Guidance is the only door by which memory steers the reader: what it can change, and that none changes nothing."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from layout_lines import at, form, layout_of, read_page

from certloop.agentrl.errors import CertloopError
from certloop.extract import ExtractConfig, Extractor, Guidance
from certloop.extract.guidance import GuidanceError, Hint

PAGE = [
    *form(
        ("名    称", "示例市样本贸易有限公司"),
        ("类    型", "有限责任公司"),
        ("法定代表人", "王小明"),
        ("店堂位置", "示例市样本区光明路8号"),
    ),
    at(900, 200, "注册资本"),
    at(1060, 200, "壹佰万元整"),
    at(900, 1000, "档案 A2019-0305 卷"),
]


def hints(**data: Any) -> tuple[Hint, ...]:
    return Guidance.from_json([data]).hints


def test_without_guidance() -> None:
    assert read_page(PAGE) == {
        "name": "示例市样本贸易有限公司",
        "type": "有限责任公司",
        "person": "王小明",
        "registered_capital": "壹佰万元整",
    }


def test_an_alias_makes_a_printed_label_known() -> None:
    found = read_page(PAGE, hints=hints(field="address", anchor_aliases=["店堂位置"]))
    assert found == read_page(PAGE) | {"address": "示例市样本区光明路8号"}


def test_a_pattern_finds_a_value_without_a_label() -> None:
    found = read_page(PAGE, hints=hints(field="serial_no", value_regex="A[0-9]{4}-[0-9]{4}"))
    assert found["serial_no"] == "A2019-0305"


def test_a_pattern_cuts_the_value_that_its_label_gave() -> None:
    assert read_page(PAGE, hints=hints(field="type", value_regex="有限责任"))["type"] == "有限责任"


def test_a_pattern_outside_its_region_is_not_taken() -> None:
    top = hints(field="serial_no", value_regex="A[0-9]{4}-[0-9]{4}", region=[0, 0, 1, 0.5])
    bottom = hints(field="serial_no", value_regex="A[0-9]{4}-[0-9]{4}", region=[0, 0.5, 1, 1])
    assert "serial_no" not in read_page(PAGE, hints=top)
    assert read_page(PAGE, hints=bottom)["serial_no"] == "A2019-0305"


def test_a_label_outside_the_region_is_not_read() -> None:
    found = read_page(PAGE, hints=hints(field="registered_capital", region=[0, 0, 0.4, 1]))
    assert "registered_capital" not in found


def test_a_hint_for_another_type_or_another_page_does_not_apply() -> None:
    guidance = Guidance.from_json([
        {"field": "address", "doc_type": "id_card", "anchor_aliases": ["店堂位置"]},
        {"field": "address", "trigger": "示例省", "anchor_aliases": ["店堂位置"]},
        {"field": "name", "trigger": "法定 代表人", "anchor_aliases": ["店堂位置"]},
    ])  # fmt: skip
    applied = guidance.for_page("business_licence", layout_of(PAGE).text)
    assert [h.field for h in applied] == ["name"]


def test_a_hint_for_a_field_that_the_type_has_not_is_ignored() -> None:
    assert read_page(PAGE, hints=hints(field="mileage", anchor_aliases=["类    型"], value_regex="[0-9]+")) == read_page(PAGE)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"field": "name", "colour": "red"}, "colour"),
        ({}, "field"),
        ({"field": 7}, "field"),
        ({"field": "name", "region": [0, 0, 1]}, "region"),
        ({"field": "name", "region": [0, 0, 1.5, 1]}, "region"),
        ({"field": "name", "value_regex": "("}, "value_regex"),
        ({"field": "name", "tool_policy": ["shell"]}, "shell"),
    ],
)
def test_bad_guidance_is_refused_with_the_name_of_what_is_wrong(data: dict[str, Any], named: str) -> None:
    with pytest.raises(GuidanceError, match=named) as caught:
        Guidance.from_json([data])
    assert caught.value.code == "guidance_invalid"
    assert isinstance(caught.value, CertloopError)
    assert isinstance(caught.value, ValueError)


def test_guidance_travels_to_worker_processes() -> None:
    config = ExtractConfig(guidance=Guidance(hints(field="name", value_regex="公司", region=[0, 0, 1, 1], tool_policy=["zoom"])))
    assert pickle.loads(pickle.dumps(config)) == config


def test_the_reader_follows_guidance_and_does_nothing_else(extractor: Extractor, root: Path) -> None:
    """Empty guidance is the same as none, byte for byte; a tool policy runs the tool; a pattern for one field moves no other."""
    path = root / "examples" / "identity_card_front.jpg"
    plain = extractor.read(path)
    with Extractor(ExtractConfig(guidance=Guidance.from_json([]))) as reader:
        assert json.dumps(reader.read(path).to_json()) == json.dumps(plain.to_json())
    told = Guidance.from_json([
        {"field": "name", "doc_type": "id_card", "tool_policy": ["zoom"]},
        {"field": "address", "doc_type": "id_card", "value_regex": "^..."},
    ])  # fmt: skip
    with Extractor(dataclasses.replace(ExtractConfig(), guidance=told)) as reader:
        steered = reader.read(path).documents[0]
    usual = plain.documents[0]
    assert not any(s["tool"] == "zoom" and s["args"].get("field") == "name" for s in usual.steps)
    assert any(s["tool"] == "zoom" and s["args"].get("field") == "name" for s in steered.steps)
    assert steered.fields["address"].value == (usual.fields["address"].value or "")[:3]
    assert {k: f.value for k, f in steered.fields.items() if k != "address"} == {
        k: f.value for k, f in usual.fields.items() if k != "address"
    }
