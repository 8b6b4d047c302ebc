from __future__ import annotations

import numpy as np
import pytest

from certloop.extract.marks import variants, without_red


def test_red_ink_becomes_paper_and_black_print_stays(page):
    drawn = page(200, 100)
    drawn.draw.rectangle((20, 20, 80, 80), fill=(235, 30, 30))
    drawn.draw.rectangle((120, 20, 180, 80), fill=(20, 20, 20))
    clean = without_red(drawn.pixels)
    assert clean.shape == (100, 200, 3)
    assert clean[50, 50].min() > 220
    assert clean[50, 150].max() < 30


def test_variants_start_with_the_patch_itself_and_keep_its_form(page):
    patch = page(240, 40).text(5, 5, "营业执照", 24).pixels
    views = dict(variants(patch))
    assert next(iter(views)) == "plain"
    assert np.array_equal(views["plain"], patch)
    assert views.pop("double").shape == (80, 480, 3)
    assert {view.shape for view in views.values()} == {patch.shape}
    assert {view.dtype for view in views.values()} == {np.dtype(np.uint8)}


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 60, 3), (60, 1, 3)])
def test_tiny_patches(shape):
    patch = np.full(shape, 90, np.uint8)
    assert without_red(patch).shape == shape
    assert len(variants(patch)) == 6
