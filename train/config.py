"""A training run as data: one frozen, serialisable TOML file that says everything (model, data, stages, hardware, backend).

A run is a list of stages, each of which starts from the model the one before left: ``sft``, ``distill``, ``context-distill``,
``gspo``. ``load_config`` reads a file or a built-in name, ``dump_config`` writes the same file again, ``RunConfig.with_``
makes a changed copy. Nothing here loads torch.
"""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from certloop.train.errors import TrainConfigError

Dtype = Literal["bfloat16", "float32"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LoraSpec(_Frozen):
    """A low-rank adapter. ``targets`` is ``language`` (every linear layer of the language model, the head excepted: distillation
    reads its weight directly), ``all`` (the vision tower's too), or a regular expression over module names."""

    rank: int = Field(64, ge=1, le=1024)
    alpha: int = Field(128, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    targets: str = "language"


class ModelSpec(_Frozen):
    """A model folder or hub name; without ``lora`` all weights are trained. ``max_pixels`` bounds a page in training and serving
    alike (it is saved with the processor); ``freeze_vision`` keeps the vision tower as it is when all weights are trained."""

    path: str = Field(min_length=1)
    revision: str | None = None
    dtype: Dtype = "bfloat16"
    lora: LoraSpec | None = None
    freeze_vision: bool = False
    min_pixels: int | None = Field(None, ge=1)
    max_pixels: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _pixels_in_order(self) -> Self:
        if self.min_pixels is not None and self.max_pixels is not None and self.min_pixels > self.max_pixels:
            raise ValueError("min_pixels is larger than max_pixels")
        return self


class DataSpec(_Frozen):
    """Folders of packed rows (``rows.jsonl``, images, ``manifest.json``). ``max_length`` is the longest row in tokens, prompt,
    image and answer together: a longer one is refused before training, never cut silently."""

    train: str = ""
    eval: str = ""
    max_length: int = Field(8192, ge=16)


class _Stage(_Frozen):
    """What every stage has. A step is one optimiser update over ``batch_size * accumulation`` rows on each device."""

    name: str = Field("", max_length=60, pattern=r"^[\w-]*$")
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    accumulation: int = Field(1, ge=1)
    steps: int | None = Field(None, ge=1)
    epochs: float | None = Field(None, gt=0)
    warmup_steps: int = Field(0, ge=0)
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    weight_decay: float = Field(0.0, ge=0)
    beta2: float = Field(0.999, gt=0, lt=1)
    max_grad_norm: float = Field(1.0, gt=0)
    gradient_checkpointing: bool = True

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        return self

    @property
    def label(self) -> str:
        return self.name or str(getattr(self, "kind", ""))


class SftStage(_Stage):
    """Cross-entropy on the answer only (TRL's SFTTrainer)."""

    kind: Literal["sft"]


class DistillStage(_Stage):
    """Generalised knowledge distillation: ``GKD + mu * CE`` (METHODS §4).

    ``on_policy`` is lambda: 1 trains on the student's own answers (DistillationTrainer), less mixes labelled answers in
    (GOLDTrainer). ``divergence`` is beta: 0 forward KL, 1 reverse KL, between them the Jensen-Shannon divergence.
    ``ce_weight`` is mu, the weight of the cross-entropy on the labelled answer.
    """

    kind: Literal["distill"]
    divergence: float = Field(0.5, ge=0, le=1)
    on_policy: float = Field(1.0, ge=0, le=1)
    temperature: float = Field(1.0, gt=0)
    ce_weight: float = Field(0.0, ge=0)
    max_completion_length: int = Field(512, ge=1)
    vllm: bool = False


class ContextDistillStage(_Stage):
    """The student under the plain prompt learns what the teacher says under each row's ``teacher_prompt`` (hints, notes)."""

    kind: Literal["context-distill"]
    divergence: float = Field(1.0, ge=0, le=1)
    temperature: float = Field(1.0, gt=0)
    max_completion_length: int = Field(512, ge=1)
    vllm: bool = False


class GspoStage(_Stage):
    """GSPO with the field reward ``0.05 + 0.95 * F1 ** power`` (METHODS §2, §3).

    A generation samples ``batch_size * updates_per_generation`` answers, ``group_size`` a page, and takes
    ``updates_per_generation`` optimiser steps on them; with one, the ratio is 1 and nothing is clipped.
    ``flat_groups``: groups whose answers all earn the same are dropped (the others keep their full weight) or kept.
    ``hard_sampling``: share of the pages drawn by difficulty (fields with a low exact rate, long texts) instead of evenly.
    ``reward``: fields against the label; ``random`` is the control arm; ``agreement`` needs no label (validators and two reads).
    ``max_entropy_growth``, ``max_kl``: bounds after which the run stops; ``kl_every`` generations the distance from the start
    is measured (0: never). ``tools`` lets the model call the zoom tool; ``max_tool_rounds`` bounds its calls.
    """

    kind: Literal["gspo"]
    accumulation: Literal[1] = 1
    group_size: int = Field(8, ge=2)
    updates_per_generation: int = Field(4, ge=1)
    clip_low: float = Field(3e-4, gt=0)
    clip_high: float = Field(4e-4, gt=0)
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_completion_length: int = Field(512, ge=1)
    reward: Literal["fields", "random", "agreement"] = "fields"
    power: float = Field(4, gt=0)
    normalise: bool = True
    flat_groups: Literal["drop", "keep"] = "drop"
    hard_sampling: float = Field(0.5, ge=0, le=1)
    max_entropy_growth: float | None = Field(3.0, gt=1)
    max_kl: float | None = Field(None, gt=0)
    kl_every: int = Field(0, ge=0)
    tools: bool = False
    max_tool_rounds: int = Field(2, ge=1)
    vllm: bool = False
    vllm_memory: float = Field(0.35, gt=0, lt=1)

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if (self.batch_size * self.updates_per_generation) % self.group_size:
            raise ValueError("batch_size * updates_per_generation must be a multiple of group_size")
        if self.batch_size % self.group_size and self.batch_size > self.group_size:
            raise ValueError("batch_size must be a multiple of group_size")
        if self.max_kl is not None and self.kl_every == 0:
            raise ValueError("max_kl needs kl_every: without it the divergence is never measured")
        return self


Stage = Annotated[SftStage | DistillStage | ContextDistillStage | GspoStage, Field(discriminator="kind")]


class HardwareSpec(_Frozen):
    """Where it runs. ``peak_tflops`` and ``memory_gbps`` are the device's data sheet (bfloat16, dense; memory bandwidth in GB/s);
    ``utilisation`` is the share of the peak that training reaches. ``usd_per_hour`` is the price of one device."""

    device: Literal["cpu", "cuda"] = "cuda"
    count: int = Field(1, ge=1)
    memory_gib: float = Field(80, gt=0)
    peak_tflops: float = Field(989, gt=0)
    memory_gbps: float = Field(3350, gt=0)
    utilisation: float = Field(0.3, gt=0, le=1)
    usd_per_hour: float = Field(0.0, ge=0)
    sharding: Literal["ddp", "fsdp"] = "ddp"


class SwiftSpec(_Frozen):
    """ms-swift on a cluster: where the teacher's server listens, and further options of its command as they are."""

    teacher_url: str = "http://127.0.0.1:8000"
    teacher_gpus: int = Field(1, ge=1)
    options: dict[str, str] = {}


class TinkerSpec(_Frozen):
    """The tinker cloud API. The key is read from a file, never from this configuration."""

    base_url: str = "https://tinker.thinkingmachines.dev/services/tinker-prod"
    base_model: str = "Qwen/Qwen3.5-4B"
    api_key_file: str = ""
    usd_per_million_tokens: float = Field(0.0, ge=0)


class RunConfig(_Frozen):
    """One run. ``resume_state`` keeps optimiser and sampler state in checkpoints, ``keep`` is how many are kept."""

    name: str = Field(min_length=1, max_length=60, pattern=r"^[\w-][\w.-]*$")
    backend: Literal["local", "swift", "tinker"] = "local"
    seed: int = Field(0, ge=0)
    student: ModelSpec
    teacher: ModelSpec | None = None
    data: DataSpec = DataSpec()
    stages: tuple[Stage, ...] = Field(min_length=1)
    hardware: HardwareSpec = HardwareSpec()
    checkpoint_every: int = Field(100, ge=1)
    keep: int = Field(2, ge=1)
    log_every: int = Field(1, ge=1)
    eval_pages: int = Field(200, ge=0)
    swift: SwiftSpec = SwiftSpec()
    tinker: TinkerSpec = TinkerSpec()

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if any(s.kind in ("distill", "context-distill") for s in self.stages) and self.teacher is None:
            raise ValueError("a distill stage needs a [teacher]")
        if self.teacher is not None and self.teacher.lora is not None:
            raise ValueError("the teacher is frozen: it has no lora")
        labels = [stage.label for stage in self.stages]
        if len(set(labels)) != len(labels):
            raise ValueError("two stages of one kind need names of their own")
        return self

    def with_(self, **changes: Any) -> RunConfig:
        """A copy with other values. Raises TrainConfigError when they make no sense."""
        return parse_config(self.to_dict() | changes)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, without what is None: TOML knows no null."""
        return self.model_dump(mode="json", exclude_none=True)


def parse_config(data: dict[str, Any]) -> RunConfig:
    """Raises TrainConfigError that names every key that is wrong."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'run'}: {_said(e)}" for e in _causes(error))
        raise TrainConfigError(f"the run is not well formed: {problems}") from None


def _causes(error: ValidationError) -> list[Any]:
    """Without what only follows: a stage that is wrong also leaves the list of stages short."""
    found = error.errors()
    return [e for e in found if not any(len(o["loc"]) > len(e["loc"]) == 1 and o["loc"][0] == e["loc"][0] for o in found)]


def _said(problem: Any) -> str:
    return "there is no such key" if problem["type"] == "extra_forbidden" else str(problem["msg"])


def builtin_configs() -> list[str]:
    """Names of the configurations that come with the product."""
    return sorted(
        p.name.removesuffix(".toml") for p in files("certloop.train").joinpath("configs").iterdir() if p.name.endswith(".toml")
    )


def load_config(source: str | Path) -> RunConfig:
    """Read a TOML file, or a built-in configuration by its name. Relative folders in it are seen from the working directory.

    Raises TrainConfigError when there is no such file or name, or it is not well formed.
    """
    path = Path(source)
    if path.suffix != ".toml" and not path.is_file():  # a folder of that name may stand here: runs do
        if str(source) not in builtin_configs():
            raise TrainConfigError(f"no run file {str(source)!r}; built in are: {', '.join(builtin_configs())}")
        text = files("certloop.train").joinpath("configs", f"{source}.toml").read_text(encoding="utf-8")
    else:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "it is not text in UTF-8"
            raise TrainConfigError(f"the run file {path.name} cannot be read: {why}") from None
    try:
        return parse_config(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise TrainConfigError(f"{path.name} is not TOML: {error}") from None


def dump_config(config: RunConfig) -> str:
    """The run as TOML: reading it again gives an equal configuration."""
    return _toml(config.to_dict(), ()).lstrip("\n")


def _toml(table: dict[str, Any], path: tuple[str, ...]) -> str:
    scalars = {k: v for k, v in table.items() if not _is_table(v) and not _is_tables(v)}
    lines = [f"{_key(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in scalars.items()]
    text = "\n".join(lines) + ("\n" if lines else "")
    for key, value in table.items():
        where = (*path, key)
        header = ".".join(map(_key, where))
        if _is_table(value):
            text += f"\n[{header}]\n{_toml(value, where)}"
        elif _is_tables(value):
            text += "".join(f"\n[[{header}]]\n{_toml(entry, where)}" for entry in value)
    return text


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _key(key: str) -> str:
    bare = key.replace("_", "").replace("-", "")
    return key if bare.isascii() and bare.isalnum() else json.dumps(key)
