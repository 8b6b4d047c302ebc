"""What the evaluation must know of document types: their names, which label means which field, and each field's kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from certloop.agentrl.rewards import fold
from certloop.templates import Registry

MIN_PART_CHARS = 3
"""A name this short or shorter of a longer title says too little (证, 许可)."""


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """One type. ``labels`` maps folded labels, aliases and field ids to the canonical label, ``kinds`` that to a kind."""

    id: str
    title: str
    titles: tuple[str, ...]
    labels: Mapping[str, str]
    kinds: Mapping[str, str]
    not_titles: tuple[str, ...] = ()

    def canonical(self, label: str) -> str:
        """Return the canonical label, or the folded label itself when this type has no such field."""
        return self.labels.get(fold(label), fold(label))

    def has(self, label: str) -> bool:
        return fold(label) in self.labels


@dataclass(frozen=True, slots=True)
class Schema:
    """All document types by id. Build it with :func:`schema_from_registry`, or by hand for a test."""

    types: Mapping[str, TypeSchema] = field(default_factory=dict)

    def find(self, name: str | None) -> TypeSchema | None:
        """Return the type named by an id, a Chinese title or a text around a title (营业执照(空白样式)), or None."""
        if name is None:
            return None
        if name in self.types:
            return self.types[name]
        name = fold(name)
        titles = [(fold(title), t) for t in self.types.values() for title in (t.title, *t.titles)]
        for title, t in titles:
            if title == name:
                return t
        inside = [
            (len(title), t) for title, t in titles if title and title in name and not any(fold(n) in name for n in t.not_titles)
        ]
        if inside:
            return max(inside, key=lambda pair: pair[0])[1]
        around = {t.id: t for title, t in titles if len(name) >= MIN_PART_CHARS and name in title}
        return next(iter(around.values())) if len(around) == 1 else None


def type_schema(
    type_id: str,
    title: str,
    fields: Iterable[tuple[str, str, str, Iterable[str]]],
    *,
    titles: Iterable[str] = (),
    not_titles: Iterable[str] = (),
) -> TypeSchema:
    """Build a TypeSchema from (field id, canonical label, kind, aliases); a canonical label beats an alias, that a field id."""
    specs = [(field_id, fold(label), kind, tuple(aliases)) for field_id, label, kind, aliases in fields]
    labels = {label: label for _, label, _, _ in specs}
    for _, label, _, aliases in specs:
        for alias in aliases:
            labels.setdefault(fold(alias), label)
    for field_id, label, _, _ in specs:
        labels.setdefault(fold(field_id), label)
    kinds = {label: kind for _, label, kind, _ in specs}
    return TypeSchema(type_id, title, tuple(titles), labels, kinds, tuple(not_titles))


def schema_from_registry(registry: Registry) -> Schema:
    """Return what the evaluation needs of the loaded document types."""
    return Schema(
        {
            t.id: type_schema(
                t.id,
                t.title,
                ((f.id, f.label, f.kind.value, f.aliases) for f in t.fields.values()),
                titles=t.titles,
                not_titles=t.not_titles,
            )
            for t in registry
        }
    )
