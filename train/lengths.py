"""Rows that are too long are refused before a run: nothing is ever cut, because half an answer teaches to stop early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certloop.train.errors import TrainDataError
from certloop.train.rows import Row

_SLACK = 16  # role names and line breaks of the chat template


def row_tokens(processor: Any, row: Row) -> int:
    """Tokens of prompt, images and answer of one row, from the sizes of its images: no pixel is decoded.

    Raises TrainDataError for an image that is none."""
    from PIL import Image

    text = len(processor.tokenizer(row.prompt + (row.completion or ""), add_special_tokens=False)["input_ids"])
    total = text + _SLACK
    for path in row.images:
        try:
            with Image.open(path) as image:
                total += image_tokens(processor, image.height, image.width) + 2
        except (OSError, SyntaxError) as error:
            raise TrainDataError(f"row {row.id}: its image {path.name} cannot be decoded ({type(error).__name__})") from None
    return total


def image_tokens(processor: Any, height: int, width: int) -> int:
    """How many tokens a page takes: its patches after the processor's own resizing, merged."""
    part = processor.image_processor
    patches: int = part.get_number_of_image_patches(height, width, {})
    return int(patches // part.merge_size**2)


def check_lengths(processor: Any, rows: Sequence[Row], max_length: int) -> int:
    """The longest row in tokens. Raises TrainDataError that names the first row over ``max_length`` and what to do."""
    longest = 0
    for row in rows:
        tokens = row_tokens(processor, row)
        if tokens > max_length:
            raise TrainDataError(
                f"row {row.id} takes {tokens} tokens, more than max_length {max_length}: "
                "lower max_pixels (for training and serving alike) or raise max_length"
            )
        longest = max(longest, tokens)
    return longest
