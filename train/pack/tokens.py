"""A row's token ids: what a trainer must feed is what serving will build, then the answer, then the end of the turn.

One lost line break in a chat template is enough to lose most of a model's skill, so the ids are compared, not trusted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from certloop.extract.engine.contract import Question
from certloop.extract.engine.inputs import model_inputs
from certloop.extract.engine.prompt import assistant_message, user_message
from certloop.train.errors import TrainDataError
from certloop.train.rows import MANIFEST, Row


@dataclass(frozen=True, slots=True)
class RowIds:
    """``prompt`` and ``completion`` ids of one row; the completion ends with the end mark of the turn."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]


def row_ids(processor: Any, row: Row) -> RowIds:
    """The ids of a row as serving builds the prompt, and as the chat template writes the whole conversation.

    Raises TrainDataError when the conversation does not begin with serving's prompt: the template then treats a finished turn
    otherwise than an open one, and no trainer can agree with serving.
    """
    from PIL import Image

    pictures = [Image.open(path).convert("RGB") for path in row.images]
    question = Question(tuple(np.asarray(picture) for picture in pictures), row.prompt)
    prompt = _ids(model_inputs(processor, [question])["input_ids"][0])
    if row.completion is None:
        return RowIds(prompt, ())
    messages = [user_message(row.prompt, len(pictures)), assistant_message(row.completion)]
    text = str(processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=False))
    whole = _ids(processor(text=[text], images=[pictures], return_tensors="pt")["input_ids"][0])
    if whole[: len(prompt)] != prompt:
        raise TrainDataError(f"row {row.id}: the conversation does not begin with the prompt that serving builds")
    end = processor.tokenizer.eos_token_id
    rest = whole[len(prompt) :]
    if end not in rest:
        raise TrainDataError(f"row {row.id}: the answer has no end mark, so that a model would never stop")
    return RowIds(prompt, rest[: rest.index(end) + 1])


def check_same_ids(processor: Any, row: Row, trained: Sequence[int]) -> None:
    """Compare a trainer's ids (padding removed) with the row's. Raises TrainDataError at the first position that differs."""
    ids = row_ids(processor, row)
    wanted = [*ids.prompt, *ids.completion]
    for position, (ours, theirs) in enumerate(zip(wanted, trained, strict=False)):
        if ours != theirs:
            part = "prompt" if position < len(ids.prompt) else "answer"
            raise TrainDataError(f"row {row.id}: token {position} ({part}) is {theirs} in training and {ours} in serving")
    if len(trained) < len(wanted):
        raise TrainDataError(f"row {row.id}: training sees {len(trained)} tokens of {len(wanted)}; it was cut")


def check_rows(processor: Any, folder: Path, rows: Sequence[Row]) -> None:
    """What is checked before a run: pages were packed for no larger a bound than this processor's, so that nobody resizes them
    again, and a row of every prompt begins as serving begins it. Raises TrainDataError."""
    packed = _packed_view(folder)
    bound = int(processor.image_processor.size["longest_edge"])
    if packed is not None and packed > bound:
        raise TrainDataError(
            f"the rows of {folder.name} were packed for pages of up to {packed} pixels, this model is shown at most {bound}: "
            f"pack them again with --max-pixels {bound}, as serving will show them"
        )
    for row in {row.prompt: row for row in rows}.values():
        row_ids(processor, row)


def _packed_view(folder: Path) -> int | None:
    """The largest page that packing allowed; None for rows from elsewhere."""
    try:
        view = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("view") or {}
        return int(view["max_pixels"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _ids(tensor: Any) -> tuple[int, ...]:
    return tuple(int(token) for token in tensor.tolist())
