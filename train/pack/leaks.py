"""Leaks between splits: a test that was seen in training measures memory.

Three kinds are looked for: the same picture (by its pixels), the same identifying value (a code, a name, an address: long
values that belong to one firm or person), and, for splits that are held out by form, the same layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from certloop.extract.evaluation.normalise import comparable
from certloop.templates import FieldKind
from certloop.train.errors import TrainDataError
from certloop.train.teach.pages import LabelledPage

IDENTIFYING = frozenset({FieldKind.USCC, FieldKind.REGNO15, FieldKind.ID_NUMBER, FieldKind.LICENCE_NO, FieldKind.DIGITS})
_NAMING = frozenset({"name", "operator", "producer", "principal", "address", "residence", "premises", "registered_address"})
MIN_CHARS = 6


@dataclass(frozen=True, slots=True)
class Leak:
    """``kind`` is image, value or layout; ``first`` and ``second`` the splits; ``where`` the page of the second."""

    kind: str
    first: str
    second: str
    where: str


class LeakWatch:
    """Hears of every page with its split and the hash of its pixels."""

    def __init__(self, held_out_forms: Iterable[str] = ()) -> None:
        self._by_form = frozenset(held_out_forms)
        self._images: dict[str, str] = {}
        self._values: dict[tuple[str, str], str] = {}
        self._forms: dict[tuple[str, str], set[str]] = {}
        self.found: list[Leak] = []

    def add(self, page: LabelledPage, split: str, image_sha256: str) -> None:
        self._meet("image", self._images.setdefault(image_sha256, split), split, page)
        for spec in page.doc_type.fields.values():
            value = page.fields.get(spec.label)
            if value is None or len(value) < MIN_CHARS or not (spec.kind in IDENTIFYING or spec.id in _NAMING):
                continue
            self._meet("value", self._values.setdefault((spec.kind.value, comparable(value)), split), split, page)
        if page.layout:
            known = self._forms.setdefault((page.doc_type.id, page.layout), set())
            for other in sorted(known - {split}):
                if {split, other} & self._by_form:
                    self._meet("layout", other, split, page)
            known.add(split)

    def refuse(self) -> None:
        """Raises TrainDataError that counts the leaks and names a page of each kind."""
        if not self.found:
            return
        kinds = {leak.kind: leak for leak in reversed(self.found)}
        said = [
            f"{sum(x.kind == kind for x in self.found)} {kind}s of {leak.first} again in {leak.second} (first: {leak.where})"
            for kind, leak in sorted(kinds.items())
        ]
        raise TrainDataError(f"the splits leak: {'; '.join(said)}")

    def _meet(self, kind: str, known: str, split: str, page: LabelledPage) -> None:
        if known != split:
            self.found.append(Leak(kind, known, split, page.id))
