"""What a language model is asked for, and what is refused: JSON with exactly the fields, codes and places that agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from certloop.synth.fields import Fact, Firm
from certloop.synth.fields.regions import Place

# Fields that a model may write: words. Numbers, codes and dates come from the generator, which knows their check digits.
WRITABLE = (
    "name",
    "operator",
    "producer",
    "principal",
    "address",
    "residence",
    "premises",
    "registered_address",
    "warehouse",
    "scope",
    "items",
    "matter",
    "person",
)
_LIMITS = {"name": 40, "operator": 40, "producer": 40, "principal": 40, "person": 4, "scope": 600, "items": 200, "matter": 120}


def wanted_fields(facts: Mapping[str, Fact], fields: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of this page that a model may write."""
    return tuple(f for f in WRITABLE if f in facts and f in fields and isinstance(facts[f], str))


def json_schema(wanted: tuple[str, ...]) -> dict[str, Any]:
    """The JSON schema of the answer."""
    return {
        "type": "object", "additionalProperties": False, "required": list(wanted),
        "properties": {f: {"type": "string", "minLength": 2, "maxLength": _LIMITS.get(f, 60)} for f in wanted},
    }  # fmt: skip


def request_text(title: str, firm: Firm, wanted: tuple[str, ...], longest_scope: int) -> str:
    """The instruction: fictional values of one firm in one county."""
    place = firm.place
    return (
        f"为一份虚构的《{title}》编写内容，只输出一个 JSON 对象，键为：{'、'.join(wanted)}。\n"
        f"企业类型：{firm.type}；所在地：{place.full}（行政区划代码 {place.code}）；行业：{firm.industry['name_words'][0]}。\n"
        f"地址必须位于{place.city}{place.county}，企业名称须虚构且不得使用真实企业名称，人名为 2 至 4 个汉字，"
        f"经营范围不超过 {longest_scope} 字。"
    )


def problems(answer: str, wanted: tuple[str, ...], place: Place, longest_scope: int) -> list[str]:
    """Why ``answer`` cannot be used; empty when it can."""
    try:
        data = json.loads(answer)
    except json.JSONDecodeError:
        return ["the answer is no JSON"]
    if not isinstance(data, dict) or set(data) != set(wanted):
        return [f"the keys must be exactly {', '.join(wanted)}"]
    found = []
    for key, value in data.items():
        if not isinstance(value, str) or not 2 <= len(value.strip()) <= _LIMITS.get(key, 60):
            found.append(f"{key} must be text of 2 to {_LIMITS.get(key, 60)} characters")
        elif key in ("address", "residence", "premises", "registered_address", "warehouse") and not _inside(value, place):
            found.append(f"{key} must lie in {place.city}{place.county}")
        elif key in ("scope", "items") and len(value) > longest_scope:
            found.append(f"{key} is longer than {longest_scope} characters")
        elif key in ("name", "operator", "producer", "principal") and any(c.isdigit() for c in value):
            found.append(f"{key} must hold no digits")
    return found


def _inside(address: str, place: Place) -> bool:
    return place.county in address and (place.city in address or place.province in address)
