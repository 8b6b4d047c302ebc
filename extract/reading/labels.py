"""Finding printed labels: spaced (名    称), glued to their value, split over boxes, misread by a character, or half lost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from certloop.extract.reading.glyphs import Row, key_of
from certloop.templates import DocumentType, FieldKind

STOP = ""  # field id of a label that only ends its neighbours' values
_BOUNDARY = 0.55  # em of white space that separates two things on one line
_SIGNS = re.compile(r"\((签|盖|公章)")
_CODE_KINDS = {FieldKind.USCC, FieldKind.REGNO15, FieldKind.LICENCE_NO, FieldKind.DIGITS, FieldKind.ID_NUMBER}


@dataclass(frozen=True, slots=True)
class LabelForm:
    """One printed form of a field's label, as keys without white space; in running text (``colon_only``) it needs its colon."""

    field: str
    keys: str
    kind: FieldKind | None = None
    colon_only: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A label found on the page: glyphs ``start:end`` of row ``row`` (``end`` is behind a colon if there is one)."""

    field: str
    text: str
    row: int
    start: int
    end: int
    score: float
    left: float
    right: float
    y: float
    em: float
    colon: bool = False
    exact: bool = True
    glued: bool = False

    def overlaps(self, other: Label) -> bool:
        return self.row == other.row and self.start < other.end and other.start < self.end


def label_forms(doc_type: DocumentType, extra: Iterable[tuple[str, str]] = ()) -> list[LabelForm]:
    """All printed label forms of a type, plus ``(field, label)`` pairs from guidance."""
    prose = not doc_type.form
    forms = [LabelForm(f.id, _keys(name), f.kind, prose) for f in doc_type.fields.values() for name in f.labels]
    forms += [LabelForm(field, _keys(name), doc_type.fields[field].kind) for field, name in extra if field in doc_type.fields]
    forms += [LabelForm(STOP, _keys(name)) for name in doc_type.stop_labels]
    return sorted(set(forms), key=lambda f: (-len(f.keys), f.field, f.keys))


@lru_cache(maxsize=4096)
def _keys(text: str) -> str:
    return "".join(key_of(c) for c in text if not c.isspace())


def find_labels(
    rows: Sequence[Row],
    doc_type: DocumentType,
    extra: Iterable[tuple[str, str]] = (),
    allowed: Callable[[Label], bool] | None = None,
) -> list[Label]:
    """Choose at most one label per field (and any number of stop labels), best evidence first.

    ``extra`` are further (field, printed label) pairs; ``allowed`` refuses places for a label.
    """
    forms = label_forms(doc_type, extra)
    by_char: dict[str, list[LabelForm]] = {}
    for form in forms:
        for char in set(form.keys[:2]):
            by_char.setdefault(char, []).append(form)
    candidates = [c for index, row in enumerate(rows) for c in _candidates(index, row, by_char)]
    usual = sorted(row.glyphs[0].em for row in rows)[len(rows) // 2] if rows else 0.0
    candidates = [c for c in candidates if (c.em < 1.8 * usual or c.colon) and (allowed is None or allowed(c))]
    values = _value_places(candidates, rows)
    doubtful = {id(c) for c in candidates if c.glued and _stands_as_value(c, values)}
    firm = [c for c in candidates if id(c) not in doubtful]
    supported = []
    for candidate in candidates:
        support = _support(candidate, firm)
        if id(candidate) in doubtful and not support:
            continue  # a value that begins with a label's words
        supported.append(replace(candidate, score=candidate.score + support))
    chosen = _choose(supported, rows)
    chosen += _remnants(rows, doc_type, chosen)
    chosen += _half_lost(rows, doc_type, chosen)
    return sorted(chosen, key=lambda c: (c.y, c.left))


def _candidates(index: int, row: Row, by_char: Mapping[str, Sequence[LabelForm]]) -> Iterable[Label]:
    """Every place where a label may stand; ``by_char`` holds the forms by either of their first two characters."""
    keys = row.text
    for start in range(len(keys)):
        forms = {id(f): f for char in keys[start : start + 2] for f in by_char.get(char, ())}
        free = _starts_here(row, keys, start)
        exact = any(keys.startswith(form.keys, start) for form in forms.values())
        for form in forms.values():
            found = _match(row, keys, start, form, free=free, tail=not exact)
            if found:
                yield _label(index, row, start, *found, form)


def _starts_here(row: Row, keys: str, at: int) -> bool:
    """Whether something new begins at this glyph: white space, a colon, or another detected line before it."""
    if at == 0 or row.gaps[at] >= _BOUNDARY or keys[at - 1] in ":|":
        return True
    if row.glyphs[at].line != row.glyphs[at - 1].line and row.gaps[at] > -0.5:
        return True
    return keys[at - 1] == ")" and row.gaps[at] > 0.2


def _match(row: Row, keys: str, start: int, form: LabelForm, *, free: bool, tail: bool) -> tuple[int, int, float] | None:
    """Return (end of label text, end behind a colon, score) where ``form`` stands at ``start``."""
    size = len(form.keys)
    if keys.startswith(form.keys, start):
        distance, end = 0, start + size
    elif free and size >= 4 and form.field != STOP:
        likest = _likest(row, keys, start, form.keys, tail=tail)
        if likest is None:
            return None
        distance, end = likest
    else:
        return None
    if not _well_spaced(row, start, end):
        return None
    colon = end < len(keys) and keys[end] == ":"
    stop = end + 1 if colon else end
    after = row.gaps[stop] if stop < len(keys) else math.inf
    spread = max(row.gaps[start + 1 : end], default=0.0)
    counted = _number_follows(form, keys, stop)
    glued = not colon and after < _BOUNDARY and not counted
    if not free and not _inside_line(row, keys, form, distance, stop, colon=colon, spaced=spread >= _BOUNDARY):
        return None
    if size <= 2 and glued and spread < _BOUNDARY and (not free or start > 0):
        return None
    if glued and start and spread < _BOUNDARY and row.gaps[start] < _BOUNDARY and keys[start - 1] == ":":
        return None  # behind a colon stands a value, which may begin with a label's words
    if form.colon_only and not colon and after < _BOUNDARY and keys[stop : stop + 1] != "(":
        return None
    score = 0.6 - 0.5 * distance / size + 0.04 * min(size, 8)
    score += (
        0.15 * counted
        + 0.2 * colon
        + 0.15 * (spread >= _BOUNDARY)
        + 0.1 * (after >= _BOUNDARY)
        + 0.1 * (start == 0)
        - 0.15 * (not free)
    )
    if size <= 2 and glued and spread < _BOUNDARY:
        score -= 0.35
    if _SIGNS.search(form.keys):
        score -= 0.3  # 法定代表人(签字) names the person only where nothing else does
    return end, stop, score


def _likest(row: Row, keys: str, start: int, label: str, *, tail: bool) -> tuple[int, int] | None:
    """(distance, end) of the window most like ``label``: one character wrong (two in long ones), lost or too many.

    A wrong last character is told from a lost one by the white space: before it, the value has begun. It is not believed at all
    (``tail`` false) where a shorter label stands there word for word (营业期限 无 is not a misread 营业期限自).
    """
    size, allowed = len(label), 1 if len(label) < 7 else 2
    best: tuple[int, int, int] | None = None
    for length in (size, size - 1, size + 1):
        window = keys[start : start + length]
        if len(window) != length or ":" in window[:-1]:
            continue
        distance = edit_distance(window, label)
        if distance > allowed:
            continue
        end = start + length
        if window[-1] not in label[-2:]:
            after = row.gaps[end] if end < len(row.gaps) else math.inf
            colon = keys[end : end + 1] == ":"
            if (
                not tail
                or distance > 1
                or length != size
                or row.gaps[end - 1] > _BOUNDARY
                or not (colon or after > max(_BOUNDARY, row.gaps[end - 1] + 0.2))
            ):
                continue
        if window[0] not in label[:2] and length != size:
            continue
        rank = (distance, abs(length - size), end)
        best = min(best, rank) if best else rank
    return (best[0], best[2]) if best else None


def _number_follows(form: LabelForm, keys: str, at: int) -> bool:
    """Whether a field that holds a number is followed by one, so that nothing need separate the two."""
    if form.kind is FieldKind.DIGITS:
        return keys[at : at + 1].isascii() and keys[at : at + 1].isdigit()
    following = keys[at : at + 5]
    return form.kind in _CODE_KINDS and len(following) == 5 and all(c.isascii() and c.isalnum() for c in following)


def _inside_line(row: Row, keys: str, form: LabelForm, distance: int, stop: int, *, colon: bool, spaced: bool) -> bool:
    """A label glued to what stands before it: only exact, and only where what follows makes it one."""
    if distance or form.field == STOP:
        return False
    if form.kind is FieldKind.DIGITS and _number_follows(form, keys, stop):
        start = stop - len(form.keys) - colon
        return start > 0 and keys[start - 1].isascii()
    if len(form.keys) < 3:
        return False
    if form.kind is not FieldKind.DIGITS and _number_follows(form, keys, stop):
        return True
    return colon and (len(form.keys) >= 4 or spaced)


def _well_spaced(row: Row, start: int, end: int) -> bool:
    gaps = row.gaps[start + 1 : end]
    limit = 10.0 if end - start <= 2 else 3.2
    ems = [g.em for g in row.glyphs[start:end]]
    return all(g <= limit for g in gaps) and max(ems) <= 1.9 * min(ems)


def _label(index: int, row: Row, start: int, end: int, stop: int, score: float, form: LabelForm) -> Label:
    glyphs = row.glyphs[start:end]
    return Label(
        field=form.field,
        text=form.keys,
        row=index,
        start=start,
        end=stop,
        score=score,
        left=glyphs[0].left,
        right=row.glyphs[stop - 1].right,
        y=sum(g.y for g in glyphs) / len(glyphs),
        em=sorted(g.em for g in glyphs)[len(glyphs) // 2],
        colon=stop > end,
        glued=_runs_on(row, start, end, stop, form),
    )


def _value_places(candidates: Sequence[Label], rows: Sequence[Row]) -> list[tuple[int, int, float]]:
    """(row, glyph, left edge) of what follows each label that is clearly one: the places where values begin."""
    clear = [c for c in candidates if c.exact and not c.glued and c.field != STOP and c.end < len(rows[c.row].glyphs)]
    clear = [c for c in clear if rows[c.row].gaps[c.end] < 7.0]  # farther off stands another column
    return [(c.row, c.end, rows[c.row].glyphs[c.end].left) for c in clear]


def _stands_as_value(label: Label, values: Sequence[tuple[int, int, float]]) -> bool:
    """Whether a label would begin where a value begins: right behind another label, or at the left edge of other values."""
    return any(
        (row == label.row and start == label.start) or abs(left - label.left) < 0.8 * label.em for row, start, left in values
    )


def _runs_on(row: Row, start: int, end: int, stop: int, form: LabelForm) -> bool:
    """Whether text follows the label without anything between: no colon, no space, no spread letters, no number."""
    if stop > end or stop >= len(row.glyphs) or row.gaps[stop] >= _BOUNDARY or _number_follows(form, row.text, stop):
        return False
    return max(row.gaps[start + 1 : end], default=0.0) < _BOUNDARY


def _support(label: Label, others: Sequence[Label]) -> float:
    """Labels of a form share a left edge and a size: 0.1 for each other field that does (elsewhere), up to 0.3."""
    fields = {
        o.field
        for o in others
        if o.field not in (label.field, STOP)
        and o.exact
        and abs(o.left - label.left) < 0.8 * label.em
        and 0.65 < o.em / label.em < 1.55
        and not o.overlaps(label)
    }
    return 0.1 * min(3, len(fields))


def _choose(candidates: Sequence[Label], rows: Sequence[Row]) -> list[Label]:
    chosen: list[Label] = []
    taken: set[str] = set()
    for label in sorted(candidates, key=lambda c: (-c.score, -len(c.text), c.y)):
        if label.score < 0.55 or any(label.overlaps(c) or _is_value_of(label, c, rows) for c in chosen):
            continue
        if label.field in taken:
            chosen.append(replace(label, field=STOP))
            continue
        chosen.append(label)
        if label.field != STOP:
            taken.add(label.field)
    return chosen


def _is_value_of(label: Label, before: Label, rows: Sequence[Row]) -> bool:
    """名称 负责人网络有限公司: what follows a label and runs on into more text is its value, not another label."""
    return label.glued and label.row == before.row and label.start == before.end and rows[label.row].gaps[label.start] < 5.0


def _half_lost(rows: Sequence[Row], doc_type: DocumentType, chosen: Sequence[Label]) -> list[Label]:
    """A two-character label of which only the last character was read, or read right: accepted where the column's labels end
    there, and nothing but one misread character stands at the column's left edge."""
    taken = {c.field for c in chosen}
    forms = [f for f in label_forms(doc_type) if len(f.keys) == 2 and f.field not in taken and f.field != STOP]
    found: list[Label] = []
    for index, row in enumerate(rows):
        for at, glyph in enumerate(row.glyphs):
            if row.gaps[at] < 1.5 or any(c.row == index and c.start <= at < c.end for c in chosen):
                continue
            aligned = [
                c
                for c in chosen
                if c.field != STOP and abs(c.right - glyph.right) < 0.6 * glyph.em and 0.65 < c.em / glyph.em < 1.55
            ]
            following = row.gaps[at + 1] if at + 1 < len(row.glyphs) else math.inf
            edge = min((c.left for c in aligned), default=glyph.left)
            before = [g for g in row.glyphs[:at] if edge - g.em < g.x < glyph.left]
            alone = not before or (len(before) == 1 and abs(before[0].left - edge) < 0.6 * glyph.em)
            if len(aligned) < 2 or following == math.inf or not alone:
                continue
            start = at - len(before)
            for form in forms:
                if glyph.key == form.keys[1] and form.field not in {f.field for f in found}:
                    label = _label(index, row, start, at + 1, at + 1, 0.5, form)
                    found.append(replace(label, left=min(c.left for c in aligned), exact=False))
    return found


