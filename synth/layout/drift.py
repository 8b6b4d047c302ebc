"""Layouts that drifted: the same form, changed the way a new edition changes it, from a seed.

They exist for studies of learning (does a learner follow a new edition?), so the generator is fixed before any learner is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from certloop.synth.errors import LayoutError
from certloop.synth.fields.vocabulary import read_data
from certloop.synth.layout.schema import Layout, Mark, Row, Style, Text
from certloop.synth.seeds import values_rng
from certloop.templates import DocumentType

SEPARATOR = "~d"
FAR = 1000
"""Editions from this number on use wordings that the document type does not know (``drift_words.toml``)."""
_FONTS = ("song", "serif", "kai", "hei")
_BORDERS = ("guilloche", "meander", "lace", "double", "plain")
_COLOURS = ("#6f6a4a", "#3f6f9a", "#3f7d58", "#8a5140", "#5a5a5a", "#7a4f86")


def drift_layout(layout: Layout, number: int, doc_type: DocumentType | None = None) -> Layout:
    """Edition ``number`` of ``layout``: other wordings (of the type's aliases), fonts, border, colours; rows trade places
    within their column; the page is stretched a little; the seal moves. The same number gives the same edition everywhere.

    From ``FAR`` on about half of the labels get wordings that no type knows: a reader that does not learn cannot follow those.
    """
    rng = values_rng(number, "drift", layout.type_id, layout.id)
    stretch = rng.uniform(0.96, 1.10)
    rows = _trade_places(layout.rows, rng)
    rows = tuple(_far_word(row, rng) if number >= FAR else _reworded(row, rng, doc_type) for row in rows)
    moved = replace(
        layout,
        id=f"{layout.id}{SEPARATOR}{number}",
        height=layout.height * stretch,
        rows=tuple(replace(r, at=_down(r.at, stretch), value=_down(r.value, stretch) if r.value else None) for r in rows),
        texts=tuple(replace(t, at=_down(t.at, stretch)) for t in layout.texts),
        dates=tuple(replace(d, at=_down(d.at, stretch)) for d in layout.dates),
        paragraphs=tuple(replace(p, at=_down(p.at, stretch)) for p in layout.paragraphs),
        marks=tuple(_mark(m, stretch, rng) for m in layout.marks),
        lines=tuple(
            replace(line, box=(line.box[0], line.box[1] * stretch, line.box[2], line.box[3] * stretch)) for line in layout.lines
        ),
        styles=_restyled(layout.styles, rng),
        value_fonts=tuple(rng.sample(_FONTS, 2)),
        traps=(*layout.traps, "drift"),
        drawn_from=f"edition {number} of {layout.id}, made by the drift generator",
    )
    return replace(moved, texts=tuple(_retitled(t, rng) for t in moved.texts))


def drift_set(name: str) -> list[tuple[str, str]]:
    """Type and layout id of every edition of a set of ``drift_sets.toml``. Raises LayoutError listing the known sets."""
    sets = read_data("drift_sets")
    if name not in sets:
        raise LayoutError(f"unknown drift set {name!r}; known: {', '.join(sets)}")
    pairs = [(*key.split("/"), numbers) for key, numbers in sets[name]["layouts"].items()]
    return [(type_id, f"{layout_id}{SEPARATOR}{n}") for type_id, layout_id, numbers in pairs for n in numbers]


def base_id(layout_id: str) -> tuple[str, int | None]:
    """Split ``horizontal_2019~d7`` into its layout and edition number."""
    base, _, number = layout_id.partition(SEPARATOR)
    return base, int(number) if number else None


def _trade_places(rows: tuple[Row, ...], rng: Random) -> tuple[Row, ...]:
    """Swap neighbours of one column whose heights are alike, about one pair in three."""
    out = list(rows)
    for i in range(len(out) - 1):
        a, b = out[i], out[i + 1]
        same_column = abs(a.at[0] - b.at[0]) < 4 and (a.value is None) == (b.value is None) and bool(a.labels) and bool(b.labels)
        same_column = same_column and abs(a.width - b.width) < 10
        if not same_column or max(a.lines, b.lines) > 2 or rng.random() > 0.35 or not (a.labels[0] and b.labels[0]):
            continue
        dy_a, dy_b = b.at[1] - a.at[1], a.at[1] - b.at[1]
        out[i], out[i + 1] = _lowered(b, dy_b), _lowered(a, dy_a)
    return tuple(out)


def _lowered(row: Row, dy: float) -> Row:
    return replace(row, at=(row.at[0], row.at[1] + dy), value=(row.value[0], row.value[1] + dy) if row.value else None)


def _reworded(row: Row, rng: Random, doc_type: DocumentType | None) -> Row:
    if doc_type is None or not row.labels or not row.labels[0] or rng.random() > 0.4:
        return row
    fitting = [name for name in doc_type.fields[row.field].labels if len(name) <= max(5, len(row.labels[0].split("\n")[0]) + 2)]
    return replace(row, labels=(rng.choice(fitting),)) if fitting else row


def _far_word(row: Row, rng: Random) -> Row:
    words = read_data("drift_words").get(row.field, ())
    if not words or not row.labels or not row.labels[0] or rng.random() > 0.5:
        return row
    return replace(row, labels=(rng.choice(words),))


def _restyled(styles: Mapping[str, Style], rng: Random) -> dict[str, Style]:
    label_font, size = rng.choice(("hei", "serif", "song", "kai")), rng.uniform(0.94, 1.06)
    return {
        k: replace(
            s, size=s.size * size, font=s.font if k.startswith(("value", "title")) else label_font, weight=max(s.weight, 0.008)
        )
        for k, s in styles.items()
    }


def _mark(mark: Mark, stretch: float, rng: Random) -> Mark:
    box = (mark.box[0], mark.box[1] * stretch, mark.box[2], mark.box[3] * stretch) if mark.box else None
    at = _down(mark.at, stretch)
    if mark.kind == "border":
        return replace(mark, box=box, pattern=rng.choice(_BORDERS), colour=rng.choice(_COLOURS))
    if mark.kind == "seal":
        at = (at[0] + rng.uniform(-40, 25), at[1] + rng.uniform(-15, 10))
    return replace(mark, box=box, at=at)


def _retitled(text: Text, rng: Random) -> Text:
    return replace(text, spread=text.spread * rng.uniform(0.85, 1.1)) if text.role == "title" and text.spread else text


def _down(at: tuple[float, float], stretch: float) -> tuple[float, float]:
    return (at[0], at[1] * stretch)
