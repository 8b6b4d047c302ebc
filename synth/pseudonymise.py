"""Pseudonymised re-rendering: the only way in which a document leaves its tenant (``agentrl.store.share_trajectory``).

Nothing of the original enters the copy: no pixel, no value. The original only says which form it is, which of its rows are filled
and which kind of firm it speaks of (a company stays a company); a fictional firm, person and office fill such a form, and it is
drawn, stamped and treated like any synthetic page. Image and label come from one drawing, so they agree.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from PIL import Image

from certloop.synth.errors import PseudonymiseError
from certloop.synth.fields import Fact, make_firm
from certloop.synth.fields.facts import Term
from certloop.synth.fields.kinds import family_of, form_told
from certloop.synth.label import make_sample
from certloop.synth.layout import Layout, load_layouts
from certloop.synth.perturb import load_profile
from certloop.synth.render import Job, Page, draw_page
from certloop.synth.render.fonts import Faces, default_faces
from certloop.synth.sample import Document, Recipe, facts_for
from certloop.synth.seeds import stream_seed, values_rng
from certloop.templates import DocumentType, FieldKind, load_types, squash
from certloop.validators import normalise

ATTEMPTS = 60
LONG_NUMBER = 6
WIDTHS_PX = (900, 1800)
COMMON = frozenset({
    "type", "copy", "mode", "business_form", "economic_type", "vehicle_type", "sex", "ethnicity", "organization_form", "has_seal",
    "has_signature", "no_sub_delegation", "powers", "agent_title", "remarks", "hotline", "warehouse",
})  # fmt: skip
"""Fields whose values many documents share: they say nothing about anybody, and a copy may hold the same."""
NAMES = ("name", "operator", "producer", "principal")
"""Fields that hold a firm's name, on the types that have them."""


@dataclass(frozen=True, slots=True)
class CertificatePseudonymiser:
    """Implements ``agentrl.store.Pseudonymiser`` for the document types of the search path."""

    search_path: tuple[str, ...] = ()
    profile: str = "scan"
    faces: Faces = field(default_factory=default_faces)

    def rerender(self, image: bytes, answer: Mapping[str, Any], kind: str, seed: int) -> tuple[bytes, Mapping[str, Any]]:
        """Draw a fictional document of type ``kind`` that has the rows of ``answer`` (values by printed label).

        The same document and seed give the same bytes. Raises PseudonymiseError when the type has no form to draw, when the
        answer has no field of it, or when no drawing was free of the original's values.
        """
        doc_type = load_types(self.search_path).types.get(kind)
        if doc_type is None:
            raise PseudonymiseError("only documents of a known type can be drawn anew")
        ids = doc_type.canonical_labels()
        known = {ids[squash(label)]: value for label, value in answer.items() if squash(label) in ids}
        shown = {spec.id: known[spec.label] for spec in doc_type.fields.values() if spec.label in known}
        if not any(shown.values()):
            raise PseudonymiseError("the answer holds no value of its document type; there is nothing to draw anew")
        width, height = _size(image)
        form = _form_of(shown)
        layouts = _of_kind(load_layouts(kind, self.search_path), form, doc_type)
        layout = _with_rows(_likest(layouts, shown, doc_type, width / height, form), shown)
        original = _Original.of(shown, doc_type)
        for attempt in range(ATTEMPTS):
            recipe = Recipe(
                kind, stream_seed(seed, f"pseudonym {attempt}"), min(max(max(width, height), WIDTHS_PX[0]), WIDTHS_PX[1]),
                search_path=self.search_path, faces=self.faces,
            )  # fmt: skip
            document = _draw(layout, recipe, form)
            if original.left_in(document.page, document.facts):
                continue
            sample = make_sample(recipe, load_profile(self.profile), document=document)
            return sample.encoded(), dict(sample.label["fields"])
        raise PseudonymiseError("no drawing was free of the original's values; is every value of it common?")


def _size(image: bytes) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(image)) as picture:
            return picture.size
    except (OSError, ValueError, Image.DecompressionBombError):
        raise PseudonymiseError("the page to be drawn anew is no image") from None


def _form_of(shown: Mapping[str, str | None]) -> str | None:
    """The kind of firm that the document speaks of, where its words tell."""
    type_text, code = (squash(shown.get(name) or "") for name in ("type", "credit_code"))
    told = form_told(type_text, squash(next((shown[name] for name in NAMES if shown.get(name)), None) or ""), code)
    return told or ("individual" if "organization_form" in shown else None)


