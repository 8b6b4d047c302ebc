"""The ReAct loop: observe, think, act, observe again, until an answer, a refusal or the end of a budget.

A bad rollout is data, not a crash: whatever policy, tools or grading do, an episode ends with a trajectory and an outcome.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from certloop.agentrl.env.errors import EnvironmentFault
from certloop.agentrl.env.faults import Fault, FaultSource, no_faults
from certloop.agentrl.env.task import Decision, Grade, Policy, Sampled, Task, View
from certloop.agentrl.env.tools import Executor
from certloop.agentrl.rewards import Weights, composite_reward, efficiency, path_score
from certloop.agentrl.trajectory import (
    Action,
    Outcome,
    Provenance,
    Role,
    Sampling,
    Step,
    ToolResult,
    Trajectory,
    TrajectoryError,
    Turn,
    build_tokens,
    is_json,
    validate,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of one episode: decisions, and tokens the policy may sample."""

    steps: int = 12
    tokens: int = 8192

    def __post_init__(self) -> None:
        if self.steps < 1 or self.tokens < 1:
            raise EnvironmentFault("an episode needs at least one step and one token")


@dataclass(frozen=True, slots=True)
class EpisodeReward:
    """The parts of METHODS §1.4, each in [0, 1], and their gated mix."""

    reward: float
    quality: float
    path: float
    efficiency: float
    form: float


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode. ``reward`` is None when policy or environment broke (FAILED), which says nothing about the policy, and
    for a task without truth.

    ``faults`` are the injected ones as (number of the call, fault); ``path`` is what the path score saw.
    """

    trajectory: Trajectory
    reward: EpisodeReward | None
    path: tuple[str, ...]
    faults: tuple[tuple[int, Fault], ...] = ()


@dataclass(frozen=True, slots=True)
class EpisodeConfig:
    """What stays the same over many episodes."""

    provenance: Provenance
    limits: Limits = field(default_factory=Limits)
    weights: Weights = field(default_factory=Weights)
    sampling: Sampling | None = None
    guidance: str = ""


def run_episode(
    task: Task,
    policy: Policy,
    config: EpisodeConfig,
    *,
    traj_id: str,
    created_at: str,
    faults: FaultSource = no_faults,
    group_id: str | None = None,
    clock: Callable[[], float] | None = None,
) -> Episode:
    """Run one episode to its end. Raises EnvironmentFault only when the task itself is not well formed."""
    executor = Executor(task.make_tools(), faults=faults, **({} if clock is None else {"clock": clock}))
    loop = _Loop(task, policy, config, executor)
    loop.run()
    grade = loop.grade()
    path = loop.scored_path()
    bare = Trajectory(
        traj_id=traj_id,
        doc_type=task.kind,
        created_at=created_at,
        outcome=loop.outcome,
        outcome_reason=loop.reason,
        steps=tuple(loop.steps),
        final_json=loop.answer,
        image_sha256=task.image_sha256,
        group_id=group_id,
        sampling=config.sampling,
        **config.provenance.to_fields(),
    )
    trajectory = loop.with_tokens(bare)
    reward = _reward(task, trajectory.outcome, grade, path, config.weights)
    return Episode(trajectory, reward, path, tuple(executor.injected))


def run_group(
    task: Task,
    policy: Policy,
    config: EpisodeConfig,
    size: int,
    *,
    group_id: str,
    created_at: str,
    faults: Callable[[int], FaultSource] = lambda _: no_faults,
) -> list[Episode]:
    """Run ``size`` episodes of one task: the group whose rewards become advantages. ``faults`` gives the source of each."""
    return [
        run_episode(task, policy, config, traj_id=f"{group_id}-{i}", created_at=created_at, faults=faults(i), group_id=group_id)
        for i in range(size)
    ]


class _Loop:
    def __init__(self, task: Task, policy: Policy, config: EpisodeConfig, executor: Executor) -> None:
        self.task, self.policy, self.config, self.executor = task, policy, config, executor
        self.steps: list[Step] = []
        self.turns: list[Turn] = []
        self.offsets: tuple[tuple[int, int], ...] = ()
        self.spent = 0
        self.calls = 0
        self.broken: set[int] = set()
        self.outcome, self.reason, self.answer = Outcome.TRUNCATED, "steps", None  # type: Outcome, str | None, str | None

    def run(self) -> None:
        observation = self.task.observation
        for t in range(self.config.limits.steps):
            decision = self._decide(observation, t)
            if decision is None:
                return
            start = sum(len(turn.token_ids) for turn in self.turns) + _context_length(decision)
            self._keep_tokens(decision)
            step = Step(t, observation, decision.thought, tok_start=start, tok_end=start + _sampled_length(decision))
            self.steps.append(step if decision.sampled is not None else replace(step, tok_start=None, tok_end=None))
            self.spent += decision.tokens
            if self._ends(decision):
                return
            assert decision.action is not None
            result = self._act(t, decision.action)
            observation = _show(result)

    def _decide(self, observation: str, t: int) -> Decision | None:
        limits = self.config.limits
        view = View(
            prompt=self.task.prompt,
            observation=observation,
            history=tuple(self.steps),
            tools=self.executor.specs,
            guidance=self.config.guidance,
            steps_left=limits.steps - t,
            tokens_left=limits.tokens - self.spent,
        )
        try:
            decision: object = self.policy.decide(view)
        except Exception as error:  # noqa: BLE001 - a policy is foreign code: its failure is an outcome
            self.outcome, self.reason = Outcome.FAILED, f"policy:{type(error).__name__}"
            return None
        if not _is_decision(decision):
            self.outcome, self.reason = Outcome.FAILED, "policy:not_a_decision"
            return None
        return decision

    def _ends(self, decision: Decision) -> bool:
        if self.spent > self.config.limits.tokens:
            self.outcome, self.reason = Outcome.TRUNCATED, "tokens"
        elif not decision.well_formed or (decision.action is not None and not _can_be_run(decision.action)):
            self.outcome, self.reason = Outcome.MALFORMED, "decision"
        elif decision.refused:
            self.outcome, self.reason = Outcome.REFUSED, None
        elif decision.answer is not None:
            self.outcome, self.reason, self.answer = Outcome.CLEAN, None, decision.answer
            self.offsets = decision.sampled.answer_offsets if decision.sampled is not None else ()
        else:
            return False
        return True

    def _act(self, t: int, action: Action) -> ToolResult:
        known = len(self.executor.injected)
        result = self.executor.execute(action)
        if len(self.executor.injected) > known and not result.ok:
            self.broken.add(t)
        self.steps[t] = replace(self.steps[t], action=action, tool_result=result)
        return result

    def grade(self) -> Grade | None:
        """Grade the answer; an answer that cannot be read makes the outcome MALFORMED."""
        if self.answer is None or self.task.grade is None:
            return None
        try:
            grade = self.task.grade(self.answer)
            if grade is not None and not 0.0 <= grade.quality <= 1.0:
                raise ValueError("quality outside of [0, 1]")
        except Exception as error:  # noqa: BLE001 - grading is the domain's code: its failure must not end a run of rollouts
            self.outcome, self.reason = Outcome.FAILED, f"grade:{type(error).__name__}"
            return None
        if grade is None:
            self.outcome, self.reason = Outcome.MALFORMED, "answer"
        return grade

    def scored_path(self) -> tuple[str, ...]:
        """Return the tools taken without the calls that an injected fault broke: trying those again is right, not surplus."""
        taken = [s.action.tool for s in self.steps if s.action is not None and s.t not in self.broken]
        if self.answer is not None and self.task.answer_as is not None:
            taken.append(self.task.answer_as)
        return tuple(taken)

    def _keep_tokens(self, decision: Decision) -> None:
        if decision.sampled is not None:
            self.turns += decision.sampled.context
            self.turns.append(Turn(Role.ASSISTANT, decision.sampled.token_ids, decision.sampled.logprobs))

    def with_tokens(self, bare: Trajectory) -> Trajectory:
        """Return the valid trajectory. Tokens that break its invariants are the policy's failure, and are left out."""
        try:
            tokens = build_tokens(self.turns)
            return validate(
                replace(
                    bare,
                    token_ids=tokens.token_ids,
                    logprobs=tokens.logprobs,
                    loss_mask=tokens.loss_mask,
                    segments=tokens.segments,
                    token_offsets=self.offsets,
                )
            )
        except (TrajectoryError, TypeError, OverflowError) as error:
            steps = tuple(replace(step, tok_start=None, tok_end=None) for step in bare.steps)
            failed = replace(
                bare, steps=steps, outcome=Outcome.FAILED, outcome_reason=f"policy:{getattr(error, 'code', 'tokens')}"
            )
            return validate(failed)


