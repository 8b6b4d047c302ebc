"""What a document type is: one folder per type, and the loader that finds and checks them."""

from certloop.templates.loader import Registry, load_types, read_type, reload_types
from certloop.templates.schema import DocumentType, FieldKind, FieldSpec, SentenceRule, TemplateError, UnknownTypeError, squash

__all__ = [
    "DocumentType", "FieldKind", "FieldSpec", "Registry", "SentenceRule", "TemplateError", "UnknownTypeError", "load_types",
    "read_type", "reload_types", "squash",
]  # fmt: skip
