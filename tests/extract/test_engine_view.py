"""A page is resized once, by our own rule, and the processor that sees it afterwards changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.extract.engine.contract import Question
from certloop.extract.engine.inputs import model_inputs, view_of
from certloop.extract.engine.view import View, ViewError, page_view, png_bytes
from certloop.train.nano.tokenizer import build_processor

SIDES = st.integers(16, 5000)


@given(SIDES, SIDES, st.sampled_from([(1024, 589_824), (65_536, 2_097_152), (65_536, 262_144), (65_536, 16_777_216)]))
def test_sizes_are_those_of_qwens_own_rule_and_stay(height: int, width: int, bounds: tuple[int, int]) -> None:
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    view = View(*bounds)
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(ViewError):
            view.size_of(height, width)
        return
    size = view.size_of(height, width)
    if max(height, width) < 20 * min(height, width):  # a strip can be squeezed below one token on its short side
        assert size == smart_resize(height, width, 32, *bounds)
        assert view.size_of(*size) == size
        assert bounds[0] <= size[0] * size[1] <= bounds[1]
    assert view.tokens_of(height, width) == size[0] * size[1] // 1024


def test_a_page_too_large_for_the_context_is_seen_alike_by_every_processor() -> None:
    """The view's pixels go through the processor unchanged, so that training and serving agree whoever runs it."""
    processor = build_processor()
    rng = np.random.default_rng(0)
    page = rng.integers(0, 255, (2000, 1414, 3), np.uint8)
    view = view_of(processor)
    seen = page_view(page, view)
    assert seen.shape[0] * seen.shape[1] <= view.max_pixels == 589_824
    inputs = model_inputs(processor, [Question((seen,), "问")])
    assert inputs["image_grid_thw"].tolist() == [[1, seen.shape[0] // 16, seen.shape[1] // 16]]
    unresized = processor.image_processor([seen], do_resize=False, return_tensors="pt")["pixel_values"]
    assert (inputs["pixel_values"] == unresized).all()
    assert view_of(processor, 100_000).max_pixels == 100_000


def test_a_page_that_fits_is_shown_pixel_for_pixel() -> None:
    page = np.random.default_rng(1).integers(0, 255, (256, 384, 3), np.uint8)
    assert (page_view(page, View(1024, 589_824)) == page).all()


def test_quarter_turns_are_clockwise() -> None:
    page = np.zeros((64, 96, 3), np.uint8)
    page[0, 0] = 255  # top left
    turned = page_view(page, View(1024, 589_824), quarter_turns=1)
    assert turned.shape == (96, 64, 3)
    assert turned[0, -1].tolist() == [255, 255, 255], "the top left corner is now at the top right"


def test_png_keeps_every_pixel() -> None:
    import io

    from PIL import Image

    page = np.random.default_rng(2).integers(0, 255, (40, 50, 3), np.uint8)
    assert (np.asarray(Image.open(io.BytesIO(png_bytes(page)))) == page).all()


@pytest.mark.parametrize("bounds", [(1000, 2000, 32), (70_000, 65_536, 32), (1024, 4096, 0)])
def test_bounds_that_contradict_each_other_are_refused(bounds: tuple[int, int, int]) -> None:
    with pytest.raises(ViewError, match="min_pixels"):
        View(*bounds)
