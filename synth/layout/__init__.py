"""Layouts: where each form prints its labels and values, as data in ``templates/<type>/layouts``."""

from certloop.synth.layout.loader import load_layouts, other_ids, read_layout
from certloop.synth.layout.schema import FormDate, Layout, Line, Mark, Paragraphs, Row, Style, Text

__all__ = ["FormDate", "Layout", "Line", "Mark", "Paragraphs", "Row", "Style", "Text", "load_layouts", "other_ids", "read_layout"]