def _reward(task: Task, outcome: Outcome, grade: Grade | None, path: Sequence[str], weights: Weights) -> EpisodeReward | None:
    if outcome is Outcome.FAILED or task.grade is None:
        return None
    walked, speed = path_score(path, task.golden_paths), efficiency(path, task.golden_paths)
    if grade is None or outcome is not Outcome.CLEAN:
        return EpisodeReward(0.0, 0.0, walked, speed, 0.0)
    form = float(bool(grade.form))
    return EpisodeReward(
        composite_reward(grade.quality, walked, speed, form, weights=weights), grade.quality, walked, speed, form
    )


def _is_decision(said: object) -> TypeGuard[Decision]:
    """Whether a policy's word has the types it should have; what it says may still be nonsense."""
    return (
        isinstance(said, Decision)
        and isinstance(said.thought, str)
        and isinstance(said.answer, str | None)
        and (said.action is None or (isinstance(said.action, Action) and isinstance(said.action.tool, str)))
        and type(said.cost) is int
        and said.cost >= 0
        and (said.sampled is None or _is_sampled(said.sampled))
    )


def _is_sampled(sampled: object) -> bool:
    return (
        isinstance(sampled, Sampled)
        and all(isinstance(part, tuple) for part in (sampled.token_ids, sampled.logprobs, sampled.answer_offsets))
        and all(isinstance(turn, Turn) and isinstance(turn.token_ids, tuple) for turn in sampled.context)
    )


def _can_be_run(action: Action) -> bool:
    return bool(action.tool) and isinstance(action.args, Mapping) and is_json(dict(action.args))


def _context_length(decision: Decision) -> int:
    return sum(len(turn.token_ids) for turn in decision.sampled.context) if decision.sampled is not None else 0


def _sampled_length(decision: Decision) -> int:
    return len(decision.sampled.token_ids) if decision.sampled is not None else 0


def _show(result: ToolResult) -> str:
    """Return a tool result as the next observation's text."""
    shown: dict[str, Any] = {"ok": result.ok}
    if result.error_kind is not None:
        shown["error"] = result.error_kind
    if result.payload is not None:
        shown["result"] = result.payload
    return json.dumps(shown, ensure_ascii=False)
