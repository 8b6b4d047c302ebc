"""Values that are printed only in the ring of a seal: the authority that issued the certificate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from certloop.extract.engine.lines import map_points
from certloop.extract.reading.document import LayoutReading, is_office
from certloop.extract.reading.drafts import Draft
from certloop.extract.reading.orient import Upright
from certloop.extract.result import Seal
from certloop.templates import DocumentType

_TAIL = re.compile(r"(登记|业务|审批|许可|备案)?专用章.*$|[(（][0-9一二三四五六七八九十]+[)）]$")


def with_seal_values(layout: LayoutReading, doc_type: DocumentType, seals: Sequence[Seal], upright: Upright) -> LayoutReading:
    """Add the authority from the ring of the seal that names an office, where the page prints it nowhere else or only its end was
    read beside its label.

    Of several such seals the lowest counts; a firm's own seal names no office.
    """
    if "authority" not in doc_type.fields:
        return layout
    printed = layout.drafts.get("authority")
    pattern = doc_type.fields["authority"].value_pattern
    named = [(s, _office(s.text)) for s in seals if s.text]
    offices = [(s, text) for s, text in named if text and (pattern is None or pattern.search(text))]
    if not offices:
        return layout
    seal, text = max(
        offices, key=lambda pair: float(map_points(np.asarray(pair[0].box, np.float32), upright.matrix)[:, 1].mean())
    )
    if printed is not None and not (text.endswith(printed.text) and len(text) > len(printed.text)):
        return layout
    quad = map_points(np.asarray(seal.box, np.float32), upright.matrix)
    draft = Draft("authority", text, (), None, "seal", quad=quad, sure=seal.text_confidence)
    return replace(layout, drafts={**layout.drafts, "authority": draft})


def _office(text: str) -> str | None:
    """The office that a ring text names; what follows it (登记专用章, (1)) is no part of its name."""
    name = _TAIL.sub("", text)
    return name if is_office(name) else None
