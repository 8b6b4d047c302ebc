"""tinker's SDK behind the few verbs that the loop needs. It is loaded when a run connects (``pip install tinker``, 0.38)."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from certloop.train.backends.tinker import Chunks, Datum, Sample
from certloop.train.config import RunConfig
from certloop.train.rows import Row

TOKEN_PX = 32


def _sdk() -> Any:
    """Raises ImportError where it is not installed."""
    import tinker  # type: ignore[import-not-found]

    return tinker


class SdkTraining:
    """One LoRA training client and the sampling client of its last published weights."""

    def __init__(self, config: RunConfig, api_key: str, service: Any = None) -> None:
        assert config.student.lora is not None
        self._service = service or _sdk().ServiceClient(api_key=api_key, base_url=config.tinker.base_url)
        self._training = self._service.create_lora_training_client(
            base_model=config.tinker.base_model, rank=config.student.lora.rank, seed=config.seed
        ).result()
        self._tokenizer = self._training.get_tokenizer()
        self._max_pixels = config.student.max_pixels or 1_310_720
        self._sampling: Any = None

    def refresh(self, name: str) -> None:
        found = self._training.save_weights_and_get_sampling_client(name)
        self._sampling = found.result() if hasattr(found, "result") else found  # a future since 0.37, the client itself before

    def prompt(self, row: Row) -> list[Mapping[str, Any]]:
        """The chat template with each image as a chunk of its own; the service counts the image's tokens itself."""
        content = [*({"type": "image"} for _ in row.images), {"type": "text", "text": row.prompt}]
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        parts = text.split("<|image_pad|>")
        chunks: list[Mapping[str, Any]] = []
        for part, path in zip(parts, [*row.images, None], strict=True):
            chunks.append({"type": "encoded_text", "tokens": self._tokenizer.encode(part, add_special_tokens=False)})
            if path is not None:
                chunks.append(_page(path, self._max_pixels))
        return chunks

    def sample(self, prompt: Chunks, n: int, *, max_tokens: int, temperature: float, top_p: float) -> list[Sample]:
        params = _sdk().types.SamplingParams(max_tokens=max_tokens, temperature=temperature, top_p=top_p)
        answer = self._sampling.sample(prompt=_model_input(prompt), num_samples=n, sampling_params=params).result()
        return [
            Sample(tuple(s.tokens), tuple(s.logprobs), self._tokenizer.decode(s.tokens, skip_special_tokens=True))
            for s in answer.sequences
        ]

    def update(self, data: Sequence[Datum], *, loss: str, clip: tuple[float, float], adam: Mapping[str, float]) -> float:
        rows = [_datum(d) for d in data]
        limits = {"clip_low_threshold": clip[0], "clip_high_threshold": clip[1]}
        forward = self._training.forward_backward(rows, loss, loss_fn_config=limits)
        step = self._training.optim_step(_sdk().types.AdamParams(**adam))
        result = forward.result()
        step.result()
        return float(result.metrics.get("loss:sum", 0.0)) / max(len(rows), 1)

    def save(self, name: str) -> str:
        return str(self._training.save_state(name).result().path)

    def load(self, where: str) -> None:
        self._training.load_state_with_optimizer(where).result()


def _page(path: Path, max_pixels: int) -> Mapping[str, Any]:
    """A page at a size of whole tokens (32 x 32 pixels) within ``max_pixels``: then we count its tokens as the service does."""
    from PIL import Image

    with Image.open(path) as opened:
        image = opened.convert("RGB")
    scale = min(1.0, math.sqrt(max_pixels / (image.width * image.height)))
    columns, rows = (max(1, math.floor(side * scale / TOKEN_PX)) for side in image.size)
    data = io.BytesIO()
    image.resize((columns * TOKEN_PX, rows * TOKEN_PX)).save(data, "PNG")
    return {"type": "image", "data": data.getvalue(), "format": "png", "expected_tokens": columns * rows}


def _datum(datum: Datum) -> Any:
    """Position i of the input predicts token i + 1; the prompt's positions carry no loss."""
    prompt = _model_input(datum.prompt)
    answer = list(datum.sample.tokens)
    full = prompt.append(_sdk().types.EncodedTextChunk(tokens=answer[:-1])) if len(answer) > 1 else prompt
    before = prompt.length - 1
    weight = datum.advantage / len(answer)
    inputs = {
        "target_tokens": [0] * before + answer,
        "logprobs": [0.0] * before + list(datum.sample.logprobs),
        "advantages": [0.0] * before + [weight] * len(answer),
        "sequence_ratio_mask": [0.0] * before + [1.0] * len(answer),
    }
    return _sdk().types.Datum(model_input=full, loss_fn_inputs=inputs)


def _model_input(chunks: Sequence[Mapping[str, Any]]) -> Any:
    made = [
        _sdk().types.ImageChunk(data=c["data"], format=c["format"], expected_tokens=c.get("expected_tokens"))
        if c["type"] == "image"
        else _sdk().types.EncodedTextChunk(tokens=list(c["tokens"]))
        for c in chunks
    ]
    return _sdk().types.ModelInput(chunks=made)
