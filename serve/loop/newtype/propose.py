"""From filled scans of one form to its fields: what all scans print alike is the form, what differs beside it is a value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from certloop.extract.engine.lines import TextLine
from certloop.extract.reading.glyphs import Row, rows_of, runs_of
from certloop.extract.reading.orient import find_upright
from certloop.serve.errors import NewTypeError
from certloop.templates import FieldKind, FieldSpec, Registry, squash
from certloop.validators.dates import parse_date, parse_date_range

if TYPE_CHECKING:
    from certloop.extract.engine.ocr import OcrEngine

_LABEL = re.compile(r"[一-鿿][一-鿿()（）/、]{0,13}[一-鿿)）]")
_GAP = 1.0  # em of white space between two pieces of a row
_NEAR = 0.05  # of the text's width and height: the same place on two scans
_AGREE = 0.6  # of the scans print a label
_NUMBERED = re.compile(r"(编号|证号|许可证号|备案号)$")
_LONG = re.compile(r"(范围|项目|内容)$")
_FOOTER = re.compile(r"(监制|印制|制发|印发|制)$")
_TITLE_SIZE = 1.3  # of the usual print


@dataclass(frozen=True, slots=True)
class Piece:
    """Print that hangs together: its text without white space, where it begins (shares of the text's width and height), its em
    in pixels. ``ends`` tells that a colon follows."""

    text: str
    x: float
    y: float
    em: float
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A field as proposed. ``known`` names the type that has this label already, whose id and kind were taken; ``same`` tells
    that all scans (two or more) have one value."""

    id: str
    label: str
    kind: FieldKind
    seen: int
    known: str = ""
    validators: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    same: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What the scans say about the form. ``notes`` are sentences for the person who checks it."""

    title: str
    fields: tuple[Proposal, ...]
    scans: int
    notes: tuple[str, ...] = field(default=())


def pieces_of(lines: Sequence[TextLine], width: int, height: int) -> list[Piece]:
    """A page's print in reading order; characters spread over a column (地   址) are one piece."""
    rows = rows_of(runs_of(find_upright(lines, width, height).lines(lines)))
    if not rows:
        return []
    right = max(g.right for row in rows for g in row.glyphs)
    bottom = max(g.y for row in rows for g in row.glyphs)
    return [piece for row in sorted(rows, key=lambda row: row.y) for piece in _pieces(row, right, bottom)]


def _pieces(row: Row, right: float, bottom: float) -> Iterator[Piece]:
    cuts = [i for i in range(len(row.glyphs)) if i == 0 or row.gaps[i] >= _GAP or row.text[i - 1] == ":"]
    parts = [(a, b) for a, b in zip(cuts, [*cuts[1:], len(row.glyphs)], strict=True)]
    joined: list[tuple[int, int]] = []
    for a, b in parts:
        single = b - a == 1 and (not joined or joined[-1][1] - joined[-1][0] <= 3)
        before_single = joined and all(row.gaps[i] >= _GAP for i in range(joined[-1][0] + 1, joined[-1][1]))
        if joined and before_single and (single or row.text[a + 1 : b] == ":") and row.text[joined[-1][1] - 1] != ":":
            joined[-1] = (joined[-1][0], b)
        else:
            joined.append((a, b))
    for a, b in joined:
        text = row.text[a:b]
        glyph = row.glyphs[a]
        if text.strip(":"):
            yield Piece(text.strip(":"), glyph.left / right, glyph.y / bottom, glyph.em, text.endswith(":"))


def propose(pages: Sequence[Sequence[Piece]], registry: Registry, title: str = "") -> Draft:
    """Title and fields. With a single scan only what a colon ends, or what another type has as a label, is taken for one.

    Raises NewTypeError where no label was found.
    """
    title = title or _title(pages)
    known = _known_labels(registry)
    found: list[_Printed] = []
    for page in pages:
        for piece, label, value in _labelled(page, pages, known, title):
            printed = next(
                (p for p in found if p.is_here(piece, label, id(page)) and not _together(label, p.labels, pages)), None
            )
            if printed is None:
                found.append(printed := _Printed(piece))
            printed.add(label, value, id(page), sure=piece.ends or label in known)
    least = max(1, round(_AGREE * len(pages)))
    fields: list[Proposal] = []
    print_only: list[str] = []
    for printed in sorted(found, key=lambda p: (round(p.first.y / 0.02), p.first.x)):
        taken = {name for f in fields for name in (f.label, *f.aliases)}
        if len(printed.pages) < least or taken & set(printed.labels):
            continue
        if printed.same and not printed.sure:
            print_only.append(printed.labels.most_common(1)[0][0])
            continue
        fields.append(_proposal(printed, known, {f.id for f in fields}, len(fields)))
    if not fields:
        raise NewTypeError("no printed label with a value beside it was found on these scans; are they filled, and upright?")
    return Draft(title, tuple(fields), len(pages), _notes(title, fields, print_only, len(pages)))


def _together(label: str, others: Iterable[str], pages: Sequence[Sequence[Piece]]) -> bool:
    """Whether some scan prints ``label`` and one of ``others`` as two pieces: then they are two fields, not two wordings."""
    for other in others:
        if other == label:
            return False
        for page in pages:
            here = [n for n, p in enumerate(page) if p.text.startswith(label)]
            there = [n for n, p in enumerate(page) if p.text.startswith(other)]
            if any(a != b for a in here for b in there):
                return True
    return False


class _Printed:
    """One place of the form: the labels printed there (another wording on another scan), and the values beside them."""

    def __init__(self, first: Piece) -> None:
        self.first = first
        self.labels: Counter[str] = Counter()
        self.values: list[str] = []
        self.pages: set[int] = set()
        self.sure = False

    @property
    def same(self) -> bool:
        """Whether two scans or more have it, all with one value."""
        return len(self.pages) > 1 and len(set(self.values)) == 1

    def add(self, label: str, value: str, page: int, *, sure: bool) -> None:
        self.sure |= sure
        self.labels[label] += 1
        self.values.append(value)
        self.pages.add(page)

    def is_here(self, piece: Piece, label: str, page: int) -> bool:
        """The same label, or another wording at the same place of another scan."""
        near = abs(piece.x - self.first.x) < _NEAR and abs(piece.y - self.first.y) < _NEAR
        return label in self.labels or (near and page not in self.pages)


def _title(pages: Sequence[Sequence[Piece]]) -> str:
    """The largest print of the upper half that most scans share."""
    sizes: dict[str, list[float]] = {}
    for page in pages:
        ems = sorted(piece.em for piece in page)
        usual = ems[len(ems) // 2] if ems else 1.0
        for piece in page:
            if piece.y < 0.5 and piece.em >= _TITLE_SIZE * usual and _LABEL.fullmatch(piece.text) and len(piece.text) >= 3:
                sizes.setdefault(piece.text, []).append(piece.em / usual)
    shared = {text: sum(em) / len(em) for text, em in sizes.items() if len(em) >= _AGREE * len(pages)}
    return max(shared, key=lambda text: shared[text]) if shared else ""


def _known_labels(registry: Registry) -> dict[str, tuple[str, FieldSpec]]:
    """Printed label to the field that most types mean by it."""
    found: dict[str, list[tuple[str, FieldSpec]]] = {}
    for doc_type in registry:
        for spec in doc_type.fields.values():
            for name in spec.labels:
                if len(name) > 1:
                    found.setdefault(squash(name), []).append((doc_type.id, spec))
    return {name: max(specs, key=lambda one: sum(one[1].id == other.id for _, other in specs)) for name, specs in found.items()}


def _labelled(
    page: Sequence[Piece], pages: Sequence[Sequence[Piece]], known: Mapping[str, tuple[str, FieldSpec]], title: str
) -> Iterator[tuple[Piece, str, str]]:
    """(piece, label, value) of one page: a piece that the scans share with print beside it, or the shared beginning of one.
    What stands beside a label is its value, even where all scans have the same."""
    for number, piece in enumerate(page):
        before = page[number - 1] if number else None
        if before is not None and before.ends and abs(before.y - piece.y) < 0.02:
            continue
        others = [found for other in pages if other is not page and (found := _same_place(piece, other)) is not None]
        label, rest = _split(piece, others, known, alone=len(pages) == 1)
        if not label or not _LABEL.fullmatch(label) or label in title:
            continue
        if not piece.ends and label not in known and _FOOTER.search(piece.text):
            continue
        after = page[number + 1] if number + 1 < len(page) else None
        beside = after is not None and abs(after.y - piece.y) < 0.02 and after.x > piece.x
        value = rest or (after.text if after is not None and beside else "")
        if value and value not in known:
            yield piece, label, value


def _same_place(piece: Piece, page: Sequence[Piece]) -> Piece | None:
    near = [p for p in page if abs(p.x - piece.x) < _NEAR and abs(p.y - piece.y) < _NEAR]
    return min(near, key=lambda p: (p.text[:2] != piece.text[:2], abs(p.x - piece.x) + abs(p.y - piece.y)), default=None)


def _split(piece: Piece, others: Sequence[Piece], known: Mapping[str, tuple[str, FieldSpec]], *, alone: bool) -> tuple[str, str]:
    """Label and the value printed right after it."""
    if piece.ends or piece.text in known:
        return piece.text, ""
    named = max((name for name in known if piece.text.startswith(name) and len(name) >= 3), key=len, default="")
    if named:
        return named, piece.text[len(named) :]
    if alone or not others:
        return "", ""
    same = sum(other.text == piece.text for other in others)
    if same >= _AGREE * len(others):
        return piece.text, ""
    length = Counter(_shared(piece.text, other.text) for other in others).most_common(1)[0][0]
    return (piece.text[:length], piece.text[length:]) if length >= 3 else ("", "")


def _shared(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _proposal(printed: _Printed, known: Mapping[str, tuple[str, FieldSpec]], taken: set[str], number: int) -> Proposal:
    """The usual wording is the label, others are aliases. A licence number's rules are another type's own: they stay there."""
    label, *aliases = (name for name, _ in printed.labels.most_common())
    seen, kind = len(printed.pages), kind_of(label, printed.values)
    for name in (label, *aliases):
        type_id, spec = known.get(name, ("", None))
        if spec is not None and spec.id not in taken and not spec.range_of and not spec.mark and not spec.values:
            rules = () if spec.kind is FieldKind.LICENCE_NO else spec.validators
            return Proposal(spec.id, label, spec.kind, seen, type_id, rules, tuple(aliases), printed.same)
    return Proposal(f"field_{number + 1}", label, kind, seen, aliases=tuple(aliases), same=printed.same)


def kind_of(label: str, values: Sequence[str]) -> FieldKind:
    """The kind that most values look like."""
    if not values:
        return FieldKind.TEXT
    votes = Counter(_looks_like(value) for value in values)
    kind, n = votes.most_common(1)[0]
    if kind is not FieldKind.TEXT and n * 2 > len(values):
        return kind
    if _NUMBERED.search(label):
        return FieldKind.LICENCE_NO
    long = sum(len(value) > 30 for value in values) * 2 > len(values)
    return FieldKind.LONG_TEXT if long or _LONG.search(label) else FieldKind.TEXT


def _looks_like(value: str) -> FieldKind:
    text = value.strip()
    if re.fullmatch(r"[0-9A-HJ-NPQRTUWXY]{2}\d{6}[0-9A-HJ-NPQRTUWXY]{10}", text):
        return FieldKind.ID_NUMBER if re.fullmatch(r"\d{17}[\dX]", text) and text[6:8] in ("19", "20") else FieldKind.USCC
    if parse_date_range(text) is not None and parse_date(text) is None:
        return FieldKind.DATE_RANGE
    if parse_date(text) is not None:
        return FieldKind.DATE
    return FieldKind.DIGITS if re.fullmatch(r"\d{5,}", text) else FieldKind.TEXT


def _notes(title: str, fields: Sequence[Proposal], print_only: Sequence[str], scans: int) -> tuple[str, ...]:
    notes = [] if title else ["no title was found: give it with --title, or the type is never recognised by itself"]
    if scans == 1:
        notes.append("one scan shows only labels that end in a colon or that other types have: two or more show them all")
    new = [f.label for f in fields if not f.known]
    if new:
        notes.append(f"give these fields an id of their own: {', '.join(new)}")
    if same := [f.label for f in fields if f.same]:
        notes.append(f"all scans have the same value, so not required, and perhaps part of the form: {', '.join(same)}")
    if print_only:
        notes.append(
            f"taken for print of the form, as all scans have the same beside it, not for fields: {', '.join(print_only)}"
        )
    return tuple(notes)


def read_scans(scans: Sequence[Path], engine: OcrEngine, progress: Callable[[str], None] = lambda _: None) -> list[list[Piece]]:
    """The print of each scan's first page. Raises NewTypeError that names a file which cannot be read."""
    from certloop.extract.ingest import IngestError, ingest

    pages = []
    for number, scan in enumerate(scans, 1):
        progress(f"reading scan {number} of {len(scans)}")
        try:
            image = ingest(scan).pages[0].image
        except IngestError as error:
            raise NewTypeError(f"{scan} cannot be read: {error.message}") from None
        pages.append(pieces_of(engine.read(image), image.shape[1], image.shape[0]))
    return pages
