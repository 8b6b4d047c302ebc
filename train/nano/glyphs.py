"""The first stage: the vision tower alone learns which glyph stands where, from strips of glyphs whose places the renderer knows.

Plain language-model loss does not teach a small tower to see (it stays near 10 % of glyphs); this does, in minutes. The head that
names glyphs goes on as a second loss while pages are read, and is thrown away afterwards.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certloop.synth.fields.codes import USCC_ALPHABET
from certloop.synth.seeds import pixels_rng, values_rng
from certloop.train.nano.batch import CELL_PX, CLASSES, SLOTS
from certloop.train.nano.form import ROLES, SIZES_PX, Glyph
from certloop.train.nano.page import glyph_centres, ink_of, light
from certloop.train.nano.values import draw_values
from certloop.train.nano.vocabulary import page_glyphs

if TYPE_CHECKING:
    import torch

WIDTH_PX, HEIGHT_PX = 6 * CELL_PX, 3 * CELL_PX


def build_glyph_head(hidden: int) -> torch.nn.Module:
    """Merged vision tokens (N, hidden) to class scores (N, SLOTS, CLASSES)."""
    import torch
    from torch import nn

    class GlyphHead(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slots = nn.Linear(hidden, SLOTS * 96)
            self.head_out = nn.Linear(96, CLASSES)

        def forward(self, features_NH: torch.Tensor) -> torch.Tensor:
            inner = self.slots(features_NH).view(-1, SLOTS, 96)
            return torch.as_tensor(self.head_out(nn.functional.gelu(inner)))

    head: torch.nn.Module = GlyphHead()
    return head


def glyph_loss(head: Any, features_NH: torch.Tensor, slots_NS: torch.Tensor, rng: torch.Generator) -> tuple[torch.Tensor, float]:
    """Cross-entropy over slots with a glyph and a tenth as many empty ones; and the share of glyphs named right."""
    import torch
    from torch.nn.functional import cross_entropy

    inner = head.slots(features_NH).view(-1, 96)
    flat = slots_NS.reshape(-1)
    keep = (flat > 0) | (torch.rand(flat.shape, generator=rng) < 0.05)
    scores = head.head_out(torch.nn.functional.gelu(inner[keep])).float()
    targets = flat[keep]
    loss = cross_entropy(scores, targets)
    with torch.no_grad():
        real = targets > 0
        right = (scores.argmax(-1) == targets)[real].float().mean()
    return loss, float(right)


def glyph_strips(
    seed: int, step: int, size: int, *, classes: int, strength: float
) -> tuple[NDArray[np.uint8], list[str], list[NDArray[np.float32]]]:
    """``size`` strips of three lines: pixels uint8 (size, 96, 192, 3), their glyphs and the glyphs' middles.

    ``classes`` limits random glyphs to the first ones of a fixed shuffle, ``strength`` scales tilt, blur and noise: easy first.
    """
    rng, noise = values_rng(seed, "strips", step), pixels_rng(seed, "strips", step)
    order = list(page_glyphs())
    Random(0).shuffle(order)
    pool = order[:classes]
    pixels, chars, places = [], [], []
    for _ in range(size):
        glyphs = _strip(rng, pool, words=classes == len(order))
        ink = ink_of(glyphs, WIDTH_PX, HEIGHT_PX)
        page, centres = light(ink, glyph_centres(glyphs), noise, strength=strength)
        pixels.append(page)
        chars.append("".join(g.char for g in glyphs))
        places.append(centres)
    return np.stack(pixels), chars, places


def _strip(rng: Random, pool: list[str], *, words: bool) -> list[Glyph]:
    role, size = rng.choice(ROLES), rng.choice(SIZES_PX)
    glyphs: list[Glyph] = []
    y = rng.uniform(10, 24)
    while y < HEIGHT_PX - 6:
        kind = rng.random()
        if kind < 0.35:
            text = "".join(rng.choice(USCC_ALPHABET) for _ in range(20))
        elif kind < 0.55 and words:
            values = list(draw_values(rng, trader=rng.random() < 0.5).values())
            text = "".join(rng.sample(values, 3))
        else:
            text = "".join(rng.choice(pool) for _ in range(12))
        x = rng.uniform(-4, 12)
        small = rng.choice((0, 0, 0, 1))
        for char in text:
            glyph = Glyph(char, x, y, role, size - small)
            if x + glyph.width_px > WIDTH_PX + 4:
                break
            glyphs.append(glyph)
            x += glyph.width_px + (rng.choice((0, 0, 6)) if kind > 0.8 else 0)
        y += rng.uniform(31, 38)
    return glyphs
