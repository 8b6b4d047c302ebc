"""The words of nano's pages (``vocabulary.toml``) and every glyph that can stand on one."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from certloop.synth.fields.codes import USCC_ALPHABET
from certloop.templates import DocumentType
from certloop.templates.loader import read_type

HERE = Path(__file__).resolve().parent
TYPES = HERE / "types"
"""A folder for the search path of document types: it makes ``nano_licence`` known to every command."""
TYPE_ID = "nano_licence"
TITLE = "营业执照"


@dataclass(frozen=True, slots=True)
class Words:
    """Vocabulary by use; ``counties`` maps a six-digit region code to city and county."""

    surnames: str
    given: str
    counties: dict[str, str]
    roads: tuple[str, ...]
    road_kinds: tuple[str, ...]
    first: str
    second: str
    industries: tuple[str, ...]
    company_ending: str
    trader_endings: tuple[str, ...]
    company_types: tuple[str, ...]
    trader_types: tuple[str, ...]
    reasoning: str


@lru_cache(maxsize=1)
def words() -> Words:
    data: dict[str, Any] = tomllib.loads((HERE / "vocabulary.toml").read_text(encoding="utf-8"))
    places, names, types = data["places"], data["names"], data["types"]
    return Words(
        surnames=data["people"]["surnames"],
        given=data["people"]["given"],
        counties=places["counties"],
        roads=tuple(places["roads"]),
        road_kinds=tuple(places["road_kinds"]),
        first=names["first"],
        second=names["second"],
        industries=tuple(names["industries"]),
        company_ending=names["company_ending"],
        trader_endings=tuple(names["trader_endings"]),
        company_types=tuple(types["company"]),
        trader_types=tuple(types["trader"]),
        reasoning=data["reasoning"]["characters"],
    )


@lru_cache(maxsize=1)
def nano_type() -> DocumentType:
    """The document type of nano's pages: its fields in the order of the answer, its labels and its prompt."""
    return read_type(TYPES / TYPE_ID)


@lru_cache(maxsize=1)
def page_glyphs() -> str:
    """Every character that a page can carry, each once, in a fixed order (about 200: the classes of the glyph stage)."""
    known = words()
    parts = [USCC_ALPHABET, "年月日号市区省：", TITLE, *(label for spec in nano_type().fields.values() for label in spec.labels)]
    parts += [known.surnames, known.given, *known.counties.values(), *known.roads, *known.road_kinds, known.first, known.second]
    parts += [*known.industries, known.company_ending, *known.trader_endings, *known.company_types, *known.trader_types]
    return "".join(dict.fromkeys("".join(parts)))
