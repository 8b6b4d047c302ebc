"""From a corrected field to the rules that would have read it: find the true value on the page, then what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from certloop.agentrl.memory import RuleRefusedError, check_against_values
from certloop.agentrl.rewards import text_similarity
from certloop.extract.learning.case import Case, read_case
from certloop.extract.learning.rules import KINDS, LABEL, PATTERNS, SHAPE
from certloop.extract.reading.glyphs import Row, key_of
from certloop.extract.reading.labels import edit_distance
from certloop.templates import DocumentType, squash

HEAD = 12  # characters of a value that are looked for: long ones wrap
_SEGMENT = 1.0  # em of white space between two pieces of a row
_REACH = 3.0  # em upwards in which a label stands over its value
_MARGIN = 0.08  # of the page, around a value of a known shape

Rule = tuple[str, Mapping[str, Any]]


def propose(case: Case, field: str, doc_type: DocumentType) -> tuple[Rule, ...]:
    """Rules ``(kind, body)`` that may make the reader find ``case.truth[field]``, likeliest first.

    Empty where the value cannot be found on the page (misread, or never printed) or where only a refused rule would do.
    """
    value = case.truth.get(field)
    if not value or field not in doc_type.fields:
        return ()
    rows = case.rows()
    taken = _well_read(case, field, doc_type)
    kind = doc_type.fields[field].kind.value
    rules: list[Rule] = []
    for index, start in _places(rows, value):
        labels = (*_left(rows[index], start, taken), *_above(rows, index, start, taken))
        rules += [(LABEL, {"field": field, "label": label}) for label in labels]
        if kind in PATTERNS:
            rules.append((SHAPE, {"field": field, "pattern": kind, "region": _around(rows, index, start)}))
    kept = [rule for rule in rules if _allowed(rule, case, doc_type)]
    return tuple(rule for i, rule in enumerate(kept) if rule not in kept[:i])


def _well_read(case: Case, field: str, doc_type: DocumentType) -> set[tuple[float, float]]:
    """Places of characters that are another field's right value. One that swallowed its neighbour gives no ground away."""
    _, layout = read_case(case, doc_type)
    out: set[tuple[float, float]] = set()
    for name, draft in layout.drafts.items():
        truth = case.truth.get(name)
        if name != field and truth and text_similarity(truth, draft.text) > 0.8:
            out |= {(g.x, g.y) for g in draft.glyphs}
    return out


def _allowed(rule: Rule, case: Case, doc_type: DocumentType) -> bool:
    kind, body = rule
    try:
        KINDS[kind](body)
        if kind == LABEL:
            check_against_values(body["label"], (value for value in case.truth.values() if value))
    except RuleRefusedError:
        return False
    return kind != LABEL or not _known(body["label"], doc_type)


def _known(label: str, doc_type: DocumentType) -> bool:
    """A label that the type already gives to some field teaches nothing, and to another field it would be a contradiction."""
    names = [name for spec in doc_type.fields.values() for name in spec.labels]
    return squash(label) in {squash(name) for name in (*names, *doc_type.stop_labels)}


def _places(rows: Sequence[Row], value: str) -> Iterator[tuple[int, int]]:
    """Where the value begins: (row, glyph). Exact places first, then those a few misread characters away."""
    keys = "".join(key_of(c) for c in value if not c.isspace())
    head = keys[:HEAD]
    exact = [(i, at) for i, row in enumerate(rows) for at in _all(row.text, head)]
    if len(head) <= 2 and len(exact) > 1:
        exact = [(i, at) for i, at in exact if _begins(rows[i], at)]
    yield from exact
    if exact or len(head) < 5:
        return
    near: list[tuple[int, int, int]] = []
    for index, row in enumerate(rows):
        for at in range(max(0, len(row.text) - len(head) + 1)):
            distance = edit_distance(row.text[at : at + len(head)], head)
            if distance <= len(head) // 5:
                near.append((distance, index, at))
    for _, index, at in sorted(near)[:1]:
        yield index, at


def _all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _begins(row: Row, at: int) -> bool:
    return at == 0 or row.gaps[at] > 0.3 or row.text[at - 1] == ":"


def _left(row: Row, start: int, taken: set[tuple[float, float]]) -> Iterator[str]:
    """Label candidates on the value's own row. A label spread over its column (设 立 日) is joined again."""
    end = start
    while end > 0 and row.text[end - 1] in ":-.·":
        end -= 1
    pieces: list[str] = []
    at = end
    while at > 0 and len(pieces) < 6:
        first = at - 1
        while first > 0 and row.gaps[first] < _SEGMENT and row.text[first - 1] != ":":
            first -= 1
        if any((g.x, g.y) in taken for g in row.glyphs[first:at]):
            break
        pieces.insert(0, row.text[first:at])
        at = first
        if at > 0 and row.text[at - 1] == ":":
            break
    if not pieces:
        return
    single = 0
    while single < len(pieces) and len(pieces[-1 - single]) == 1:
        single += 1
    if single:
        yield "".join(pieces[-single:])
        if single < len(pieces):
            yield "".join(pieces[-single - 1 :])
        return
    yield pieces[-1]
    if len(pieces) > 1:
        yield "".join(pieces[-2:])


def _above(rows: Sequence[Row], index: int, start: int, taken: set[tuple[float, float]]) -> Iterator[str]:
    """Label candidates over the value: the nearest piece of a row above that begins about where the value does."""
    value = rows[index].glyphs[start]
    best: tuple[float, str] | None = None
    for row in rows:
        for piece in _pieces(row):
            glyphs = row.glyphs[piece[0] : piece[1]]
            rise = value.y - glyphs[0].y
            beside = glyphs[0].left - 2 * value.em <= value.left <= glyphs[-1].right + value.em
            if not 0.5 * value.em < rise < _REACH * value.em or not beside or any((g.x, g.y) in taken for g in glyphs):
                continue
            if best is None or rise < best[0]:
                best = (rise, "".join(g.key for g in glyphs).strip(":"))
    if best is not None:
        yield best[1]


def _pieces(row: Row) -> Iterator[tuple[int, int]]:
    start = 0
    for at in range(1, len(row.glyphs) + 1):
        if at == len(row.glyphs) or row.gaps[at] >= 2 * _SEGMENT:
            yield start, at
            start = at


def _around(rows: Sequence[Row], index: int, start: int) -> list[float]:
    """The part of the page around a value, as hints measure it (shares of the text's own right and lower edge)."""
    right = max(g.right for row in rows for g in row.glyphs)
    bottom = max(g.y for row in rows for g in row.glyphs)
    glyph = rows[index].glyphs[start]
    x, y = glyph.x / right, glyph.y / bottom
    box = (x - _MARGIN, y - _MARGIN, x + _MARGIN, y + _MARGIN)
    return [round(min(1.0, max(0.0, edge)), 2) for edge in box]
