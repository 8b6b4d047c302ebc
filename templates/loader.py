"""Finds document types on a search path and reads them: built-in folders first, then the user's, then a tenant's.

A later folder of the same id replaces the earlier one (that is how a user changes a built-in type). Each folder holds
``type.toml`` (titles and fields) and ``prompt.txt`` (what a vision model is asked); ``README.md`` in this room tells how
to add one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from certloop.templates.schema import DocumentType, FieldKind, FieldSpec, SentenceRule, TemplateError, UnknownTypeError

BUILTIN = Path(__file__).resolve().parent
_ID = re.compile(r"[a-z][a-z0-9_]{1,63}")
_FIELD_KEYS = {
    "id", "label", "kind", "required", "aliases", "validators", "values", "unlabelled", "placement", "sentences", "value_pattern",
    "part", "mark", "range_of", "range_part",
}  # fmt: skip
_TYPE_KEYS = {
    "id",
    "version",
    "title",
    "title_en",
    "titles",
    "not_titles",
    "one_of",
    "stop_labels",
    "titled",
    "form",
    "meta",
    "fields",
}
_PLACEMENTS = ("right", "below", "any")


@dataclass(frozen=True, slots=True)
class Registry:
    """The document types of one search path, by id, in a stable order."""

    types: Mapping[str, DocumentType]

    def get(self, type_id: str) -> DocumentType:
        """Return one type. Raises UnknownTypeError (code unknown_type) that lists the known ids."""
        try:
            return self.types[type_id]
        except KeyError:
            known = ", ".join(self.types)
            raise UnknownTypeError(f"unknown document type {type_id!r}; known types: {known}") from None

    def __iter__(self) -> Iterator[DocumentType]:
        return iter(self.types.values())

    def __len__(self) -> int:
        return len(self.types)


def load_types(search_path: Iterable[Path | str] = ()) -> Registry:
    """Load the built-in types and those of every folder of ``search_path`` (later ones win).

    Raises TemplateError (code template_invalid) naming the file and the entry that is wrong.
    """
    return _load(tuple(str(p) for p in search_path))


def reload_types(search_path: Iterable[Path | str] = ()) -> Registry:
    """Read the folders again, whatever was loaded before. Raises TemplateError; then what was loaded stays in force."""
    fresh = _load.__wrapped__(tuple(str(p) for p in search_path))
    _load.cache_clear()
    return fresh


@lru_cache(maxsize=32)
def _load(search_path: tuple[str, ...]) -> Registry:
    types: dict[str, DocumentType] = {}
    for source, root in (("builtin", BUILTIN), *((p, Path(p)) for p in search_path)):
        if not root.is_dir():
            raise TemplateError(f"template folder {root} does not exist; correct the search path")
        for folder in sorted(p.parent for p in root.glob("*/type.toml")):
            doc_type = read_type(folder, source=source)
            types[doc_type.id] = doc_type
    return Registry(types)


def read_type(folder: Path, *, source: str = "user") -> DocumentType:
    """Read and check one folder. Raises TemplateError."""
    path = folder / "type.toml"
    try:
        data = tomllib.loads(_read(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TemplateError(f"{path}: {error}") from error
    _check_keys(path, "type", data, _TYPE_KEYS)
    if data.get("id") != folder.name or not _ID.fullmatch(folder.name):
        raise TemplateError(f"{path}: id must equal the folder's name {folder.name!r} and match {_ID.pattern}")
    fields = [_field(path, number, entry) for number, entry in enumerate(_list(path, "type", data, "fields", needed=True), 1)]
    ids = [f.id for f in fields]
    if len(set(ids)) != len(ids):
        raise TemplateError(f"{path}: a field id stands twice")
    groups = [{"one_of": group} for group in _list(path, "type", data, "one_of")]
    one_of = tuple(_texts(path, "type", group, "one_of", needed=True) for group in groups)
    if missing := {i for group in one_of for i in group} - set(ids):
        raise TemplateError(f"{path}: one_of names unknown fields {sorted(missing)}")
    if not isinstance(version := data.get("version"), str | int | float) or not str(version):
        raise TemplateError(f"{path}: 'version' must be a text or a number")
    prompt = folder / "prompt.txt"
    return DocumentType(
        id=data["id"],
        version=str(version),
        title=_text(path, "type", data, "title"),
        title_en=_text(path, "type", data, "title_en"),
        titles=_texts(path, "type", data, "titles", needed=True),
        not_titles=_texts(path, "type", data, "not_titles"),
        fields={f.id: f for f in fields},
        one_of=one_of,
        stop_labels=_texts(path, "type", data, "stop_labels"),
        titled=_flag(path, "type", data, "titled", default=True),
        form=_flag(path, "type", data, "form", default=True),
        meta=_meta(path, data),
        prompt=_read(prompt) if prompt.exists() else "",
        source=source,
    )


def _field(path: Path, number: int, entry: Any) -> FieldSpec:
    if not isinstance(entry, dict):
        raise TemplateError(f"{path}: field number {number} must be a table; write [[fields]] above its entries")
    name = _text(path, f"field number {number}", entry, "id")
    where = f"field {name}"
    _check_keys(path, where, entry, _FIELD_KEYS)
    kind = _text(path, where, entry, "kind")
    if kind not in list(FieldKind):
        raise TemplateError(f"{path}: {where}: unknown kind {kind!r}; one of {', '.join(FieldKind)}")
    placement = entry.get("placement", "right")
    if placement not in _PLACEMENTS:
        raise TemplateError(f"{path}: {where}: placement must be one of {', '.join(_PLACEMENTS)}")

    def maybe(key: str) -> str | None:
        return _text(path, where, entry, key) if key in entry else None

    pattern = maybe("value_pattern")
    return FieldSpec(
        id=name,
        label=_text(path, where, entry, "label"),
        kind=FieldKind(kind),
        required=_flag(path, where, entry, "required", default=False),
        aliases=_texts(path, where, entry, "aliases"),
        validators=_texts(path, where, entry, "validators"),
        values=_texts(path, where, entry, "values"),
        unlabelled=_flag(path, where, entry, "unlabelled", default=False),
        placement=placement,
        sentences=tuple(SentenceRule(_regex(path, where, p, group="value")) for p in _texts(path, where, entry, "sentences")),
        value_pattern=None if pattern is None else _regex(path, where, pattern),
        part=maybe("part"),
        mark=maybe("mark"),
        range_of=maybe("range_of"),
        range_part=maybe("range_part") or "end",
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TemplateError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from error


def _regex(path: Path, where: str, pattern: str, group: str | None = None) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise TemplateError(f"{path}: {where}: bad pattern {pattern!r}: {error}") from error
    if group and group not in compiled.groupindex:
        raise TemplateError(f"{path}: {where}: pattern {pattern!r} needs a group named {group!r}")
    return compiled


def _text(path: Path, where: str, data: dict[str, Any], key: str) -> str:
    if not isinstance(value := data.get(key), str) or not value:
        raise TemplateError(f"{path}: {where}: {key!r} is missing or no text")
    return value


def _texts(path: Path, where: str, data: dict[str, Any], key: str, *, needed: bool = False) -> tuple[str, ...]:
    values = _list(path, where, data, key, needed=needed)
    if not all(isinstance(value, str) and value for value in values):
        raise TemplateError(f"{path}: {where}: {key!r} must be a list of texts that are not empty")
    return tuple(values)


def _list(path: Path, where: str, data: dict[str, Any], key: str, *, needed: bool = False) -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise TemplateError(f"{path}: {where}: {key!r} must be a list")
    if needed and not value:
        raise TemplateError(f"{path}: {where}: {key!r} is missing or empty")
    return value


def _flag(path: Path, where: str, data: dict[str, Any], key: str, *, default: bool) -> bool:
    if not isinstance(value := data.get(key, default), bool):
        raise TemplateError(f"{path}: {where}: {key!r} must be true or false")
    return value


def _meta(path: Path, data: dict[str, Any]) -> dict[str, str]:
    meta = data.get("meta", {})
    if not isinstance(meta, dict) or any(isinstance(value, dict | list) for value in meta.values()):
        raise TemplateError(f"{path}: type: 'meta' must be a table of plain values")
    return {key: str(value) for key, value in meta.items()}


def _check_keys(path: Path, where: str, data: dict[str, Any], allowed: set[str]) -> None:
    if unknown := set(data) - allowed:
        raise TemplateError(f"{path}: {where}: unknown keys {sorted(unknown)}; allowed: {sorted(allowed)}")
