"""A value as first read: its text, where it stands, how sure the recogniser was; and its cleaning by kind.

Cleaning only *cuts* (a code ends where its characters end, a date where the date ends); it never replaces a character.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certloop.extract.reading.glyphs import Glyph
from certloop.extract.reading.labels import Label
from certloop.extract.reading.values import Cell
from certloop.templates import FieldKind, FieldSpec, squash

NUM = "0-9〇○零OoQ一二三四五六七八九十廿"
_CN, _CN_TEN = "[0〇○零OoQ一二三四五六七八九]", "[0〇○零OoQ一二三四五六七八九十廿]"
DATE_PATTERN = (
    rf"[0-9]{{4}}年[0-9]{{1,2}}月[0-9]{{1,2}}日?|{_CN}{{4}}年{_CN_TEN}{{1,3}}月{_CN_TEN}{{1,3}}日?"
    r"|[0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|(?<![0-9])(?:19|20)[0-9]{6}(?![0-9])"
)
DATE = re.compile(DATE_PATTERN)
_OPEN = re.compile(r"长期|永久|无固定期限|不约定期限")
_RANGE = re.compile(rf"(?:[{NUM}年月日至到止自起长期永久无固定不约限\-./:~—,]|经营)+")
_WHOLE_RANGE = re.compile(rf"自?(?:{DATE_PATTERN})[起,]*[至到\-~—]*(?:{DATE_PATTERN}|长期|永久)止?")
_SIGN_MARK = re.compile(r"\((?:盖章|公章|签字|签名|签章|签字或盖章|章)\)")
_CODES = (FieldKind.USCC, FieldKind.REGNO15, FieldKind.ID_NUMBER)
_MASK = "X×x*＊■□●○█#"


@dataclass(frozen=True, slots=True)
class Draft:
    """One field's first reading. ``quad`` is (4, 2) in upright pixels; ``source`` says how it was found (label, below, sentence,
    pattern, seal, zoom ...); ``masked`` that the print was covered."""

    field: str
    text: str
    glyphs: tuple[Glyph, ...]
    label: Label | None = None
    source: str = "label"
    masked: bool = False
    raw: str = dataclasses.field(default="", compare=False)
    quad: NDArray[np.float32] | None = dataclasses.field(default=None, compare=False)
    sure: float | None = None

    @property
    def score(self) -> float:
        """Mean recogniser probability over the value's characters, pulled towards its weakest ones (``sure`` where it was read
        otherwise, as from the ring of a seal)."""
        if self.sure is not None or not self.glyphs:
            return self.sure or 0.0
        scores = np.sort([g.score for g in self.glyphs])
        weakest = scores[: max(1, len(scores) // 8)]
        return float(0.5 * scores.mean() + 0.5 * weakest.mean())


def draft_of(cell: Cell, spec: FieldSpec) -> Draft | None:
    """Assemble and clean the value of one cell; None when nothing of it is a value."""
    glyphs = [g for line in cell.lines for span in line for g in span.glyphs]
    glyphs = _behind_bracket(glyphs, cell.label, spec)
    return make_draft(glyphs, spec, label=cell.label, source="below" if cell.below else "label")


def _behind_bracket(glyphs: list[Glyph], label: Label, spec: FieldSpec) -> list[Glyph]:
    """法定代表人(单位负责人) 王小明 where the bracket was not read well enough to be the label's: it is no part of the value.

    A bracket that never closes has lost more than itself: then nothing of the line is believed.
    """
    bracketed = any(squash(name).startswith((label.text + "(", label.text + "（")) for name in spec.labels)
    if not bracketed or not glyphs or glyphs[0].key != "(":
        return glyphs
    closing = next((i for i, g in enumerate(glyphs[:12]) if g.key == ")"), None)
    return [] if closing is None else glyphs[closing + 1 :]


def make_draft(glyphs: Sequence[Glyph], spec: FieldSpec, *, label: Label | None, source: str) -> Draft | None:
    """Clean a glyph sequence into a draft of ``spec``'s kind."""
    keys = "".join(g.key for g in glyphs)
    start, end = cut(keys, spec)
    kept = tuple(glyphs[start:end])
    if not kept:
        return None
    if spec.kind in (FieldKind.DATE, FieldKind.DATE_RANGE):
        kept = _round_zeros(kept)
    if spec.kind in _CODES:
        kept = tuple(g for g in kept if g.key not in ".·,'")  # specks between the characters of a number
    value = "".join(g.key for g in kept)
    masked = is_masked_text(value) and not is_filler(value, spec.kind)
    return Draft(spec.id, join(kept), kept, label, source, masked, keys, quad_of(kept))


def _round_zeros(glyphs: tuple[Glyph, ...]) -> tuple[Glyph, ...]:
    """In a date written in Chinese numerals the round character is 〇, whichever of 0 O ○ the recogniser took it for."""
    if not any(g.key in "一二三四五六七八九" for g in glyphs) or any(g.key in "123456789" for g in glyphs):
        return glyphs
    return tuple(replace(g, char="〇", key="〇") if g.key in "0Oo○" else g for g in glyphs)


