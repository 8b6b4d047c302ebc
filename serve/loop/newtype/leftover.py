"""What of a scan is still on the blank made from it: print that no other scan has, or that stands beside a label."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from certloop.extract.engine.lines import TextLine
from certloop.extract.reading.labels import edit_distance
from certloop.serve.errors import NewTypeError
from certloop.serve.loop.newtype.propose import Piece
from certloop.templates import DocumentType, Registry, squash

if TYPE_CHECKING:
    from certloop.extract.engine.ocr import OcrEngine
    from certloop.synth.blank import Points

_SURE = 0.5  # score of a line that is print and no smudge
_LONG = 12  # characters from which one misread character in twelve makes no other text
_FORM_ONLY = frozenset("年月日至")
_BEFORE_COLON = re.compile(r"[一-鿿]{1,6}:")  # the end of a label whose characters are spread
_NUMBER = re.compile(r"\d{4}")


@dataclass(frozen=True, slots=True)
class Left:
    """Print that was not erased, where it stands (pixels), and the line that it is part of, from character ``start`` on."""

    text: str
    polygon: Points
    line: TextLine
    start: int


@dataclass(frozen=True, slots=True)
class Swept:
    """Texts that were taken off a blank after it was made, and those that are still in its picture."""

    erased: tuple[str, ...] = ()
    still: tuple[str, ...] = ()


def sweep(
    layout: Path, pages: Sequence[Sequence[Piece]], doc_type: DocumentType, registry: Registry, engine: OcrEngine, *, erase: bool
) -> Swept:
    """Read the layout's picture and look for what is left of the first of ``pages``, the scan it was made from; ``erase`` takes
    it off, too, and reads once more. A layout without a picture has nothing of a scan. Raises NewTypeError."""
    import cv2

    from certloop.synth import blank

    name = tomllib.loads(layout.read_text("utf-8")).get("background", "")
    if not name or not (layout.parent / name).is_file():
        return Swept()
    path = layout.parent / name
    picture = cv2.imread(str(path))
    if picture is None:
        raise NewTypeError(f"{path} is no picture that can be read")
    image = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8)
    lines = engine.read(image)
    left = left_over(lines, pages, doc_type, registry)
    if not left or not erase:
        return Swept(still=tuple(one.text for one in left))
    form = [np.asarray(line.quad, np.float64) for line in lines if not any(one.line is line for one in left)]
    form += [_polygon(one.line, 0, one.start) for one in left if one.start]
    image = blank.erase(image, {"value": [one.polygon for one in left], "kept": form, "seal": [], "qr": []})
    path.write_bytes(cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes())
    still = tuple(one.text for one in left_over(engine.read(image), pages, doc_type, registry))
    return Swept(tuple(one.text for one in left if one.text not in still), still)


def left_over(
    lines: Sequence[TextLine], pages: Sequence[Sequence[Piece]], doc_type: DocumentType, registry: Registry
) -> list[Left]:
    """What on a blank's ``lines`` is no print of the form.

    Print of the form are titles, labels (of other types, too) and stop labels, and with two scans or more what the others have.
    With one scan it is everything but numbers and what follows a label in its line or stands right of one.
    """
    words = {squash(w) for f in doc_type.fields.values() for w in f.labels}
    words |= {squash(w) for w in (doc_type.title, *doc_type.titles, *doc_type.stop_labels)}
    least = 2 if len(pages) < 2 else 3
    words |= {squash(w) for known in registry for f in known.fields.values() for w in f.labels if len(w) >= least}
    others = ["".join(_bare(piece.text) for piece in page) for page in pages[1:]]
    pieces = {_bare(piece.text) for page in pages[1:] for piece in page}
    found = []
    for line in lines:
        if line.score < _SURE:
            continue
        text, places = _characters(line.text)
        for start, end in _between(text, words):
            cut = _BEFORE_COLON.match(text[start:end])
            start += cut.end() if cut else 0
            part = text[start:end]
            letters = set(_bare(part))
            if len(letters) < 2 or letters <= _FORM_ONLY:  # nothing, one character, a border taken for many alike, or 年月日
                continue
            if len(part) >= 3 and any(part in word for word in words):  # a label in pieces
                continue
            if pages[1:]:
                form = _is_shared(_bare(part), others, pieces) or _is_shared(_bare(text), others, pieces)
            else:
                form = not start and not _NUMBER.search(part) and not _beside_label(line, lines, words)
            if not form:
                found.append(Left(part.strip(":"), _polygon(line, places[start], places[end - 1] + 1), line, places[start]))
    return found


def _is_shared(text: str, others: Sequence[str], pieces: set[str]) -> bool:
    """Whether another scan prints it; a long text may be misread in one character of twelve, if it has no digits."""
    if any(text in other for other in others):
        return True
    limit = len(text) // _LONG
    if not limit or re.search(r"\d", text):
        return False
    return any(abs(len(text) - len(other)) <= limit and edit_distance(text, other) <= limit for other in pieces)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", squash(text))


def _characters(text: str) -> tuple[str, list[int]]:
    """The text as ``squash`` has it, and for each of its characters the place in ``text``."""
    chars = [(c, i) for i, char in enumerate(text) for c in unicodedata.normalize("NFKC", char) if not c.isspace()]
    return "".join(c for c, _ in chars), [i for _, i in chars]


def _between(text: str, words: set[str]) -> Iterator[tuple[int, int]]:
    """The stretches of a line between the form's words."""
    pattern = "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True) if len(w) > 1)
    start = 0
    for match in re.finditer(pattern, text) if pattern else ():
        if match.start() > start:
            yield start, match.start()
        start = match.end()
    if start < len(text):
        yield start, len(text)


def _beside_label(line: TextLine, lines: Sequence[TextLine], words: set[str]) -> bool:
    top, bottom = line.quad[:, 1].min(), line.quad[:, 1].max()
    middle = (top + bottom) / 2
    return any(
        squash(other.text).strip(":") in words
        and other.quad[:, 0].max() <= line.quad[:, 0].min() + 0.3 * (bottom - top)
        and abs((other.quad[:, 1].min() + other.quad[:, 1].max()) / 2 - middle) < 0.6 * (bottom - top)
        for other in lines
    )


def _polygon(line: TextLine, start: int, end: int) -> Points:
    from certloop.synth.blank import line_part

    if len(line.char_x) != len(line.text):
        return np.asarray(line.quad, np.float64)
    return line_part(line.quad, line.char_x, start, end)
