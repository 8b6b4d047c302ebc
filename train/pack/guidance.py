"""Guidance in training rows: a model that never saw a block of it will not use one; one that saw only right ones believes all.

Half of the rows get a useful block, 15 % an irrelevant one, the rest none (METHODS §0.1). What is said is where a field stands
and how its label is printed, in the words in which hints are said to a model when it serves; never a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from certloop.extract.engine.guidance_text import hint_sentences
from certloop.extract.guidance import Hint
from certloop.train.teach.pages import LabelledPage

USEFUL, IRRELEVANT = 0.5, 0.15
Guide = Callable[[LabelledPage], tuple[str, ...]]


def hint_guide(pages: Sequence[LabelledPage], seed: int) -> Guide:
    """A function that draws the guidance of a page, the same for a page and a seed whatever stands around it.

    An irrelevant block is the useful one of another page of the type.
    """
    by_type: dict[str, list[LabelledPage]] = {}
    for page in pages:
        by_type.setdefault(page.doc_type.id, []).append(page)

    def guide(page: LabelledPage) -> tuple[str, ...]:
        rng = Random(f"{seed} {page.id}")
        drawn = rng.random()
        if drawn >= USEFUL + IRRELEVANT:
            return ()
        source = page if drawn < USEFUL else rng.choice(by_type[page.doc_type.id])
        return _sentences(source, rng)

    return guide


def _sentences(page: LabelledPage, rng: Random) -> tuple[str, ...]:
    """One or two hints about fields of the page: the label as printed there, or the part of the page."""
    ids: Mapping[str, str] = {spec.label: spec.id for spec in page.doc_type.fields.values()}
    known = [label for label in page.fields if label in page.boxes]
    chosen = rng.sample(known, min(len(known), rng.choice((1, 1, 2))))
    out: list[str] = []
    for label in chosen:
        printed, box = page.printed.get(label, ""), page.boxes[label]
        if printed and printed != label and rng.random() < 0.5:
            hint = Hint(ids[label], anchor_aliases=(printed,))
        else:
            hint = Hint(ids[label], region=box)
        out += hint_sentences(hint, page.doc_type)
    return tuple(out)
