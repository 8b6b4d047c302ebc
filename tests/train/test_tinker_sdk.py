"""The adapter to tinker's SDK, against a local fake of its client contract: names, arguments and types as of 0.38, nothing more.

The fake refuses what the SDK refuses: unknown keys, other types, loss inputs that do not cover the model's input.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import pytest
from PIL import Image
from pydantic import BaseModel, ConfigDict

from certloop.train.backends.tinker import Datum, Sample, train
from certloop.train.backends.tinker_sdk import SdkTraining
from certloop.train.rows import Row

LOSSES = ("cross_entropy", "importance_sampling", "ppo", "cispo", "gspo", "dro")
COVER = {"target_tokens", "logprobs", "advantages", "sequence_ratio_mask"}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class EncodedTextChunk(Strict):
    tokens: list[int]
    type: Literal["encoded_text"] = "encoded_text"

    @property
    def length(self) -> int:
        return len(self.tokens)


class ImageChunk(Strict):
    data: bytes
    format: Literal["png", "jpeg"]
    expected_tokens: int | None = None
    type: Literal["image"] = "image"

    @property
    def length(self) -> int:
        assert self.expected_tokens is not None
        return self.expected_tokens


class ModelInput(Strict):
    chunks: list[EncodedTextChunk | ImageChunk]

    @property
    def length(self) -> int:
        return sum(chunk.length for chunk in self.chunks)

    def append(self, chunk: EncodedTextChunk | ImageChunk) -> ModelInput:
        return ModelInput(chunks=[*self.chunks, chunk])


class LearnedFrom(Strict):
    """``Datum``: every loss input covers the model's input, position by position."""

    model_input: ModelInput
    loss_fn_inputs: dict[str, list[int] | list[float]]

    def model_post_init(self, _: Any) -> None:
        assert set(self.loss_fn_inputs) == COVER
        assert {len(values) for values in self.loss_fn_inputs.values()} == {self.model_input.length}


class SamplingParams(Strict):
    max_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | list[int] | None = None
    temperature: float = 1
    top_k: int = -1
    top_p: float = 1


class AdamParams(Strict):
    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


class Future:
    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self, timeout: float | None = None) -> Any:
        return self.value


class Client:
    """The service's training and sampling clients in one, with the SDK's verbs and arguments."""

    def __init__(self, tokenizer: Any, answer: str) -> None:
        self.tokenizer, self.answer = tokenizer, answer
        self.made: dict[str, Any] = {}
        self.prompts: list[Any] = []
        self.data: list[Any] = []
        self.steps: list[Any] = []
        self.loaded: list[str] = []

    def create_lora_training_client(self, base_model: str, rank: int = 32, seed: int | None = None) -> Future:
        self.made = {"base_model": base_model, "rank": rank, "seed": seed}
        return Future(self)

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    def save_weights_and_get_sampling_client(self, name: str | None = None) -> Future:
        return Future(self)

    def sample(self, prompt: Any, num_samples: int, sampling_params: Any) -> Future:
        self.prompts.append(prompt)
        assert sampling_params.max_tokens > 0
        texts = [self.answer if n % 2 else "{}" for n in range(num_samples)]
        ids = [[*self.tokenizer(t, add_special_tokens=False)["input_ids"], self.tokenizer.eos_token_id] for t in texts]
        return Future(SimpleNamespace(sequences=[SimpleNamespace(tokens=i, logprobs=[-0.1] * len(i)) for i in ids]))

    def forward_backward(self, data: list[Any], loss_fn: str, loss_fn_config: Any = None) -> Future:
        assert loss_fn in LOSSES
        assert set(loss_fn_config) == {"clip_low_threshold", "clip_high_threshold"}
        self.data += data
        return Future(SimpleNamespace(metrics={"loss:sum": 4.0}))

    def optim_step(self, optim_params: Any = None) -> Future:
        self.steps.append(optim_params)
        return Future(None)

    def save_state(self, name: str) -> Future:
        return Future(SimpleNamespace(path=f"tinker://here/weights/{name}"))

    def load_state_with_optimizer(self, path: str) -> Future:
        self.loaded.append(path)
        return Future(None)


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = ModuleType("tinker")
    kinds = (EncodedTextChunk, ImageChunk, ModelInput, SamplingParams, AdamParams)
    types = SimpleNamespace(Datum=LearnedFrom, **{kind.__name__: kind for kind in kinds})
    module.types = types  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tinker", module)
    yield module


