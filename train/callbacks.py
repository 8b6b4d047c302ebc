"""What watches a run: a metrics file that grows line by line, a stop at a gradient that is not finite, bounds of drift."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from certloop.train.errors import CheckpointError, DivergedError, LossError


class MetricsWriter(TrainerCallback):  # type: ignore[misc]
    """Appends each log of the trainer to ``metrics.jsonl``: step, seconds since the start, and every number as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start = time.monotonic()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """After a resume, lines of steps that are done again are dropped."""
        self.start = time.monotonic()
        if state.is_world_process_zero and self.path.exists():
            lines = self.path.read_text(encoding="utf-8").split("\n")
            kept = [line for line in lines if _step(line) is not None and (_step(line) or 0) <= state.global_step]
            self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        logs = {key: value for key, value in (kwargs.get("logs") or {}).items() if isinstance(value, int | float)}
        line = {"step": state.global_step, "seconds": round(time.monotonic() - self.start, 3)} | logs
        try:
            with self.path.open("a", encoding="utf-8") as file:
                finite = {key: value if math.isfinite(value) else None for key, value in line.items()}
                file.write(json.dumps(finite, ensure_ascii=False) + "\n")
        except OSError as error:
            raise CheckpointError(f"{self.path.name} cannot be written: {error.strerror}; free the disk, then resume") from error


class Progress(TrainerCallback):  # type: ignore[misc]
    """A line a logged step on standard error, where people watch: the stage, the step, the loss or the reward."""

    def __init__(self, label: str) -> None:
        self.label = label

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        logs = kwargs.get("logs") or {}
        name = next((name for name in ("reward", "loss") if name in logs), None)
        if name is not None and state.is_world_process_zero:
            sys.stderr.write(f"{self.label}: step {state.global_step} of {state.max_steps}, {name} {float(logs[name]):.4f}\n")


class FiniteLoss(TrainerCallback):  # type: ignore[misc]
    """Stops before an update whose gradient is NaN or infinite: the weights stay those of the last good step."""

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        import torch

        gradients = [p.grad for p in kwargs["model"].parameters() if p.grad is not None]
        if gradients and not bool(torch.isfinite(torch.stack(torch._foreach_norm(gradients))).all()):
            raise LossError(
                f"the gradient of step {state.global_step + 1} is not finite; lower the learning rate or look at that step's rows"
            )


class DivergenceBound(TrainerCallback):  # type: ignore[misc]
    """Stops a run whose entropy grew past ``entropy_growth`` times its first or whose KL from the start passed ``max_kl``."""

    def __init__(self, entropy_growth: float | None, max_kl: float | None) -> None:
        self.entropy_growth, self.max_kl = entropy_growth, max_kl
        self.first_entropy: float | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """After a resume the bound still counts from the run's first entropy, not from what it had grown to."""
        for entry in state.log_history:
            if "entropy" in entry:
                self._begin(float(entry["entropy"]))
                return

    def _begin(self, entropy: float) -> None:
        self.first_entropy = max(entropy, 0.05)  # a nearly deterministic start is allowed to loosen a little

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        logs = kwargs.get("logs") or {}
        entropy, kl = logs.get("entropy"), logs.get("kl_from_start")
        if entropy is not None:
            if self.first_entropy is None:
                self._begin(float(entropy))
            elif self.entropy_growth is not None and entropy > self.entropy_growth * self.first_entropy:
                raise DivergedError(f"entropy {entropy:.3f} at step {state.global_step}, {self.first_entropy:.3f} at the start")
        if kl is not None and self.max_kl is not None and kl > self.max_kl:
            raise DivergedError(f"KL from the start {kl:.4f} at step {state.global_step}, bound {self.max_kl}")


def reward_outcome(history: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of a GSPO stage's logs: the share of groups whose answers differ in reward (``groups_kept``) and of answers that could be
    read (``parsed``), each where it was logged."""
    logged = {name: [float(log[name]) for log in history if name in log] for name in ("groups_kept", "parsed")}
    return {name: math.fsum(values) / len(values) for name, values in logged.items() if values}


def learned_nothing(label: str, outcome: Mapping[str, float]) -> str | None:
    """What to say when no group of a stage had any spread: no update had a direction, however well the stage ended."""
    if outcome.get("groups_kept") != 0.0:
        return None
    parsed = outcome.get("parsed")
    read = "" if parsed is None else f", and {parsed:.1%} of the answers could be read"
    advice = "raise temperature or group_size" if parsed else "begin with an sft stage, or raise max_completion_length"
    return f"{label}: nothing was learned: in no group did the answers differ in reward{read}; {advice}"


def _step(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None
