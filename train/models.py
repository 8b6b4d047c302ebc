"""Loading and saving of vision-language models for training: bases, adapters, processors, and the checks before a run.

Weights are safetensors only, remote code is never run. A model folder that a stage leaves behind holds either all weights or an
adapter (``adapter_config.json``) with the fingerprint of the base it belongs to; the processor stands beside it, so serving
sees pages at the size training saw them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.extract.engine.adapters import BASE_MARK as BASE
from certloop.extract.engine.adapters import fingerprint
from certloop.extract.engine.sources import model_folder, why_not
from certloop.train.config import LoraSpec, ModelSpec
from certloop.train.errors import AdapterBaseError, ModelLoadError, TrainConfigError, TrainExtraError, VocabularyError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, ProcessorMixin

ADAPTER = "adapter_config.json"
LANGUAGE_LINEARS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
ALL_LINEARS = (
    r".*(language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)|"
    r"visual\.(?!patch_embed).*\.(qkv|proj|linear_fc1|linear_fc2))"  # the patches' is a convolution
)
PROBES = (
    "统一社会信用代码：91350100M000100Y43",
    '{"名称": "示例有限公司", "成立日期": "2015年06月01日"}\n',
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>住所<|im_end|>\n",
    "（法定代表人）张三 ￥１２３.50 \t ABC-xyz_09",
)


def need_extra() -> None:
    """Raises TrainExtraError when the optional packages are missing."""
    try:
        import peft  # noqa: F401
        import torch  # noqa: F401
        import trl  # noqa: F401
    except ImportError as error:
        raise TrainExtraError(f"training needs the extra: pip install 'certloop[train]' ({error.name} is missing)") from None


def without_bars() -> None:
    """No progress bars of loading and saving weights between the steps that a run prints; downloads keep theirs."""
    from huggingface_hub import utils
    from transformers.utils import logging

    hub: Any = utils
    downloads = not hub.are_progress_bars_disabled()
    logging.disable_progress_bar()
    if downloads:
        hub.enable_progress_bars()


def model_source(path: str) -> str:
    """A folder or hub name as it is; ``nano:teacher`` and ``nano:early`` are the models that come with the product."""
    if not path.startswith("nano:"):
        return model_folder(path)
    from certloop.train.nano import EARLY, TEACHER, nano_folder

    name = path.removeprefix("nano:")
    if name not in (EARLY, TEACHER):
        raise ModelLoadError(f"there is no model {path}: nano:{EARLY} and nano:{TEACHER} come with certloop")
    return str(nano_folder(name))


def load_processor(spec: ModelSpec, folder: Path | None = None) -> ProcessorMixin:
    """The processor of ``folder`` (a model that a stage left) or of the base, with the page bounds of ``spec``."""
    from transformers import AutoProcessor

    source = str(folder) if folder is not None and (folder / "tokenizer_config.json").exists() else model_source(spec.path)
    try:
        processor = AutoProcessor.from_pretrained(source, revision=spec.revision, padding_side="left", trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelLoadError(f"the processor of {source} cannot be loaded: {why_not(source, error)}") from None
    size = dict(processor.image_processor.size)
    if spec.min_pixels is not None:
        size["shortest_edge"] = spec.min_pixels
    if spec.max_pixels is not None:
        size["longest_edge"] = spec.max_pixels
    processor.image_processor.size = size
    return processor


def load_base(spec: ModelSpec, *, frozen: bool = False) -> PreTrainedModel:
    """The weights of ``spec.path`` at its dtype; ``frozen`` for a teacher. Raises ModelLoadError."""
    import torch
    from transformers import AutoModelForImageTextToText

    dtype = {"bfloat16": torch.bfloat16, "float32": torch.float32}[spec.dtype]
    try:
        model = AutoModelForImageTextToText.from_pretrained(
            model_source(spec.path), revision=spec.revision, dtype=dtype, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelLoadError(
            f"{spec.path} cannot be loaded as a vision-language model: {why_not(model_source(spec.path), error)}"
        ) from None
    if frozen:
        model.requires_grad_(False)
        model.eval()
    return model


def load_student(spec: ModelSpec, start: Path | None = None) -> Any:
    """The student as the stage before left it in ``start`` (None: the base), ready to be trained.

    With ``spec.lora`` a PeftModel: a new adapter on the base, or the adapter of ``start`` made trainable again. Raises
    ModelLoadError, and AdapterBaseError when the adapter belongs to another base.
    """
    if start is not None and not (start / ADAPTER).exists():
        spec = spec.model_copy(update={"path": str(start), "revision": None})
    model = load_base(spec)
    if start is not None and (start / ADAPTER).exists():
        return load_adapter(model, start, trainable=True)
    if spec.lora is not None:
        return with_lora(model, spec.lora)
    if spec.freeze_vision:
        model.model.visual.requires_grad_(False)
    return model


def with_lora(model: PreTrainedModel, spec: LoraSpec) -> Any:
    """A new adapter over the linear layers that ``spec.targets`` names. Raises TrainConfigError when they name none."""
    from peft import get_peft_model

    try:
        return get_peft_model(model, lora_config(spec))
    except ValueError as error:
        raise TrainConfigError(f"lora.targets {spec.targets!r}: {str(error).splitlines()[0]}") from None


def lora_config(spec: LoraSpec) -> Any:
    from peft import LoraConfig

    targets = {"language": LANGUAGE_LINEARS, "all": ALL_LINEARS}.get(spec.targets, spec.targets)
    return LoraConfig(
        r=spec.rank, lora_alpha=spec.alpha, lora_dropout=spec.dropout, target_modules=targets, bias="none", task_type="CAUSAL_LM"
    )


def load_adapter(model: PreTrainedModel, folder: Path, *, trainable: bool = False) -> Any:
    """Put the adapter of ``folder`` on its base. Raises AdapterBaseError, with the reason, when ``model`` is another base."""
    from peft import PeftModel

    check_adapter_base(model, folder)
    try:
        return PeftModel.from_pretrained(model, str(folder), is_trainable=trainable, torch_device="cpu")
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelLoadError(f"the adapter in {folder.name} cannot be loaded: {type(error).__name__}") from None


def check_adapter_base(model: PreTrainedModel, folder: Path) -> None:
    """Compare the base that the adapter was trained on with ``model``. Raises AdapterBaseError that says what differs."""
    try:
        known = json.loads((folder / BASE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise AdapterBaseError(f"{folder.name} does not say which base model it belongs to ({BASE} is missing)") from None
    here = fingerprint(model)
    if known.get("shapes") != here["shapes"]:
        raise AdapterBaseError(f"{folder.name} belongs to {known.get('name')}, a model of another shape")
    if known.get("weights") != here["weights"]:
        raise AdapterBaseError(f"{folder.name} belongs to {known.get('name')}, a model of the same shape with other weights")


def base_mark(model: Any, base_name: str) -> dict[str, str] | None:
    """The name and fingerprint of an adapter's base; None for a model of its own. Taken before training: afterwards the weights
    may be spread over several devices."""
    return {"name": Path(base_name).name, **fingerprint(model)} if hasattr(model, "peft_config") else None


def save_model(
    model: Any,
    processor: ProcessorMixin,
    folder: Path,
    *,
    base_name: str = "",
    base: dict[str, str] | None = None,
    weights: dict[str, Any] | None = None,
) -> None:
    """Write what a stage trained (all weights, or the adapter with its base's fingerprint) and the processor.

    ``base`` is the :func:`base_mark` where it was taken before, ``weights`` the gathered state where the model's own is spread.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = {} if weights is None else {"state_dict": weights}
    model.save_pretrained(str(folder), safe_serialization=True, **own)
    processor.save_pretrained(str(folder))
    if mark := base or base_mark(model, base_name):
        (folder / BASE).write_text(json.dumps(mark, indent=2) + "\n", encoding="utf-8")


def check_vocabulary(student: ProcessorMixin, teacher: ProcessorMixin, sizes: tuple[int, int] | None = None) -> None:
    """Refuse a pair that does not share one vocabulary, by size and by how probe texts are encoded.

    ``sizes`` are the rows of the output layers (padding of the vocabulary differs between models of one family). Raises
    VocabularyError that says where they differ.
    """
    ours, theirs = student.tokenizer, teacher.tokenizer
    if len(ours) != len(theirs):
        raise VocabularyError(
            f"the student knows {len(ours)} tokens, the teacher {len(theirs)}: distillation compares them one by one"
        )
    if sizes is not None and sizes[0] != sizes[1]:
        raise VocabularyError(
            f"the student's head has {sizes[0]} rows, the teacher's {sizes[1]}; pick models of one vocabulary size"
        )
    for number, probe in enumerate(PROBES):
        if ours(probe, add_special_tokens=False)["input_ids"] != theirs(probe, add_special_tokens=False)["input_ids"]:
            raise VocabularyError(f"student and teacher encode probe text {number} differently: their tokens are not the same")
    for name in ("eos_token_id", "pad_token_id"):
        if getattr(ours, name) != getattr(theirs, name):
            raise VocabularyError(f"student and teacher have another {name}")


def device_of(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device
