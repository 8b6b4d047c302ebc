"""Data of the tinker API: a ``Datum`` as JSON, from the token ids as they were sampled.

Position ``i`` of ``model_input`` predicts token ``i + 1``: input is all tokens but the last, targets all but the first. What
``forward_backward`` of ``tinker`` 0.38 takes is made of a row as follows::

    inputs = {name: TensorData(**data) for name, data in row["loss_fn_inputs"].items()}
    datum = Datum(ModelInput.model_validate(row["model_input"]), inputs)

Losses: ``cross_entropy`` reads ``weights``; ``importance_sampling`` and ``ppo`` read ``logprobs`` and ``advantages``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from certloop.agentrl.store.errors import ExportError
from certloop.agentrl.trajectory import Trajectory

MIN_IMAGE_TOKENS = 16
"""A picture of 128 x 128 pixels has as many (patches of 16 pixels, merged two by two)."""


def tinker_sft_datum(
    trajectory: Trajectory, *, image_token_id: int | None = None, images: Sequence[tuple[bytes, str]] = ()
) -> dict[str, Any]:
    """A supervised datum: weight 1 on the assistant's tokens, 0 elsewhere. See :func:`tinker_rl_datum` for images."""
    model_input = _model_input(trajectory, image_token_id, images)
    inputs = {"weights": _floats([float(bit) for bit in trajectory.loss_mask[1:]])}
    return {"model_input": model_input, "loss_fn_inputs": {"target_tokens": _targets(trajectory)} | inputs}


def tinker_rl_datum(
    trajectory: Trajectory,
    advantage: float,
    *,
    image_token_id: int | None = None,
    images: Sequence[tuple[bytes, str]] = (),
) -> dict[str, Any]:
    """A policy-gradient datum with the sampling policy's stored log-probabilities; the advantage stands on trained tokens only.

    Where the tokens hold runs of ``image_token_id``, each run becomes an image chunk with the bytes and format (``png``,
    ``jpeg``) of its image. Raises ExportError for a trajectory without tokens, an advantage that is not finite, or a number of
    runs other than that of the images.
    """
    if not math.isfinite(advantage):
        raise ExportError("an advantage must be finite")
    model_input = _model_input(trajectory, image_token_id, images)
    inputs = {
        "target_tokens": _targets(trajectory),
        "logprobs": _floats([0.0 if p is None else p for p in trajectory.logprobs[1:]]),
        "advantages": _floats([advantage * bit for bit in trajectory.loss_mask[1:]]),
    }
    return {"model_input": model_input, "loss_fn_inputs": inputs}


def shows_images(trajectory: Trajectory) -> bool:
    """Whether the tokens seem to hold images: the same token many times in a row, where the model did not write."""
    read = (t for t, bit in zip(trajectory.token_ids, trajectory.loss_mask, strict=True) if not bit)
    return any(len(list(run)) >= MIN_IMAGE_TOKENS for _, run in groupby(read))


def _model_input(trajectory: Trajectory, image_token_id: int | None, images: Sequence[tuple[bytes, str]]) -> dict[str, Any]:
    if len(trajectory.token_ids) < 2:
        raise ExportError("this trajectory has no tokens: its engine is not a language model")
    chunks: list[dict[str, Any]] = []
    left = list(images)
    for is_image, run in groupby(trajectory.token_ids[:-1], key=lambda token: token == image_token_id):
        tokens = list(run)
        if not is_image:
            chunks.append({"type": "encoded_text", "tokens": tokens})
            continue
        if not left:
            raise ExportError("the tokens hold more images than were given")
        data, form = left.pop(0)
        encoded = base64.b64encode(data).decode()
        chunks.append({"type": "image", "data": encoded, "format": form, "expected_tokens": len(tokens)})
    if left:
        raise ExportError(f"{len(left)} images have no place in the tokens")
    return {"chunks": chunks}


def _targets(trajectory: Trajectory) -> dict[str, Any]:
    tokens = list(trajectory.token_ids[1:])
    return {"data": tokens, "dtype": "int64", "shape": [len(tokens)]}


def _floats(values: list[float]) -> dict[str, Any]:
    return {"data": values, "dtype": "float32", "shape": [len(values)]}
