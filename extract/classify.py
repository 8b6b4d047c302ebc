"""Which document type a page is: its printed title first, its labels second; unknown is an answer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from certloop.extract.reading.glyphs import Row
from certloop.extract.reading.labels import STOP, Label, edit_distance, find_labels
from certloop.templates import DocumentType, Registry, squash

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Title:
    """A printed title: the type it names, its text, and where it stands (upright pixels)."""

    type_id: str
    text: str
    x: float
    y: float
    em: float
    score: float
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Classification:
    """``type_id`` is a template id or ``unknown``; ``confidence`` in [0, 1]; the labels found for that type."""

    type_id: str
    confidence: float
    title: Title | None
    labels: tuple[Label, ...]


def find_titles(rows: Sequence[Row], registry: Registry) -> list[Title]:
    """Every row piece that *is* a title (a sentence that mentions one is not); one piece may resemble titles of several types."""
    found = []
    for row in rows:
        for start, end in _pieces(row):
            glyphs = row.glyphs[start:end]
            keys = _bare("".join(g.key for g in glyphs))
            x, y = (glyphs[0].left + glyphs[-1].right) / 2, sum(g.y for g in glyphs) / len(glyphs)
            em = sorted(g.em for g in glyphs)[len(glyphs) // 2]
            if not 3 <= len(keys) <= 30:
                continue
            for doc_type in registry:
                score, title = max(
                    ((_title_score(keys, t), t) for t in _titles(doc_type)), key=lambda pair: (pair[0], len(pair[1]))
                )
                if score and not any(bad in keys and bad not in title for bad in doc_type.not_titles):
                    text = "".join(g.char for g in glyphs)
                    found.append(Title(doc_type.id, text, x, y, em, score, glyphs[0].left, glyphs[-1].right))
    return found


@lru_cache(maxsize=256)
def _squashed(titles: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(squash(title) for title in titles)


def _titles(doc_type: DocumentType) -> tuple[str, ...]:
    return _squashed(doc_type.titles)


def _pieces(row: Row) -> list[tuple[int, int]]:
    """Pieces of a row between white space wider than 3 em or jumps in size."""
    cuts = [0]
    for i in range(1, len(row.glyphs)):
        ratio = row.glyphs[i].em / row.glyphs[i - 1].em
        if row.gaps[i] > 3.5 or ratio > 1.5 or ratio < 0.66:
            cuts.append(i)
    cuts.append(len(row.glyphs))
    return [(a, b) for a, b in itertools.pairwise(cuts) if b > a]


def _bare(keys: str) -> str:
    for mark in ("(副本)", "(正本)", "(副)", "(正)", "副本", "正本", "复印件", "(样本)", "(样式)"):
        keys = keys.replace(mark, "")
    return keys.strip("()·.-_:*☆★ ")


def _title_score(keys: str, title: str) -> float:
    """1.0 for the title itself, less with other characters around or within it; 0 for anything else."""
    if not keys or len(keys) > len(title) + 8:
        return 0.0
    if keys == title:
        return 1.0
    if len(title) >= 4 and (keys.endswith(title) or keys.startswith(title)):
        extra = len(keys) - len(title)
        return max(0.0, 1.0 - 0.08 * extra) if all("一" <= c <= "鿿" or c in "()" for c in keys.replace(title, "")) else 0.0
    if len(title) >= 5 and len(set(title) & set(keys)) < len(set(title)) - 3:
        return 0.0
    if len(title) >= 5 and abs(len(keys) - len(title)) <= 1 and edit_distance(keys, title) <= (1 if len(title) < 8 else 2):
        return 0.8
    return 0.0


def classify(rows: Sequence[Row], registry: Registry, *, doc_type: str | None = None) -> Classification:
    """Choose the type. With ``doc_type`` given, only its labels are looked for."""
    titles = find_titles(rows, registry)
    if doc_type is not None:
        chosen = registry.get(doc_type)
        title = max((t for t in titles if t.type_id == doc_type), key=lambda t: t.em, default=None)
        return Classification(doc_type, 1.0, title, tuple(find_labels(rows, chosen)))
    tallest = max((t.em for t in titles), default=0.0)
    headline = {}
    for title in sorted(titles, key=lambda t: t.score * (t.em / tallest)):
        headline[title.type_id] = title
    candidates = []
    for candidate in registry:
        title = headline.get(candidate.id)
        if title is None and candidate.titled and not _worth_trying(rows, candidate):
            continue
        labels = tuple(find_labels(rows, candidate))
        evidence = _evidence(candidate, title, labels, tallest)
        if _other_headline(rows, title):
            evidence *= 0.5
        candidates.append((evidence, candidate, title, labels))
    if not candidates:
        return Classification(UNKNOWN, 1.0, None, ())
    best, chosen, title, labels = max(candidates, key=lambda c: c[0])
    if best < 1.0:
        return Classification(UNKNOWN, min(1.0, 1.0 - best / 2), None, ())
    return Classification(chosen.id, min(1.0, 0.4 + best / 4), title, labels)


def _other_headline(rows: Sequence[Row], title: Title | None) -> bool:
    """Whether the page is headed by something else: a line of print clearly larger than the text (and than the title, which then
    is only named: 关于提交营业执照的函) that stands above it, or in the page's upper third where no title was found."""
    if not rows:
        return False
    ems = sorted(row.glyphs[0].em for row in rows)
    top, bottom = min(row.y for row in rows), max(row.y for row in rows)
    size = title.em / 0.7 if title else 1.35 * ems[len(ems) // 2]
    limit = title.y - 0.5 * title.em if title else top + 0.33 * (bottom - top)
    for row in rows:
        if row.y >= limit:
            continue
        for start, end in _pieces(row):
            glyphs = row.glyphs[start:end]
            if sum("一" <= g.key <= "鿿" for g in glyphs) >= 4 and sum(g.em for g in glyphs) / len(glyphs) > size:
                return True
    return False


def _worth_trying(rows: Sequence[Row], candidate: DocumentType) -> bool:
    """A titled type without its title needs several of its own longer labels printed word for word."""
    text = "\n".join(row.text for row in rows)
    long_labels = {
        f.id for f in candidate.fields.values() for name in f.labels if len(squash(name)) >= 4 and squash(name) in text
    }
    return len(long_labels) >= 3


def _evidence(candidate: DocumentType, title: Title | None, labels: Sequence[Label], tallest: float) -> float:
    """1.0 and more is enough. A title counts 1.2 times its likeness and size; the share of exact labels, required ones first."""
    fields = {c.field for c in labels if c.field != STOP and c.exact}
    required = [f for f in candidate.required if f in fields]
    share = 0.5 * len(fields) / max(4, min(8, len(candidate.fields))) + 0.5 * len(required) / max(1, len(candidate.required))
    if title is None:
        enough = len(fields) >= (4 if candidate.titled else 3) and len(required) >= 0.6 * len(candidate.required)
        return (0.55 + 0.7 * share) if enough else 0.3 * share
    heading = 1.2 * title.score * min(1.0, 0.4 + 0.6 * title.em / tallest)
    return heading + share
