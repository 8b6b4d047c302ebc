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
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TemplateError(f"{path}: {error}") from error
    _check_keys(path, "type", data, _TYPE_KEYS)
    if data.get("id") != folder.name or not _ID.fullmatch(folder.name):
        raise TemplateError(f"{path}: id must equal the folder's name {folder.name!r} and match {_ID.pattern}")
    fields = [_field(path, entry) for entry in _list(path, data, "fields")]
    ids = [f.id for f in fields]
    if len(set(ids)) != len(ids):
        raise TemplateError(f"{path}: a field id stands twice")
    one_of = tuple(tuple(group) for group in data.get("one_of", ()))
    if missing := {i for group in one_of for i in group} - set(ids):
        raise TemplateError(f"{path}: one_of names unknown fields {sorted(missing)}")
    prompt = folder / "prompt.txt"
    return DocumentType(
        id=data["id"],
        version=str(_need(path, data, "version")),
        title=_need(path, data, "title"),
        title_en=_need(path, data, "title_en"),
        titles=tuple(_list(path, data, "titles")),
        not_titles=tuple(data.get("not_titles", ())),
        fields={f.id: f for f in fields},
        one_of=one_of,
        stop_labels=tuple(data.get("stop_labels", ())),
        titled=bool(data.get("titled", True)),
        form=bool(data.get("form", True)),
        meta={str(k): str(v) for k, v in data.get("meta", {}).items()},
        prompt=prompt.read_text(encoding="utf-8") if prompt.exists() else "",
        source=source,
    )


def _field(path: Path, entry: dict[str, Any]) -> FieldSpec:
    name = entry.get("id", "?")
    _check_keys(path, f"field {name}", entry, _FIELD_KEYS)
    try:
        kind = FieldKind(_need(path, entry, "kind"))
    except ValueError:
        raise TemplateError(f"{path}: field {name}: unknown kind {entry['kind']!r}; one of {', '.join(FieldKind)}") from None
    placement = entry.get("placement", "right")
    if placement not in _PLACEMENTS:
        raise TemplateError(f"{path}: field {name}: placement must be one of {', '.join(_PLACEMENTS)}")
    return FieldSpec(
        id=_need(path, entry, "id"),
        label=_need(path, entry, "label"),
        kind=kind,
        required=bool(entry.get("required", False)),
        aliases=tuple(entry.get("aliases", ())),
        validators=tuple(entry.get("validators", ())),
        values=tuple(entry.get("values", ())),
        unlabelled=bool(entry.get("unlabelled", False)),
        placement=placement,
        sentences=tuple(SentenceRule(_regex(path, name, p, group="value")) for p in entry.get("sentences", ())),
        value_pattern=_regex(path, name, entry["value_pattern"]) if "value_pattern" in entry else None,
        part=entry.get("part"),
        mark=entry.get("mark"),
        range_of=entry.get("range_of"),
        range_part=entry.get("range_part", "end"),
    )


def _regex(path: Path, name: str, pattern: str, group: str | None = None) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise TemplateError(f"{path}: field {name}: bad pattern {pattern!r}: {error}") from error
    if group and group not in compiled.groupindex:
        raise TemplateError(f"{path}: field {name}: pattern {pattern!r} needs a group named {group!r}")
    return compiled


def _need(path: Path, data: dict[str, Any], key: str) -> Any:
    if not data.get(key):
        raise TemplateError(f"{path}: {key!r} is missing or empty")
    return data[key]


def _list(path: Path, data: dict[str, Any], key: str) -> list[Any]:
    value = _need(path, data, key)
    if not isinstance(value, list):
        raise TemplateError(f"{path}: {key!r} must be a list")
    return value


def _check_keys(path: Path, where: str, data: dict[str, Any], allowed: set[str]) -> None:
    if unknown := set(data) - allowed:
        raise TemplateError(f"{path}: {where}: unknown keys {sorted(unknown)}; allowed: {sorted(allowed)}")
