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
        if (step := _step(path)) is None:
            continue
        if not is_complete(path):
            shutil.rmtree(path, ignore_errors=True)
        elif best is None or step > best[0]:
            best = (step, path)
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


def rotate(folder: Path, keep: int | None) -> None:
    """Remove all but the newest ``keep`` checkpoints (None: all stay)."""
    found = sorted((p for p in folder.glob("checkpoint-*") if _step(p) is not None), key=lambda p: _step(p) or 0)
    for path in found[:-keep] if keep else []:
        shutil.rmtree(path, ignore_errors=True)


def save_result(trainer: Any, processor: Any, folder: Path, base: dict[str, str] | None) -> None:
    """Write what a stage trained. Every process takes part where the weights are spread over several, the main one writes.

    Raises CheckpointError when the disk refuses: the last checkpoint stays, so the same command again saves it.
    """
    from certloop.train.models import save_model

    whole = trainer.accelerator.get_state_dict(trainer.model) if trainer.is_fsdp_enabled else None
    if not trainer.is_world_process_zero():
        return
    try:
        save_model(trainer.accelerator.unwrap_model(trainer.model), processor, folder, base=base, weights=whole)
    except Exception as error:
        if not _is_write_failure(error):
            raise
        raise CheckpointError(
            f"the trained model cannot be written ({type(error).__name__}); free the disk, then resume"
        ) from error


def _step(path: Path) -> int | None:
    step = path.name.partition("-")[2]
    return int(step) if step.isdecimal() else None


class SafeCheckpoints:
    """Mixed into each trainer: its checkpoints are sealed, and one that cannot be written is a typed error, not half a folder."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        this: Any = self
        folder = Path(this._get_output_dir(trial=trial)) / f"checkpoint-{this.state.global_step}"
        keep, this.args.save_total_limit = this.args.save_total_limit, None  # older ones go when this one is whole, not before
        try:
            super()._save_checkpoint(model, trial)  # type: ignore[misc]
            self.save_extra(folder)
            this.accelerator.wait_for_everyone()  # each process writes its own random state
            if this.accelerator.is_main_process:
                seal(folder)
                rotate(folder.parent, keep)
        except Exception as error:
            if not _is_write_failure(error):
                raise
            shutil.rmtree(folder, ignore_errors=True)
            raise CheckpointError(
                f"checkpoint {this.state.global_step} cannot be written ({type(error).__name__}); free the disk, then resume"
            ) from error
        finally:
            this.args.save_total_limit = keep

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
