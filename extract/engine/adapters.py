"""Low-rank adapters: which model they belong to, and why one is refused.

An adapter on another base model loads without a word when the shapes happen to agree, and then answers nonsense. So the
trainer leaves the base model's fingerprint in the adapter's folder (``base.json``); where a foreign adapter has none, its own
record of the base model's name is compared, and always the names and shapes of its weights.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from certloop.extract.engine.errors import AdapterRefusedError

BASE_MARK = "base.json"
WEIGHTS = "adapter_model.safetensors"
_CONFIG = "adapter_config.json"
_BLOCK, _BLOCKS = 1 << 16, 64
_MAX_HEADER = 100 << 20
_PREFIX = re.compile(r"^base_model\.model\.")
_LORA = re.compile(r"\.lora_(A|B|embedding_A|embedding_B)\.weight$")


def model_fingerprint(folder: Path) -> str:
    """What tells one base model from another: its configuration, and of each weight file the header, the size and 64 blocks."""
    digest = hashlib.sha256()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for volatile in ("_name_or_path", "transformers_version"):
        config.pop(volatile, None)
    digest.update(json.dumps(config, sort_keys=True).encode())
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}".encode())
        with path.open("rb") as file:
            for n in range(_BLOCKS):
                file.seek(n * max(0, size - _BLOCK) // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def mark_base(adapter: Path, base: Path) -> None:
    """Leave the base model's fingerprint in an adapter's folder; the trainer calls this when it saves one."""
    record = {"base": base.name, "fingerprint": model_fingerprint(base)}
    (adapter / BASE_MARK).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def check_adapter(adapter: Path, base: Path | None, names: tuple[str, ...], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse an adapter that does not belong to the base model. Raises AdapterRefusedError that says why.

    ``base`` is the base model's folder (None: it came from a hub), ``names`` what the base model is called, ``shapes`` its
    parameters by name.
    """
    config = _json(adapter, _CONFIG)
    if config.get("peft_type") != "LORA":
        raise AdapterRefusedError(f"the adapter {adapter.name} is of type {config.get('peft_type')!r}; only LORA is served")
    _only_safetensors(adapter)
    if (adapter / BASE_MARK).is_file() and base is not None:
        wanted = _json(adapter, BASE_MARK)
        if wanted.get("fingerprint") != model_fingerprint(base):
            raise AdapterRefusedError(
                f"the adapter {adapter.name} was trained on {wanted.get('base', 'another model')!r}, whose fingerprint is not "
                f"that of {base.name}; serve it with its own base model"
            )
    elif (trained_on := str(config.get("base_model_name_or_path") or "")) and not _same_name(trained_on, names):
        raise AdapterRefusedError(
            f"the adapter {adapter.name} was trained on {Path(trained_on).name!r}, the model here is {Path(names[0]).name!r}"
        )
    _check_shapes(adapter, shapes)


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


def _check_shapes(adapter: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
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
