"""Reads layout files (``templates/<type>/layouts/*.toml``) and checks them against their document type."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from certloop.synth.errors import LayoutError
from certloop.synth.layout.drift import base_id, drift_layout
from certloop.synth.layout.schema import FormDate, Layout, Line, Mark, Paragraphs, Row, Style, Text
from certloop.templates import DocumentType, Registry, UnknownTypeError, load_types, squash
from certloop.templates.loader import BUILTIN

OTHERS = Path(__file__).resolve().parent.parent / "data" / "other_documents"
_PARTS: dict[str, type] = {"rows": Row, "texts": Text, "paragraphs": Paragraphs, "dates": FormDate, "marks": Mark, "lines": Line}
_PRINTED_COPY = "copy"
T = TypeVar("T")


def load_layouts(type_id: str, search_path: Iterable[Path | str] = ()) -> tuple[Layout, ...]:
    """Layouts of one type, by file name. Raises UnknownTypeError, and LayoutError when there is none or one is not well
    formed."""
    return _load(type_id, tuple(str(p) for p in search_path))


@lru_cache(maxsize=64)
def _load(type_id: str, search_path: tuple[str, ...]) -> tuple[Layout, ...]:
    if type_id in other_ids():
        return tuple(read_layout(path, None) for path in sorted((OTHERS / type_id).glob("*.toml")))
    registry: Registry = load_types(search_path)
    try:
        doc_type = registry.get(type_id)
    except UnknownTypeError as error:
        raise UnknownTypeError(f"{error.message}; documents outside the schema: {', '.join(other_ids())}") from None
    found: dict[str, Layout] = {}
    for root in (BUILTIN, *map(Path, search_path)):
        for path in sorted((root / type_id / "layouts").glob("*.toml")):
            found[path.stem] = read_layout(path, doc_type)
    if not found:
        raise LayoutError(f"document type {type_id!r} has no layout; add one to templates/{type_id}/layouts/")
    return tuple(found[key] for key in sorted(found))


def find_layout(type_id: str, layout_id: str, search_path: Iterable[Path | str] = ()) -> Layout:
    """One layout by id; ``id~d7`` is edition 7 of the drift generator. Raises LayoutError listing the known ids."""
    base, number = base_id(layout_id)
    layouts = {layout.id: layout for layout in load_layouts(type_id, search_path)}
    if base not in layouts:
        raise LayoutError(f"document type {type_id!r} has no layout {layout_id!r}; known: {', '.join(layouts)}")
    if number is None:
        return layouts[base]
    doc_type = None if type_id in other_ids() else load_types(tuple(search_path)).get(type_id)
    return drift_layout(layouts[base], number, doc_type)


@lru_cache(maxsize=1)
def other_ids() -> tuple[str, ...]:
    """Documents that are no type of the product (an invoice, a notice): what must come back as unknown."""
    return tuple(sorted(p.name for p in OTHERS.iterdir() if p.is_dir())) if OTHERS.is_dir() else ()


def read_layout(path: Path, doc_type: DocumentType | None) -> Layout:
    """Read one file. Raises LayoutError naming the file and the entry."""
    data = _read(path)
    base = {"label": Style(font="hei"), "value": Style()}
    styles = base | {k: _build(path, f"style {k}", Style, v) for k, v in data.pop("styles", {}).items()}
    parts: dict[str, Any] = {
        key: tuple(_build(path, f"{key}[{i}]", cls, e) for i, e in enumerate(data.pop(key, ()))) for key, cls in _PARTS.items()
    }
    type_id = doc_type.id if doc_type else path.parent.name
    layout: Layout = _build(path, "layout", Layout, {"id": path.stem, "type_id": type_id, "styles": styles, **parts, **data})
    if layout.background:
        picture = path.parent / layout.background
        if not picture.is_file():
            raise LayoutError(f"{path}: the background {layout.background} does not stand beside it")
        layout = replace(layout, background=str(picture))
    _check(path, layout, doc_type)
    return layout


def _read(path: Path) -> dict[str, Any]:
    """The file's entries; ``extends`` names a file beside it whose entries it takes over (its own win, styles are merged)."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LayoutError(f"{path}: {error}") from error
    parent = data.pop("extends", None)
    if parent is None:
        return data
    inherited = _read(path.parent / f"{parent}.toml")
    styles = inherited.pop("styles", {}) | data.pop("styles", {})
    extra = {key: inherited.get(key, []) + data.pop(f"more_{key}") for key in _PARTS if f"more_{key}" in data}
    return inherited | data | extra | {"styles": styles}


def _build(path: Path, where: str, cls: type[T], entry: dict[str, Any]) -> T:
    known = {f.name for f in dataclass_fields(cls)}  # type: ignore[arg-type]
    if unknown := set(entry) - known:
        raise LayoutError(f"{path}: {where}: unknown keys {sorted(unknown)}; allowed: {sorted(known)}")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    for key in ("text", "paper", "labels"):
        if cls in (Text, Paragraphs, Layout, Row) and isinstance(values.get(key), str):
            values[key] = (values[key],)
    try:
        return cls(**values)
    except TypeError as error:
        raise LayoutError(f"{path}: {where}: {error}") from None


def _check(path: Path, layout: Layout, doc_type: DocumentType | None) -> None:
    used = {
        getattr(e, k)
        for part in _PARTS
        for e in getattr(layout, part)
        for k in ("style", "label_style", "value_style")
        if hasattr(e, k)
    }
    if missing := used - set(layout.styles):
        raise LayoutError(f"{path}: styles {sorted(missing)} are used and not defined")
    if doc_type is None:
        return
    if unknown := set(layout.fields) - set(doc_type.fields):
        raise LayoutError(f"{path}: {doc_type.id} has no fields {sorted(unknown)}; known: {', '.join(doc_type.fields)}")
    for row in layout.rows:
        spec = doc_type.fields[row.field]
        allowed = {squash(name) for name in spec.labels}
        for label in row.labels:
            if squash(label) and squash(label) not in allowed:
                raise LayoutError(
                    f"{path}: label {label!r} is no printed label of field {row.field}; allowed: {', '.join(spec.labels)}"
                )
