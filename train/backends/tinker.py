"""LoRA reinforcement learning through the tinker cloud API: sampling and gradients there, prompts, rewards and the loop here.

The client is tinker's own SDK (``pip install tinker``, 0.38), reached through the small part of it that :class:`Training` names;
tests run the same loop against a local double of that part. The service was never called from here. Its loss ``gspo`` is the
sequence-ratio objective of METHODS §3, summed over tokens: advantages are divided by the answer's length so that each answer
weighs the same, as the paper has it.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from certloop.agentrl.backend import Candidate, Plan, RunState, StagePlan, Status, TrainSpec
from certloop.agentrl.rewards import group_advantages
from certloop.train.backends import recipe_of
from certloop.train.backends.folder import keep_spec, last_metrics, need_done, read_spec
from certloop.train.config import GspoStage, RunConfig, parse_config
from certloop.train.errors import BackendError, DivergedError, TrainConfigError, TrainError, TrainExtraError
from certloop.train.gspo_reward import make_reward
from certloop.train.gspo_sampling import HardSampler
from certloop.train.plan import data_shape
from certloop.train.preflight import check_rows_for
from certloop.train.rows import Row, read_rows
from certloop.train.run import write_json

STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled answer: token ids, the sampling policy's log-probabilities, and the text."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Datum:
    """One answer to learn from: the prompt's chunks, the answer's tokens with their sampling log-probabilities, its advantage."""

    prompt: tuple[Mapping[str, Any], ...]
    sample: Sample
    advantage: float


Chunks = Sequence[Mapping[str, Any]]


class Training(Protocol):
    """What the loop needs of the service. ``sample`` uses the weights of the last ``refresh``."""

    def refresh(self, name: str) -> None: ...

    def sample(
        self, prompt: Sequence[Mapping[str, Any]], n: int, *, max_tokens: int, temperature: float, top_p: float
    ) -> list[Sample]: ...

    def update(self, data: Sequence[Datum], *, loss: str, clip: tuple[float, float], adam: Mapping[str, float]) -> float:
        """One step with AdamW: ``learning_rate``, ``beta2``, ``weight_decay``, ``grad_clip_norm``."""
        ...

    def save(self, name: str) -> str: ...

    def load(self, where: str) -> None: ...

    def prompt(self, row: Row) -> list[Mapping[str, Any]]: ...


Connect = Callable[[RunConfig], Training]


class TinkerBackend:
    """Runs one thread for each run; what it reached stands in its folder, so a new process goes on from the last saved state."""

    name = "tinker"

    def __init__(self, root: Path, connect: Connect | None = None) -> None:
        self.root = root
        self._connect = connect or _connect_sdk
        self._threads: dict[str, threading.Thread] = {}

    def plan(self, spec: TrainSpec) -> Plan:
        config = parse_config(dict(spec.recipe))
        stage = gspo_stage(config)
        shape = data_shape(config)
        pixels_per_token = 32 * 32
        prompt = shape.pixels / pixels_per_token * shape.images + shape.prompt_tokens
        answers = (stage.steps or 1) * stage.batch_size
        tokens = answers * (2 * prompt / stage.group_size + 3 * (prompt + min(shape.answer_tokens, stage.max_completion_length)))
        usd = tokens / 1e6 * config.tinker.usd_per_million_tokens
        stages = (StagePlan(stage.label, {}, 0.0, stage.steps or 1, 0),)
        notes = (f"about {tokens / 1e6:.1f} million tokens; time depends on the service",)
        return Plan("tinker", f"tinker cloud, {config.tinker.base_model}", stages, 0.0, usd, None, notes)

    def submit(self, spec: TrainSpec) -> str:
        config = recipe_of(spec)
        check_rows_for(config, gspo_stage(config), read_rows(Path(config.data.train)))
        folder = self.root / spec.run_id
        keep_spec(folder, spec)
        if self.status(spec.run_id).state in (RunState.WAITING, RunState.FAILED):
            thread = threading.Thread(target=self._work, args=(config, folder), name=spec.run_id, daemon=True)
            self._threads[spec.run_id] = thread
            write_json(folder / STATE, _state(folder) | {"state": "running", "error": None})
            thread.start()
        return spec.run_id

    def status(self, run_id: str) -> Status:
        folder = self.root / run_id
        spec = read_spec(folder)
        state = _state(folder)
        label = gspo_stage(parse_config(dict(spec.recipe))).label
        metrics = last_metrics(folder / "metrics.jsonl")
        step = int(state.get("step", 0))
        kind = state.get("state")
        if kind == "running" and not (run_id in self._threads and self._threads[run_id].is_alive()):
            error = {"code": BackendError.code, "message": "the process of this run is gone; submit it again to resume"}
            return Status(run_id, RunState.FAILED, label, step, metrics, error)
        if kind is None:
            return Status(run_id, RunState.WAITING)
        return Status(run_id, RunState(kind), label, step, metrics, state.get("error"))

    def fetch(self, run_id: str) -> Candidate:
        folder = self.root / run_id
        spec = read_spec(folder)
        status = self.status(run_id)
        need_done(status)
        config = parse_config(dict(spec.recipe))
        where = str(_state(folder)["where"])
        return Candidate(run_id, "remote", where, config.tinker.base_model, "", spec.data_sha256, dict(status.metrics))

    def wait(self, run_id: str) -> Status:
        """Until the run of this process ends."""
        if run_id in self._threads:
            self._threads[run_id].join()
        return self.status(run_id)

    def _work(self, config: RunConfig, folder: Path) -> None:
        try:
            where = train(config, self._connect(config), folder)
            write_json(folder / STATE, _state(folder) | {"state": "done", "where": where})
        except TrainError as error:
            write_json(folder / STATE, _state(folder) | {"state": "failed", "error": error.to_json()})
        except Exception as error:  # noqa: BLE001 - the service's client has exceptions of its own; what they say may hold a key
            told = {"code": BackendError.code, "message": f"the service failed: {type(error).__name__}"}
            write_json(folder / STATE, _state(folder) | {"state": "failed", "error": told})


def gspo_stage(config: RunConfig) -> GspoStage:
    """The one stage of a tinker run. Raises TrainConfigError for a recipe that this backend cannot train."""
    if len(config.stages) != 1 or not isinstance(config.stages[0], GspoStage):
        raise TrainConfigError("the tinker backend trains one gspo stage; do SFT and distillation with local or swift")
    stage = config.stages[0]
    if stage.tools or config.student.lora is None or stage.steps is None:
        raise TrainConfigError("the tinker backend needs student.lora and steps, and has no tools")
    if stage.max_kl is not None:
        raise TrainConfigError("the tinker backend cannot measure max_kl: bound the run by max_entropy_growth")
    return stage


def train(config: RunConfig, service: Training, folder: Path) -> str:
    """The loop: sample groups, score, learn; returns the name of the saved weights."""
    stage = gspo_stage(config)
    rows = read_rows(Path(config.data.train))
    answers = stage.batch_size * stage.updates_per_generation
    sampler = HardSampler(
        [_truth(stage, row) for row in rows],
        batch=answers // stage.group_size,
        group=1,
        repeats=1,
        hard=stage.hard_sampling,
        seed=config.seed,
    )
    reward = make_reward(stage, config.seed)
    state = _state(folder)
    first = int(state.get("step", 0))
    if state.get("where"):
        service.load(str(state["where"]))
    pages = iter(_forever(sampler))
    where = ""
    for step in range(first + 1, (stage.steps or 1) + 1):
        service.refresh(f"{config.name}-{step}")
        chosen = [rows[next(pages)] for _ in range(answers // stage.group_size)]
        data, numbers = _groups(stage, service, reward, chosen)
        for batch in _batches(data, stage.updates_per_generation):
            clip = (1 - stage.clip_low, 1 + stage.clip_high)
            numbers["loss"] = service.update(batch, loss="gspo", clip=clip, adam=_adam(stage, step))
        with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **numbers}) + "\n")
        _bound_entropy(stage, step, numbers["entropy"], folder)
        if step % config.checkpoint_every == 0 or step == stage.steps:
            where = service.save(f"{config.name}-{step}")
            write_json(folder / STATE, _state(folder) | {"step": step, "where": where})
    return where or str(state.get("where", ""))


def _groups(stage: GspoStage, service: Training, reward: Any, rows: Sequence[Row]) -> tuple[list[Datum], dict[str, float]]:
    """Sample one group a page; groups without spread are dropped."""
    data, rewards_all, logprobs = [], [], list[float]()
    for row in rows:
        prompt = tuple(service.prompt(row))
        samples = service.sample(
            prompt, stage.group_size, max_tokens=stage.max_completion_length, temperature=stage.temperature, top_p=stage.top_p
        )
        truth = [json.dumps(_truth(stage, row), ensure_ascii=False)] * len(samples)
        logprobs += [p for sample in samples for p in sample.logprobs]
        rewards = reward(completions=[s.text for s in samples], ground_truth=truth, second_read=truth)
        rewards_all += rewards
        advantages = group_advantages(rewards, scale="group" if stage.normalise else "none", sample_std=True)
        if stage.flat_groups == "keep" or any(advantages):
            data += [Datum(prompt, sample, a) for sample, a in zip(samples, advantages, strict=True) if sample.tokens]
    kept = len(data) / max(len(rewards_all), 1)
    entropy = -sum(logprobs) / max(len(logprobs), 1)  # of the policy that sampled, a token: its own answers are the estimate
    return data, {"reward": sum(rewards_all) / len(rewards_all), "groups_kept": kept, "entropy": entropy}


def _truth(stage: GspoStage, row: Row) -> dict[str, str | None]:
    return dict((row.second_read if stage.reward == "agreement" else row.truth) or {})


def _adam(stage: GspoStage, step: int) -> dict[str, float]:
    """AdamW's numbers at a step (the first is 1): warm-up, then the stage's schedule as the local trainer has it."""
    steps, warmup = stage.steps or 1, stage.warmup_steps
    share = 1.0 if step <= warmup or stage.schedule == "constant" else 1 - (step - 1 - warmup) / max(steps - warmup, 1)
    if stage.schedule == "cosine":
        share = (1 - math.cos(math.pi * share)) / 2
    rate = stage.learning_rate * share * min(1.0, step / max(warmup, 1))
    return {
        "learning_rate": rate,
        "beta2": stage.beta2,
        "weight_decay": stage.weight_decay,
        "grad_clip_norm": stage.max_grad_norm,
    }


def _bound_entropy(stage: GspoStage, step: int, entropy: float, folder: Path) -> None:
    """Raises DivergedError when the entropy grew past the stage's bound; its first value stands in the run's state."""
    state = _state(folder)
    first = state.get("first_entropy")
    if first is None:
        write_json(folder / STATE, state | {"first_entropy": max(entropy, 0.05)})
    elif stage.max_entropy_growth is not None and entropy > stage.max_entropy_growth * first:
        raise DivergedError(f"entropy {entropy:.3f} at step {step}, {first:.3f} at the start")


def _batches(data: list[Datum], n: int) -> list[list[Datum]]:
    size = max(1, -(-len(data) // n))
    return [data[i : i + size] for i in range(0, len(data), size)]


def _forever(sampler: HardSampler) -> Any:
    while True:
        yield from sampler


def _state(folder: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state


def _connect_sdk(config: RunConfig) -> Training:
    """The real service. Raises TrainExtraError without the SDK, BackendError without a key."""
    from certloop.train.backends.tinker_sdk import SdkTraining

    try:
        key = Path(config.tinker.api_key_file).expanduser().read_text(encoding="utf-8").strip()
    except OSError:
        raise BackendError("no API key: write it into the file that tinker.api_key_file names") from None
    try:
        return SdkTraining(config, key)
    except ImportError:
        raise TrainExtraError("the tinker backend needs tinker's SDK: pip install tinker") from None
