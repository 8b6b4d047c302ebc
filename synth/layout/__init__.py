"""Layouts: where each form prints its labels and values, as data in ``templates/<type>/layouts``."""

from certloop.synth.layout.drift import base_id, drift_layout, drift_set
from certloop.synth.layout.loader import find_layout, load_layouts, other_ids, read_layout
from certloop.synth.layout.schema import FormDate, Layout, Line, Mark, Paragraphs, Row, Style, Text

__all__ = [
    "FormDate",
    "Layout",
    "Line",
    "Mark",
    "Paragraphs",
    "Row",
    "Style",
    "Text",
    "base_id",
    "drift_layout",
    "drift_set",
    "find_layout",
    "load_layouts",
    "other_ids",
    "read_layout",
]
