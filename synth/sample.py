"""One sample: a seed chooses the layout, the firm, the printing and the treatment; the result is an image with its labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from certloop.synth.config import WriterConfig
from certloop.synth.fields import BUILDERS, Fact, Firm, Order, build_facts, make_firm
from certloop.synth.fields.codes import spoil_check_digit
from certloop.synth.fields.domain import EVERYTHING, Domain
from certloop.synth.fields.generic import build_generic_facts
from certloop.synth.fields.others import build_other_facts
from certloop.synth.layout import Layout, find_layout, load_layouts, other_ids
from certloop.synth.render import Job, Page, draw_page
from certloop.synth.render.fonts import Faces, default_faces
from certloop.synth.seeds import stream_seed, values_rng
from certloop.templates import load_types

_SMALL_PAGE_PX = 900  # print cannot shrink without end: narrower pages get shorter scopes
_CHECKED = ("credit_code", "registration_no", "id_number", "principal_code", "agent_id_number")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a sample is made from. ``layouts`` limits the choice by layout id, ``misprint_rate`` is the share of codes with a
    wrong check digit (the label keeps what is printed), ``search_path`` holds folders of further document types."""

    type_id: str
    seed: int
    width_px: int = 1400
    layouts: tuple[str, ...] = ()
    misprint_rate: float = 0.0
    search_path: tuple[str, ...] = ()
    domain: Domain = EVERYTHING
    writer: WriterConfig | None = None
    faces: Faces = field(default_factory=default_faces)


@dataclass(slots=True)
class Document:
    """A drawn page with the facts behind it."""

    page: Page
    firm: Firm
    facts: Mapping[str, Fact]
    misprinted: tuple[str, ...] = ()
    writer_fallback: str = ""


def draw_document(recipe: Recipe, *, firm: Firm | None = None) -> Document:
    """Draw one upright page. ``firm`` makes it a paper of that firm (a dossier); otherwise the seed draws one.

    Raises UnknownTypeError, LayoutError and the errors of the renderer.
    """
    layout = choose_layout(recipe)
    rng = values_rng(recipe.seed, "values")
    firm = firm or make_firm(
        rng, form=rng.choice(layout.firms), issued=layout.issued, industry=layout.industry or None, domain=recipe.domain
    )
    facts, misprinted = facts_for(layout, recipe, firm)
    fallback = ""
    if recipe.writer and layout.type_id not in other_ids():
        from certloop.synth.writer import write_values

        written = write_values(recipe.writer, layout, facts, firm, stream_seed(recipe.seed, "writer"))
        facts, firm, fallback = written.facts, written.firm, written.fallback
    page = draw_page(Job(layout, facts, stream_seed(recipe.seed, "page"), recipe.width_px, recipe.faces))
    return Document(page, firm, facts, misprinted, fallback)


def choose_layout(recipe: Recipe) -> Layout:
    """The layout that the recipe's seed chooses, of those it allows. Raises UnknownTypeError and LayoutError."""
    ids = recipe.layouts or tuple(layout.id for layout in load_layouts(recipe.type_id, recipe.search_path))
    return find_layout(recipe.type_id, values_rng(recipe.seed, "layout").choice(ids), recipe.search_path)


def facts_for(layout: Layout, recipe: Recipe, firm: Firm) -> tuple[dict[str, Fact], tuple[str, ...]]:
    """The facts of ``layout``'s document, and the fields whose check digit was made wrong on purpose."""
    rng = values_rng(recipe.seed, "facts")
    if layout.type_id in other_ids():
        return build_other_facts(rng, firm, recipe.domain), ()
    longest = round(layout.longest_scope * min(1.0, recipe.width_px / _SMALL_PAGE_PX))
    order = Order(layout.issued, layout.variant, longest, recipe.domain)
    if layout.type_id in BUILDERS:
        facts = build_facts(layout.type_id, rng, firm, order)
    else:
        facts = build_generic_facts(load_types(recipe.search_path).get(layout.type_id), rng, firm, order)
    spoiled = [f for f in facts if _has_check_digit(f, facts[f]) and rng.random() < recipe.misprint_rate]
    for name in spoiled:
        facts[name] = spoil_check_digit(rng, str(facts[name]))
    return facts, tuple(spoiled)


def _has_check_digit(field_id: str, fact: Fact) -> bool:
    return field_id in _CHECKED or (field_id == "permit_no" and isinstance(fact, str) and fact.startswith(("JY", "SC")))