def _remnants(rows: Sequence[Row], doc_type: DocumentType, chosen: Sequence[Label]) -> list[Label]:
    """What glare or a fold left of a label: a piece in the labels' column that resembles exactly one missing field's label."""
    taken = {c.field for c in chosen}
    forms = [f for f in label_forms(doc_type) if len(f.keys) >= 3 and f.field not in taken and f.field != STOP]
    named = [c for c in chosen if c.field != STOP and c.exact]
    found: list[Label] = []
    for index, row in enumerate(rows):
        for start, end in _pieces(row):
            glyphs = row.glyphs[start:end]
            em = glyphs[0].em
            beside = [
                c
                for c in named
                if c.left - 0.8 * em < glyphs[0].left and glyphs[-1].right < c.right + 0.8 * em and 0.6 < c.em / em < 1.8
            ]
            keys = "".join(g.key for g in glyphs).rstrip(":")
            if len(beside) < 3 or len(keys) < 2 or any(c.row == index and c.start < end and start < c.end for c in chosen):
                continue
            likely = {f.field: f for f in reversed(forms) if _resembles(keys, f.keys)}
            if len(likely) == 1 and not set(likely) & {f.field for f in found}:
                (form,) = likely.values()
                label = _label(index, row, start, end, end, 0.5, form)
                found.append(replace(label, left=min(c.left for c in beside), exact=False))
    return found


def _pieces(row: Row) -> list[tuple[int, int]]:
    """Stretches of a row that begin behind wide white space and end at a colon or at a change of detected line."""
    pieces = []
    for start in range(len(row.glyphs)):
        if row.gaps[start] < 1.5:
            continue
        end = start + 1
        while (
            end < len(row.glyphs)
            and row.glyphs[end - 1].key != ":"
            and (row.glyphs[end].line == row.glyphs[start].line or row.gaps[end] < 1.5)
        ):
            if row.glyphs[end].line != row.glyphs[end - 1].line and end - start >= 2:
                break
            end += 1
        pieces.append((start, end))
    return pieces


def _resembles(keys: str, label: str) -> bool:
    """Most of the label's characters in order, or all but half of them right."""
    if len(keys) > len(label) + 1:
        return False
    at = 0
    for char in keys:
        found = label.find(char, at)
        if found < 0:
            return edit_distance(keys, label) <= len(label) // 2 and len(keys) >= len(label) - 1
        at = found + 1
    return 2 * len(keys) >= len(label)


def edit_distance(a: str, b: str) -> int:
    """Levenshtein distance, for short strings."""
    previous = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        current = [i]
        for j, cb in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (ca != cb)))
        previous = current
    return previous[-1]