@pytest.fixture
def far(sdk: ModuleType, tiny: Any, rows: list[Row]) -> tuple[SdkTraining, Client, Any]:
    processor = tiny.processor()
    processor.tokenizer.chat_template = processor.chat_template
    client = Client(processor.tokenizer, str(rows[0].completion))
    stage = {"kind": "gspo", "group_size": 4, "batch_size": 8, "updates_per_generation": 1, "steps": 2, "warmup_steps": 0}
    config = tiny.config(stage, lora=True, backend="tinker", seed=7)
    return SdkTraining(config, "key", client), client, config


def test_a_prompt_is_the_one_that_serving_builds(far: tuple[SdkTraining, Client, Any], tiny: Any, rows: list[Row]) -> None:
    """Text, the page as a chunk of its own, text: expanded they are the very ids; a large page is shown within the bound."""
    from certloop.train.pack.tokens import row_ids

    service, client, _ = far
    assert client.made == {"base_model": "Qwen/Qwen3.5-4B", "rank": 4, "seed": 7}
    ids: list[int] = []
    image = tiny.student().config.image_token_id
    for chunk in service.prompt(rows[0]):
        ids += [image] * chunk["expected_tokens"] if chunk["type"] == "image" else chunk["tokens"]
    assert tuple(ids) == row_ids(tiny.processor(), rows[0]).prompt


def test_a_large_page_is_shown_within_the_bound(far: tuple[SdkTraining, Client, Any], rows: list[Row], tmp_path: Path) -> None:
    import dataclasses
    import io

    service, _, _ = far
    Image.new("RGB", (3000, 2000)).save(tmp_path / "large.png")
    (page,) = [c for c in service.prompt(dataclasses.replace(rows[0], images=(tmp_path / "large.png",))) if c["type"] == "image"]
    width, height = Image.open(io.BytesIO(page["data"])).size
    assert width % 32 == height % 32 == 0 and width * height <= 1_310_720
    assert page["expected_tokens"] == width * height // 1024


def test_what_is_learned_from_lies_on_the_answer_alone(far: tuple[SdkTraining, Client, Any], rows: list[Row]) -> None:
    service, client, _ = far
    sample = Sample((11, 12, 13), (-0.5, -0.25, -0.125), "x")
    adam = {"learning_rate": 1e-5, "beta2": 0.99, "weight_decay": 0.1, "grad_clip_norm": 1.0}
    loss = service.update([Datum(tuple(service.prompt(rows[0])), sample, 1.5)], loss="gspo", clip=(0.9, 1.1), adam=adam)
    assert loss == 4.0
    assert client.steps == [AdamParams(**adam)]
    (learned,) = client.data
    before = learned.model_input.length - 3
    values = {name: found[before:] for name, found in learned.loss_fn_inputs.items()}
    assert values["target_tokens"] == [11, 12, 13]
    assert values["logprobs"] == [-0.5, -0.25, -0.125]
    assert values["advantages"] == [0.5, 0.5, 0.5], "each answer weighs the same, however long"
    assert values["sequence_ratio_mask"] == [1.0, 1.0, 1.0]
    assert not any(any(found[:before]) for found in learned.loss_fn_inputs.values())
    assert learned.model_input.chunks[-1].tokens == [11, 12], "position i predicts token i + 1"


def test_the_loop_runs_through_the_sdk_and_resumes(far: tuple[SdkTraining, Client, Any], tmp_path: Path) -> None:
    service, client, config = far
    assert train(config, service, tmp_path) == "tinker://here/weights/tiny-2"
    assert len(client.steps) == 2
    assert len(client.prompts) == 4  # two pages a step
    longer = config.stages[0].model_copy(update={"steps": 3})
    train(config.model_copy(update={"stages": (longer,)}), service, tmp_path)
    assert client.loaded == ["tinker://here/weights/tiny-2"]
    assert len(client.steps) == 3
