"""Lays one licence out: which glyph stands where. No pixels here."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from certloop.synth.render.fonts import advance, default_faces
from certloop.train.errors import TrainConfigError
from certloop.train.nano.vocabulary import HERE, TITLE

WIDTH_PX, HEIGHT_PX = 384, 256
ROLES = ("hei", "serif")
SIZES_PX = (20, 21, 22)
_RIGHT_PX = WIDTH_PX - 6


@dataclass(frozen=True, slots=True)
class Form:
    """One entry of ``layouts.toml``."""

    id: str
    seen: bool
    rows: tuple[tuple[str, ...], ...]
    labels: dict[str, tuple[str, ...]]
    title: float
    colon: float
    spread: float
    shuffle: bool
    indent: bool
    rules: float
    under: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Glyph:
    """One printed character: its left end and the middle of its line in pixels, and its face."""

    char: str
    x: float
    y: float
    role: str
    size_px: int

    @property
    def width_px(self) -> float:
        return _width(self.role, self.size_px, self.char)


@lru_cache(maxsize=8192)
def _width(role: str, size_px: int, char: str) -> float:
    return advance(default_faces().face_for(role, char), size_px, char)


@dataclass(slots=True)
class Placed:
    """A page's glyphs, the glyph ranges of each field's value, the labels as printed and the rules' heights."""

    glyphs: list[Glyph] = field(default_factory=list)
    values: dict[str, tuple[int, int]] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    rules_y: list[float] = field(default_factory=list)


@lru_cache(maxsize=1)
def forms() -> dict[str, Form]:
    data = tomllib.loads((HERE / "layouts.toml").read_text(encoding="utf-8"))
    out = {}
    for entry in data["layouts"]:
        entry |= {
            "rows": tuple(tuple(row) for row in entry["rows"]),
            "labels": {name: tuple(labels) for name, labels in entry["labels"].items()},
            "under": tuple(entry.get("under", ())),
        }
        out[entry["id"]] = Form(**entry)
    return out


def form_ids(which: str | Sequence[str] = "seen") -> tuple[str, ...]:
    """Ids of the seen forms, of the unseen ones, of all, or those named. Raises TrainConfigError for an unknown one."""
    known = forms()
    if isinstance(which, str) and which in ("seen", "unseen", "all"):
        return tuple(name for name, form in known.items() if which == "all" or form.seen == (which == "seen"))
    names = (which,) if isinstance(which, str) else tuple(which)
    if unknown := [name for name in names if name not in known]:
        raise TrainConfigError(f"unknown forms {unknown}; known: {', '.join(known)}, seen, unseen, all")
    return names


def place(form: Form, values: dict[str, str], rng: Random, *, height_px: int = HEIGHT_PX) -> Placed:
    """Place the title, labels and ``values`` (field id to text; fields without a value are not printed)."""
    rows = [kept for row in form.rows if (kept := tuple(name for name in row if name in values))]
    if form.shuffle:
        rng.shuffle(rows)
    out = Placed()
    role, size = rng.choice(ROLES), rng.choice(SIZES_PX)
    titled = rng.random() < form.title
    lines = titled + len(rows) + sum(name in form.under for row in rows for name in row)
    pitch = min(rng.uniform(33.0, 37.0), (height_px - 14) / lines)
    y = 7 + pitch / 2 + rng.uniform(0, max(0.0, height_px - 14 - pitch * lines))
    if titled:
        big, gap = min(size + 2, 23), rng.choice((0, 6, 14))
        width = len(TITLE) * (big + gap)
        _write(out, TITLE, (WIDTH_PX - width) / 2 + rng.uniform(-12, 12), y, role, big, gap)
        y += pitch
    left = rng.uniform(8, 16)
    colon = "：" if rng.random() < form.colon else ""
    spread = rng.random() < form.spread
    ruled = rng.random() < form.rules
    column = left + size * 4 + rng.uniform(10, 16)
    for row in rows:
        x = left
        for number, name in enumerate(row):
            if number:
                x = max(x + 14, WIDTH_PX * 0.5 + rng.uniform(-4, 8))
            label = rng.choice(form.labels[name])
            wide = (size * 4 - size * len(label)) / (len(label) - 1) if spread and 1 < len(label) < 4 else 0.0
            x = _write(out, label, x, y, role, size, wide)
            out.printed[name] = label
            x = _write(out, colon, x, y, role, size) if colon else x + rng.uniform(7, 13)
            if name in form.under:
                y += pitch
                x = left + rng.uniform(0, 24)
            elif form.indent and x < column:
                x = column
            first = len(out.glyphs)
            x = _fit(out, values[name], x, y, role, size)
            out.values[name] = (first, len(out.glyphs))
        if ruled:
            out.rules_y.append(y + pitch / 2)
        y += pitch
    return out


def _fit(out: Placed, text: str, x: float, y: float, role: str, size: int) -> float:
    """Write a value, a pixel smaller and tighter at a time where it would run over the right edge."""
    for shrink in range(4):
        width = sum(Glyph(char, 0, 0, role, size - shrink).width_px for char in text)
        if x + width <= _RIGHT_PX or shrink == 3:
            tight = min(0.0, (_RIGHT_PX - x - width) / max(1, len(text) - 1))
            return _write(out, text, x, y, role, size - shrink, max(tight, -1.5))
    raise AssertionError("unreachable")


def _write(out: Placed, text: str, x: float, y: float, role: str, size: int, gap: float = 0.0) -> float:
    """Append the glyphs of one line of text and return its right end."""
    for char in text:
        glyph = Glyph(char, x, y, role, size)
        out.glyphs.append(glyph)
        x += glyph.width_px + gap
    return x