def _of_kind(layouts: tuple[Layout, ...], form: str | None, doc_type: DocumentType) -> tuple[Layout, ...]:
    """Where a type prints the kind of firm its labels depend on it (法定代表人, 执行事务合伙人): only forms for that kind."""
    if form is None or "type" not in doc_type.fields:
        return layouts
    return tuple(layout for layout in layouts if family_of(form) & set(layout.firms)) or layouts


def _likest(
    layouts: tuple[Layout, ...], shown: Mapping[str, str | None], doc_type: DocumentType, aspect: float, form: str | None
) -> Layout:
    """The form that has these fields, this shape (turned or not) and was in use when the document was issued; one for exactly
    this kind of firm before one for a cousin (a company, a company from abroad)."""
    issued = next(iter(_dates({k: v for k, v in shown.items() if k in ("issued_on", "signed_on")}, doc_type)), None)

    def distance(layout: Layout) -> float:
        shape = 1000 / layout.height
        off = min(abs(math.log(aspect / shape)), 0.3 + abs(math.log(aspect * shape)))
        fields = set(layout.fields)
        absent, surplus = len(set(shown) - fields), len(fields - set(shown))
        late = issued is not None and not layout.issued[0] <= issued.year <= layout.issued[1]
        cousin = form is not None and "type" in doc_type.fields and form not in layout.firms
        return 3 * off + absent + 0.3 * surplus + late + 0.5 * cousin

    return min(layouts, key=lambda layout: (distance(layout), layout.id))


def _with_rows(layout: Layout, shown: Mapping[str, str | None]) -> Layout:
    """The form with exactly the rows that the original shows, blank where the original is blank."""
    rows = tuple(
        replace(row, optional=0.0, blank=0.0 if shown[row.field] is not None else 1.0, handwritten=0.0)
        for row in layout.rows
        if row.field in shown
    )
    return replace(layout, rows=rows)


def _draw(layout: Layout, recipe: Recipe, form: str | None) -> Document:
    rng = values_rng(recipe.seed, "values")
    firm = make_firm(
        rng, form=_drawable(form, layout) or rng.choice(layout.firms), issued=layout.issued, industry=layout.industry or None
    )
    facts, misprinted = facts_for(layout, recipe, firm)
    page = draw_page(Job(layout, facts, stream_seed(recipe.seed, "page"), recipe.width_px, recipe.faces))
    return Document(page, firm, facts, misprinted)


def _drawable(form: str | None, layout: Layout) -> str | None:
    """``form``, or its cousin where the form is made for that one alone (the licence of 2013 for firms from abroad)."""
    if form is None or form in layout.firms:
        return form
    return next((other for other in layout.firms if other in family_of(form)), form)


@dataclass(frozen=True, slots=True)
class _Original:
    """What must not be found in a copy: values (without white space), runs of digits, dates."""

    values: frozenset[str]
    numbers: frozenset[str]
    dates: frozenset[date]

    @classmethod
    def of(cls, shown: Mapping[str, str | None], doc_type: DocumentType) -> _Original:
        private = {
            k: v for k, v in shown.items() if v is not None and k not in COMMON and doc_type.fields[k].kind is not FieldKind.ENUM
        }
        values = {squash(value) for value in private.values() if squash(value)}
        numbers = {run for value in values for run in re.findall(rf"[0-9A-Za-z]{{{LONG_NUMBER},}}", value)}
        return cls(frozenset(values), frozenset(numbers), frozenset(_dates(private, doc_type)))

    def left_in(self, page: Page, facts: Mapping[str, Fact]) -> bool:
        """Whether anything of the original stands on the page or in its QR code."""
        texts = [squash(item.text) for item in page.items if item.role not in ("label", "title", "text")]
        texts += [squash(value) for value in page.values.values() if value is not None] + [squash(page.qr_payload)]
        days = {day for fact in facts.values() for day in _days(fact)}
        return any(word in text for text in texts for word in self.values | self.numbers) or bool(self.dates & days)


def _days(fact: Fact) -> tuple[date, ...]:
    if isinstance(fact, Term):
        return tuple(day for day in (fact.start, fact.end) if day is not None)
    return (fact,) if isinstance(fact, date) else ()


def _dates(shown: Mapping[str, str | None], doc_type: DocumentType) -> list[date]:
    """Every date that the values hold, however written."""
    found = []
    for name, value in shown.items():
        kind = doc_type.fields[name].kind
        if value is not None and kind in (FieldKind.DATE, FieldKind.DATE_RANGE):
            found += re.findall(r"\d{4}-\d{2}-\d{2}", str(normalise(kind.value, value)))
    return [date.fromisoformat(day) for day in found]