def cut(keys: str, spec: FieldSpec) -> tuple[int, int]:
    """The slice of ``keys`` that is the value, by the field's kind; an empty slice when there is none."""
    mark = _SIGN_MARK.search(keys)
    start, end = _trim(keys, 0, mark.start() if mark else len(keys))
    kind = spec.kind
    if spec.value_pattern is not None:
        found = spec.value_pattern.search(keys)
        if found:
            return found.span()
    if kind in _CODES:
        return _longest(re.finditer(r"[0-9A-Za-z*×]+(?:[.·,'][0-9A-Za-z*×]+)?(?:-[0-9A-Za-z])?(?![0-9A-Za-z])", keys), minimum=6)
    if kind is FieldKind.DIGITS:
        return _longest(re.finditer(r"[0-9*×][0-9\- ()*×]*[0-9*×)]|[0-9]", keys), minimum=1)
    if kind is FieldKind.DATE:
        return _date_cut(keys, start, end)
    if kind is FieldKind.DATE_RANGE:
        return _range_cut(keys, start, end)
    if kind is FieldKind.ENUM and spec.values:
        hits = [(keys.find(v), v) for v in spec.values if v in keys]
        return (hits[0][0], hits[0][0] + len(hits[0][1])) if hits else (0, 0)
    if kind is FieldKind.LICENCE_NO and not re.search(r"[0-9A-Za-z]", keys):
        return (0, 0)
    return start, end


def _trim(keys: str, start: int, end: int) -> tuple[int, int]:
    while start < end and keys[start] in ":;,.、_|·'\"`~^丨/\\":
        start += 1
    while end > start and keys[end - 1] in ":;,、_|·'`^丨\\":
        end -= 1
    return start, end


def _longest(matches: Iterable[re.Match[str]], minimum: int) -> tuple[int, int]:
    spans = [m.span() for m in matches]
    best = max(spans, key=lambda s: s[1] - s[0], default=(0, 0))
    return best if best[1] - best[0] >= minimum else (0, 0)


def _date_cut(keys: str, start: int, end: int) -> tuple[int, int]:
    found = DATE.search(keys)
    if found:
        lead = "至" if found.start() and keys[found.start() - 1] in "至到" else ""
        return found.start() - len(lead), found.end()
    if open_end := _OPEN.search(keys):
        return open_end.span()
    if is_masked_text(keys[start:end]):
        return start, end
    digits = sum(c in NUM for c in keys[start:end])
    return (start, end) if digits >= 4 and re.fullmatch(rf"[{NUM}年月日至到止自\-./]+", keys[start:end]) else (0, 0)


def _range_cut(keys: str, start: int, end: int) -> tuple[int, int]:
    if is_masked_text(keys[start:end]):
        return start, end
    whole = _WHOLE_RANGE.search(keys)
    if whole:
        return whole.span()
    pieces = [m.span() for m in _RANGE.finditer(keys, start, end)]
    for a, b in pieces:
        text = keys[a:b]
        if DATE.search(text) or _OPEN.search(text) or re.search(r"[0-9]{2,4}年?.{0,6}[至到]", text):
            return _trim(keys, a, b)
    return (start, end) if 0 < end - start <= 24 else (0, 0)


def is_masked_text(keys: str) -> bool:
    """A value whose characters were replaced: XXXX, 9143****, ■■■."""
    hidden = sum(c in _MASK for c in keys)
    return bool(re.search(r"[X×x]{4}|[*＊■□●█#]{3}", keys)) and hidden >= 0.3 * len(keys)


def is_filler(keys: str, kind: FieldKind) -> bool:
    """*** in a field of text is printed so: the firm has no warehouse. In a number it hides one."""
    return kind in (FieldKind.TEXT, FieldKind.LONG_TEXT) and bool(re.fullmatch(r"[*＊]+", keys))


def join(glyphs: Sequence[Glyph]) -> str:
    """The characters as printed; a wide space inside a line is kept as one space, line ends are joined without one."""
    out = []
    for before, glyph in zip((None, *glyphs), glyphs, strict=False):
        if before is not None and before.y - 0.7 * before.em < glyph.y < before.y + 0.7 * before.em:
            gap = (glyph.left - before.right) / min(before.em, glyph.em)
            latin = before.char.isascii() and glyph.char.isascii()
            if gap > (0.9 if latin else 1.2) or (latin and glyph.spaced):
                out.append(" ")
        out.append(glyph.char)
    return "".join(out)


def quad_of(glyphs: Sequence[Glyph]) -> NDArray[np.float32]:
    """Bounding box of the glyphs as a (4, 2) polygon in upright pixels."""
    left, right = min(g.left for g in glyphs), max(g.right for g in glyphs)
    top, bottom = min(g.y - 0.62 * g.em for g in glyphs), max(g.y + 0.62 * g.em for g in glyphs)
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)
