"""Checkpoints that survive a killed run: only complete ones are resumed from, and they hold no pickled objects.

The trainer writes a checkpoint file by file; ours ends with ``complete.json``, the sizes of all files. What a kill -9 left
half written has none and is passed over. Weights are safetensors; optimiser and random state are tensors that torch loads with
``weights_only=True``; the pickled ``training_args.bin`` of the trainer is taken out.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from certloop.train.errors import CheckpointError

COMPLETE = "complete.json"
PICKLED = "training_args.bin"


def latest_complete(folder: Path) -> Path | None:
    """The newest checkpoint whose every file is there at its size; incomplete ones are removed."""
    best: tuple[int, Path] | None = None
    for path in folder.glob("checkpoint-*"):
        step = path.name.partition("-")[2]
        if not step.isdecimal():
            continue
        if not is_complete(path):
            shutil.rmtree(path, ignore_errors=True)
        elif best is None or int(step) > best[0]:
            best = (int(step), path)
    return None if best is None else best[1]


def is_complete(path: Path) -> bool:
    try:
        sizes = json.loads((path / COMPLETE).read_text(encoding="utf-8"))["files"]
        return all((path / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def seal(path: Path) -> None:
    """Take out what is pickled and mark the checkpoint complete."""
    (path / PICKLED).unlink(missing_ok=True)
    sizes = {
        p.relative_to(path).as_posix(): p.stat().st_size for p in sorted(path.rglob("*")) if p.is_file() and p.name != COMPLETE
    }
    (path / COMPLETE).write_text(json.dumps({"files": sizes}, indent=2) + "\n", encoding="utf-8")


class SafeCheckpoints:
    """Mixed into each trainer: its checkpoints are sealed, and one that cannot be written is a typed error, not half a folder."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        this: Any = self
        folder = Path(this._get_output_dir(trial=trial)) / f"checkpoint-{this.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)  # type: ignore[misc]
            self.save_extra(folder)
            seal(folder)
        except Exception as error:
            if not _is_write_failure(error):
                raise
            shutil.rmtree(folder, ignore_errors=True)
            raise CheckpointError(
                f"checkpoint {this.state.global_step} cannot be written ({type(error).__name__}); free the disk, then resume"
            ) from error

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """No model card in every folder: the run's own files say more."""

    def save_extra(self, folder: Path) -> None:
        """What a subclass keeps beside the trainer's own state."""


def _is_write_failure(error: BaseException) -> bool:
    """Writers answer a full disk in their own words: OSError, safetensors' error, torch's RuntimeError of its zip writer."""
    if isinstance(error, OSError):
        return True
    text = str(error)
    words = ("No space left", "os error", "PytorchStreamWriter", "File too large", "I/O error", "unexpected pos", "write failed")
    return any(word in text for word in words)
