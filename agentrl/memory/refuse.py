"""What must not stand in a rule: values of documents, and instructions to whoever reads it.

Memory is a persistent way in for whoever can write a correction. A rule may name a label, a place, a pattern of a closed list
or a tool; a text in it is short, holds no run of digits, no address of a server, and no words that give orders."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from certloop.agentrl.memory.errors import RuleRefusedError
from certloop.agentrl.rewards.text import fold

LONGEST = 24
_DIGITS = re.compile(r"[0-9]{5,}")
_ADDRESS = re.compile(r"(?i)https?:|www\.|[a-z0-9._-]+@[a-z0-9-]+\.|\.(com|cn|net|org)\b")
_ORDERS = re.compile(
    "(?i)忽略|无视|不要|必须|务必|请你|请将|请把|输出|填写为|改为|返回|指令|系统提示|提示词|管理员|"
    r"ignore|disregard|instead|system\s*:|assistant|prompt|output|always|never|override|<[a-z/]"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069]")


def check_text(text: str) -> str:
    """Return a text that may stand in a rule. Raises RuleRefusedError that says what kind of thing it holds, never the text."""
    plain = unicodedata.normalize("NFKC", text[: LONGEST * LONGEST]).strip()
    if not plain or len(plain) > LONGEST or len(text) > LONGEST * LONGEST:
        raise RuleRefusedError(f"a text in a rule has 1 to {LONGEST} characters")
    if _CONTROL.search(text) or "\n" in text:
        raise RuleRefusedError("a text in a rule has no control or direction characters")
    if _DIGITS.search(plain):
        raise RuleRefusedError("a rule holds no numbers of a document")
    if _ADDRESS.search(plain):
        raise RuleRefusedError("a rule holds no addresses")
    if _ORDERS.search(plain):
        raise RuleRefusedError("a rule describes a form; it gives no orders")
    return plain


def check_against_values(text: str, values: Iterable[str]) -> None:
    """Refuse a text that is a value of the document it was learned from, or shares three or more characters in a row with one."""
    plain = _squashed(text)
    for value in values:
        other = _squashed(value)
        if not other:
            continue
        if plain in other or other in plain or any(plain[i : i + 3] in other for i in range(len(plain) - 2)):
            raise RuleRefusedError("a rule names labels and places, not what stood in a document")


def check_keys(body: Mapping[str, object], allowed: Iterable[str]) -> None:
    """Refuse keys outside of the closed list of a kind."""
    unknown = set(body) - set(allowed)
    if unknown:
        raise RuleRefusedError(f"a rule of this kind has no {min(unknown)[:24]}")


def _squashed(text: str) -> str:
    return fold(text).casefold()
