"""From questions to a model's tensors: the same code path for serving, for rollouts and for the checks of training rows.

The chat template writes the text, the processor expands each image mark to as many tokens as the image costs. Whoever trains
must end up with these ids: ``tests/train/test_pack_tokens.py`` compares them with what TRL's collators build.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certloop.extract.engine.contract import Image, Question
from certloop.extract.engine.prompt import user_message
from certloop.extract.engine.view import View


def chat_text(processor: Any, prompt: str, images: int = 1) -> str:
    """The whole text before the answer, image marks not yet expanded."""
    text = processor.apply_chat_template([user_message(prompt, images)], tokenize=False, add_generation_prompt=True)
    return str(text)


def model_inputs(processor: Any, questions: Sequence[Question]) -> Any:
    """A batch padded on the left: ``input_ids`` and ``attention_mask`` (B, T), ``pixel_values`` (patches, features),
    ``image_grid_thw`` (images, 3)."""
    from PIL import Image as Pictures

    return processor(
        text=[chat_text(processor, q.prompt, len(q.images)) for q in questions],
        images=[[Pictures.fromarray(image) for image in q.images] for q in questions],
        padding=True,
        padding_side="left",
        return_tensors="pt",
    )


def prompt_ids(processor: Any, prompt: str, images: Sequence[Image]) -> list[int]:
    """The token ids of one question, image tokens included."""
    ids = model_inputs(processor, [Question(tuple(images), prompt)])["input_ids"][0].tolist()
    return [int(token) for token in ids]


def view_of(processor: Any, max_pixels: int = 0) -> View:
    """The bounds within which this processor leaves a page as it is; ``max_pixels`` narrows them further (0: no narrower).
    Growing a small page must not take it over the upper bound, so the lower one is at most a quarter of it."""
    images = processor.image_processor
    least, most = int(images.size["shortest_edge"]), int(images.size["longest_edge"])
    factor = int(images.patch_size) * int(images.merge_size)
    most = min(most, max_pixels) if max_pixels else most
    return View(max(factor**2, min(least, most // 4)), most, factor)
