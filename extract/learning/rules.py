"""What can be learned about a form, as data: another printed label of a field, or where a value of a known shape stands.

A rule never holds a value. Its texts pass ``agentrl.memory.refuse``, its patterns come from the closed list below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from certloop.agentrl.memory import RuleRefusedError, check_keys, check_text
from certloop.extract.guidance import Guidance, GuidanceError, Hint

LABEL, SHAPE = "label", "shape"

PATTERNS: Mapping[str, str] = {
    "uscc": r"(?<![0-9A-Z])[0-9A-HJ-NPQRTUWXY]{2}\d{6}[0-9A-HJ-NPQRTUWXY]{10}(?![0-9A-Z])",
    "regno15": r"(?<!\d)\d{15}(?!\d)",
    "id_number": r"(?<![0-9A-Z])\d{17}[0-9X](?![0-9A-Z])",
}
"""Shapes that are rare enough on a page to be taken without a label (GB 32100, GS15, GB 11643)."""

_LABEL = re.compile(r"[一-鿿][一-鿿()（）/、·]{0,15}[一-鿿)）]")


def check_label(body: Mapping[str, Any]) -> None:
    """``{field, label}``: a label is 2 to 17 Chinese characters. Raises RuleRefusedError."""
    check_keys(body, ("field", "label"))
    _field(body)
    label = body.get("label")
    if not isinstance(label, str) or not _LABEL.fullmatch(check_text(label)):
        raise RuleRefusedError("a label is printed in 2 to 17 Chinese characters")


def check_shape(body: Mapping[str, Any]) -> None:
    """``{field, pattern, region}``: a pattern of the closed list, in a part of the page. Raises RuleRefusedError."""
    check_keys(body, ("field", "pattern", "region"))
    _field(body)
    if body.get("pattern") not in PATTERNS:
        raise RuleRefusedError(f"a shape is one of {', '.join(PATTERNS)}")
    try:
        Hint.from_json({"field": body["field"], "region": body.get("region")})
    except GuidanceError as error:
        raise RuleRefusedError(error.message) from None


KINDS = {LABEL: check_label, SHAPE: check_shape}
"""For ``agentrl.memory.MemoryConfig.kinds``."""


def hint_of(kind: str, doc_type: str, body: Mapping[str, Any]) -> Hint:
    """The hint by which a rule reaches the reader. Raises RuleRefusedError for anything outside the closed list."""
    if kind not in KINDS:
        raise RuleRefusedError(f"nothing of kind {kind[:24]} can be learned")
    KINDS[kind](body)
    if kind == LABEL:
        return Hint.from_json({"field": body["field"], "doc_type": doc_type, "anchor_aliases": [body["label"]]})
    pattern, region = PATTERNS[body["pattern"]], body.get("region")
    return Hint.from_json({"field": body["field"], "doc_type": doc_type, "value_regex": pattern, "region": region})


def guidance_of(rules: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Guidance:
    """Guidance of rules ``(kind, document type, body)``; the order is theirs."""
    return Guidance(tuple(hint_of(*rule) for rule in rules))


def _field(body: Mapping[str, Any]) -> None:
    field = body.get("field")
    if not isinstance(field, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", field):
        raise RuleRefusedError("a rule names the id of a field")
