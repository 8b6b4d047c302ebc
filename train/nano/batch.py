"""From pages to tensors, without the processor's overhead but with its exact result (a test compares)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certloop.train.nano.tokenizer import IMAGE_MEAN, IMAGE_STD, MERGE, PATCH_PX
from certloop.train.nano.vocabulary import nano_type, page_glyphs

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

CELL_PX = PATCH_PX * MERGE
SLOT_COLUMNS, SLOT_ROWS = 4, 2
SLOTS = SLOT_COLUMNS * SLOT_ROWS
CODE_LENGTH, CODE_WEIGHT = 18, 2.0
LABELS = tuple(spec.label for spec in nano_type().fields.values())
"""A merged vision token sees 32 x 32 pixels; at most one glyph has its middle in a slot of 8 x 16."""
_BLANK = 0


def patches(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """uint8 (batch, height, width, 3), sides multiples of 32, to float32 (batch * patches, 3 * 16 * 16).

    The processor's rows hold every value twice (its temporal pair is one image twice); here it stands once.
    """
    batch, height, width, _ = pixels.shape
    down, across = height // CELL_PX, width // CELL_PX
    scaled = (pixels.astype(np.float32) * (1 / 255) - IMAGE_MEAN) * (1 / IMAGE_STD)
    cut = scaled.reshape(batch, down, MERGE, PATCH_PX, across, MERGE, PATCH_PX, 3)
    ordered = cut.transpose(0, 1, 4, 2, 5, 7, 3, 6)  # batch, cell row, cell column, patch row, patch column, channel, y, x
    return np.ascontiguousarray(ordered).reshape(batch * down * across * MERGE * MERGE, -1)


def slot_targets(chars: Sequence[str], centres: Sequence[NDArray[np.float32]], height: int, width: int) -> NDArray[np.int64]:
    """int64 (batch * cells, SLOTS): class of the glyph whose middle lies in a slot, counted from 1; 0 where there is none."""
    down, across = height // CELL_PX, width // CELL_PX
    out = np.zeros((len(chars), down * SLOT_ROWS, across * SLOT_COLUMNS), np.int64)
    for page, (text, places) in enumerate(zip(chars, centres, strict=True)):
        rows = np.floor(places[:, 1] / (CELL_PX / SLOT_ROWS)).astype(int)
        columns = np.floor(places[:, 0] / (CELL_PX / SLOT_COLUMNS)).astype(int)
        inside = (rows >= 0) & (rows < out.shape[1]) & (columns >= 0) & (columns < out.shape[2])
        classes = np.array([_CLASS[char] for char in text], np.int64)
        out[page, rows[inside], columns[inside]] = classes[inside]
    cells = out.reshape(len(chars), down, SLOT_ROWS, across, SLOT_COLUMNS).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(cells).reshape(-1, SLOTS)


_CLASS = {char: n for n, char in enumerate(page_glyphs(), 1)}
CLASSES = len(_CLASS) + 1


@dataclass(frozen=True, slots=True)
class PageBatch:
    """Tensors of one step: ids (B, T) padded on the right, the mask of real tokens, weights of answer tokens (0 elsewhere)."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    answer_weights: torch.Tensor
    pixel_values: torch.Tensor
    image_grid_thw: torch.Tensor
    position_ids: torch.Tensor
    slots: torch.Tensor

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches, the same for every page of a batch."""
        return int(self.image_grid_thw[0, 1]), int(self.image_grid_thw[0, 2])


class Collator:
    """Builds training batches whose ids equal ``apply_chat_template`` of the messages, up to the end mark of the answer."""

    def __init__(self, model: Qwen3VLForConditionalGeneration, processor: Qwen3VLProcessor) -> None:
        self._model, self._tokenizer = model, processor.tokenizer
        self._positions: dict[tuple[int, int], torch.Tensor] = {}

    def ids(self, user: str, answer: str, cells: int) -> tuple[list[int], int]:
        """Token ids of the conversation, ending with the answer's end mark, and how many of them are the answer's."""
        turn = (
            f"<|im_start|>user\n<|vision_start|>{'<|image_pad|>' * cells}<|vision_end|>{user}<|im_end|>\n<|im_start|>assistant\n"
        )
        prompt = self._tokenizer(turn, add_special_tokens=False)["input_ids"]
        written = self._tokenizer(f"{answer}<|im_end|>", add_special_tokens=False)["input_ids"]
        return prompt + written, len(written)

    def _weights(self, written: Sequence[int]) -> list[float]:
        """Short values weigh more, as F1 counts fields and not characters: 9 a value, 1 to 3 a token; keys and marks 0.3.

        A code's characters weigh 2: none can be guessed from its neighbours, so it is learnt last.
        """
        between = ['{"', '": "', '", "', '"}', *self._tokenizer.all_special_tokens, *LABELS]
        marks = set(self._tokenizer.convert_tokens_to_ids(between))
        out, run = [], 0
        for token in [*written, written[-1]]:
            if token not in marks:
                run += 1
                continue
            if run:
                out += [CODE_WEIGHT if run == CODE_LENGTH else min(3.0, max(1.0, 9 / run))] * run
            run = 0
            out.append(0.3)
        return out[: len(written)]

    def batch(
        self,
        pixels: NDArray[np.uint8],
        users: Sequence[str],
        answers: Sequence[str],
        chars: Sequence[str],
        centres: Sequence[NDArray[np.float32]],
    ) -> PageBatch:
        """One batch of pages of one size."""
        import torch

        size, height, width, _ = pixels.shape
        grid = (height // PATCH_PX, width // PATCH_PX)
        rows = [self.ids(user, answer, grid[0] * grid[1] // MERGE**2) for user, answer in zip(users, answers, strict=True)]
        longest = max(len(ids) for ids, _ in rows)
        input_ids = torch.full((size, longest), self._tokenizer.pad_token_id)
        mask = torch.zeros((size, longest), dtype=torch.long)
        weights = torch.zeros((size, longest))
        for n, (ids, written) in enumerate(rows):
            input_ids[n, : len(ids)] = torch.tensor(ids)
            mask[n, : len(ids)] = 1
            weights[n, len(ids) - written : len(ids)] = torch.tensor(self._weights(ids[-written:]))
        return PageBatch(
            input_ids=input_ids,
            attention_mask=mask,
            answer_weights=weights,
            pixel_values=torch.from_numpy(patches(pixels)),
            image_grid_thw=torch.tensor([[1, *grid]] * size),
            position_ids=self._position_ids(grid, size, longest),
            slots=torch.from_numpy(slot_targets(chars, centres, height, width)),
        )

    def _position_ids(self, grid: tuple[int, int], size: int, longest: int) -> torch.Tensor:
        """(3, B, T): every prompt has its one image at the same place, so one row serves all (a test compares)."""
        import torch

        if (known := self._positions.get(grid)) is None or known.shape[1] < longest:
            down, across = grid[0] // MERGE, grid[1] // MERGE
            before, cells = 4, down * across
            known = torch.arange(longest + 512).repeat(3, 1)
            known[0, before : before + cells] = before
            known[1, before : before + cells] = before + torch.arange(down).repeat_interleave(across)
            known[2, before : before + cells] = before + torch.arange(across).repeat(down)
            after = known[0, before + cells :]
            known[:, before + cells :] = after - (before + cells) + before + max(down, across)
            self._positions[grid] = known
        return known[:, None, :longest].expand(3, size, longest)
