"""Low-rank adapters: which model they belong to, and why one is refused.

An adapter on another base model loads without a word when the shapes happen to agree, and then answers nonsense. So the
trainer leaves the base model's fingerprint in the adapter's folder (``certloop_base.json``); where a foreign adapter has
none, its own record of the base model's name is compared, and always the names and shapes of its weights.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

from certloop.extract.engine.errors import AdapterRefusedError

BASE_MARK = "certloop_base.json"
WEIGHTS = "adapter_model.safetensors"
_CONFIG = "adapter_config.json"
_MAX_HEADER = 100 << 20
_SAMPLE = 64
_PREFIX = re.compile(r"^base_model\.model\.")
_LORA = re.compile(r"\.lora_(A|B|embedding_A|embedding_B)\.weight$")


def fingerprint(model: Any) -> dict[str, str]:
    """Two hashes of a base model: of the names and shapes of its weights, and of 64 values spread over each of them.

    Both are the same whether the model is loaded in float32 or bfloat16, and whether or not adapters stand on it.
    """
    import torch

    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    shapes, weights = hashlib.sha256(), hashlib.sha256()
    for name, parameter in sorted(base.named_parameters()):
        if ".lora_" in name:
            continue
        clean = name.replace(".base_layer", "")
        shapes.update(f"{clean}{tuple(parameter.shape)}".encode())
        flat = parameter.detach().reshape(-1)
        sample = flat[:: max(1, flat.numel() // _SAMPLE)][:_SAMPLE]
        weights.update(sample.cpu().to(torch.bfloat16).float().numpy().tobytes())
    return {"shapes": shapes.hexdigest(), "weights": weights.hexdigest()}


def check_adapter(adapter: Path, model: Any, names: tuple[str, ...]) -> None:
    """Refuse an adapter that does not belong to ``model``, which goes by ``names``. Raises AdapterRefusedError that says why."""
    config = _json(adapter, _CONFIG)
    if config.get("peft_type") != "LORA":
        raise AdapterRefusedError(f"the adapter {adapter.name} is of type {config.get('peft_type')!r}; only LORA is served")
    _only_safetensors(adapter)
    if (adapter / BASE_MARK).is_file():
        _check_mark(adapter, _json(adapter, BASE_MARK), fingerprint(model))
    elif (trained_on := str(config.get("base_model_name_or_path") or "")) and not _same_name(trained_on, names):
        raise AdapterRefusedError(
            f"the adapter {adapter.name} was trained on {Path(trained_on).name!r}, the model here is {Path(names[0]).name!r}"
        )
    _check_shapes(adapter, model)


def _check_mark(adapter: Path, known: dict[str, Any], here: dict[str, str]) -> None:
    if known.get("shapes") != here["shapes"]:
        raise AdapterRefusedError(f"the adapter {adapter.name} belongs to {known.get('name')}, a model of another shape")
    if known.get("weights") != here["weights"]:
        raise AdapterRefusedError(
            f"the adapter {adapter.name} belongs to {known.get('name')}, a model of the same shape with other weights"
        )


def _same_name(trained_on: str, names: tuple[str, ...]) -> bool:
    return any(trained_on == name or Path(trained_on).name == Path(name).name for name in names)


def _only_safetensors(adapter: Path) -> None:
    unsafe = [p.name for p in adapter.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".pkl", ".ckpt")]
    if unsafe:
        raise AdapterRefusedError(
            f"the adapter {adapter.name} holds {unsafe[0]}: pickled weights are never loaded, save safetensors"
        )
    if not (adapter / WEIGHTS).is_file():
        raise AdapterRefusedError(f"the adapter {adapter.name} holds no {WEIGHTS}")


def _check_shapes(adapter: Path, model: Any) -> None:
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    shapes = {key.replace(".base_layer", ""): tuple(p.shape) for key, p in base.named_parameters() if ".lora_" not in key}
    for name, shape in tensor_shapes(adapter / WEIGHTS).items():
        kind = _LORA.search(name)
        if kind is None:
            continue
        layer = _PREFIX.sub("", _LORA.sub("", name))
        if f"{layer}.weight" not in shapes:
            raise AdapterRefusedError(f"the adapter {adapter.name} changes {layer}, which this model does not have")
        rows, columns = shapes[f"{layer}.weight"][0], shapes[f"{layer}.weight"][-1]
        fits = shape[-1] == columns if kind.group(1) == "A" else shape[0] == rows if kind.group(1) == "B" else True
        if not fits:
            raise AdapterRefusedError(
                f"the adapter {adapter.name} was trained on a model of another size: {layer} is {rows} x {columns} here"
            )


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes in a safetensors file, from its header alone. Raises AdapterRefusedError for a damaged one."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MAX_HEADER:
                raise ValueError
            header = json.loads(file.read(length))
        return {name: tuple(int(n) for n in entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError):
        raise AdapterRefusedError(f"the adapter {path.parent.name} is damaged: {path.name} is no safetensors file") from None


def _json(adapter: Path, name: str) -> dict[str, Any]:
    try:
        data = json.loads((adapter / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        data = None
    if not isinstance(data, dict):
        raise AdapterRefusedError(f"{adapter.name} is no adapter: {name} is missing or damaged")
    return data
