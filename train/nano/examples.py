"""Training examples from scratch: a page, its guidance and its answer, drawn from a seed and a number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certloop.train.nano.batch import CELL_PX, Collator, PageBatch
from certloop.train.nano.form import HEIGHT_PX, form_ids
from certloop.train.nano.guidance import HintKind, draw_guidance
from certloop.train.nano.page import NanoPage, draw_page, rng_for
from certloop.train.nano.prompt import user_text

WORN_WITH_HINT, WORN = 0.3, 0.04
"""Share of pages of which a value is printed badly: often where a useful hint names it, seldom elsewhere."""
STRIP_HEIGHT_PX = 4 * CELL_PX


@dataclass(frozen=True, slots=True)
class Example:
    page: NanoPage
    kind: HintKind
    guidance: tuple[str, ...]
    hinted: tuple[str, ...]


def draw_example(seed: int, index: int, *, strip: bool = False) -> Example:
    """Example number ``index``: a page of a seen form, or a short one (``strip``) with one or two fields and no guidance."""
    ids = form_ids("seen")
    rng = rng_for(seed, "example", index)
    if strip:
        page = draw_page(seed, index, ids, keep=rng.randint(1, 2), height_px=STRIP_HEIGHT_PX)
        return Example(page, HintKind.NONE, (), ())
    page = draw_page(seed, index, ids, worn=WORN)
    kind, lines, hinted = draw_guidance(rng, page.fields)
    if kind is HintKind.RIGHT and rng.random() < WORN_WITH_HINT:
        page = draw_page(seed, index, ids, wear=hinted[0])
    return Example(page, kind, lines, hinted)


def example_batch(collator: Collator, seed: int, step: int, size: int, *, strip: bool = False) -> PageBatch:
    """The batch of one step: examples number ``step * size`` and following."""
    examples = [draw_example(seed, step * size + n, strip=strip) for n in range(size)]
    assert HEIGHT_PX % CELL_PX == 0
    pages = [example.page for example in examples]
    return collator.batch(
        np.stack([page.pixels for page in pages]),
        [user_text(example.guidance) for example in examples],
        [page.answer for page in pages],
        [page.chars for page in pages],
        [page.centres for page in pages],
    )
