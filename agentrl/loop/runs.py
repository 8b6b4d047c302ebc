"""Runs that survive anything: a run is a row, its finished steps are rows, and any process may take it up where it stopped.

A step is a function of the run that may be called again: its result is written once, in the transaction that ends it, and a
step whose result is there is never called again. Effects outside of the database are therefore made idempotent by the run's id
(a training job is submitted under it, a release is named after it). One run of a kind at a time in a scope: a unique key, not a
wish.

Durable jobs of documents run on DBOS (``certloop.serve``). Runs of the loop do not: they last for days, wait for other systems,
and people want to read and mend their state with a query."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Column, Connection, Engine, Index, Integer, MetaData, Table, Text, insert, or_, select, update

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.loop.errors import LoopError, NotReadyError, RunBusyError, StepTimeout
from certloop.agentrl.store.engine import reading, writing
from certloop.agentrl.store.errors import DuplicateEventError
from certloop.agentrl.store.events import canonical, new_id
from certloop.agentrl.store.migrate import run_revisions

metadata = MetaData()

runs = Table(
    "loop_runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("active", Text),
    Column("attempts", Integer, nullable=False),
    Column("owner", Text),
    Column("lease_until", Text),
    Column("not_before", Text),
    Column("error", Text),
    Column("created_at", Text, nullable=False),
    Column("finished_at", Text),
    Index("loop_runs_active", "active", unique=True),
)
"""``active`` is scope and kind while the run is under way, and empty afterwards."""

steps = Table(
    "loop_steps",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("result", Text, nullable=False),
    Column("at", Text, nullable=False),
)


class RunState(StrEnum):
    """``waiting`` asks again later; ``failed`` used up its attempts and raised an alarm; ``stopped`` was ended by a person or a
    step that decided so (a gate that said no)."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


ACTIVE = (RunState.RUNNING, RunState.WAITING)


@dataclass(frozen=True, slots=True)
class Run:
    """A run and the results of its finished steps, in the order of the plan."""

    run_id: str
    scope: str
    kind: str
    reason: str
    state: RunState
    attempts: int = 0
    error: str | None = None
    created_at: str = ""
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """What a step returns to end the run without failing: the rest of the plan does not happen."""

    reason: str
    result: Mapping[str, Any] = field(default_factory=dict)


StepFunction = Callable[[Run], Mapping[str, Any] | Stop]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a kind of run, in order. A failing step is tried ``attempts`` times, ``retry_s`` apart; ``wait_s`` bounds how
    long a run may wait for one step before it counts as failed."""

    kind: str
    steps: Sequence[tuple[str, StepFunction]]
    attempts: int = 3
    retry_s: float = 60.0
    wait_s: float = 7 * 86400.0

    def __post_init__(self) -> None:
        names = [name for name, _ in self.steps]
        if not names or len(set(names)) != len(names):
            raise LoopError(f"the plan of {self.kind} needs steps with different names")


class Runs:
    """Runs of one database. ``alarm`` hears of every run that failed."""

    def __init__(
        self,
        engine: Engine,
        plans: Sequence[Plan],
        *,
        clock: Callable[[], datetime],
        alarm: Callable[[Run], None],
        lease_s: float,
        owner: str,
    ) -> None:
        self._engine, self._clock, self._alarm = engine, clock, alarm
        self._plans = {plan.kind: plan for plan in plans}
        self._lease_s, self._owner = lease_s, owner

    @classmethod
    def open(
        cls,
        engine: Engine,
        plans: Sequence[Plan],
        *,
        owner: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        alarm: Callable[[Run], None] = lambda run: None,
        lease_s: float = 3600.0,
    ) -> Self:
        """Bring the tables to this release's schema. ``owner`` names this process; its leases last ``lease_s`` seconds, longer
        than any step takes."""
        with writing(engine, None) as connection:
            run_revisions(connection, Path(__file__).parent / "migrations", "loop_version", metadata)
        return cls(engine, plans, clock=clock, alarm=alarm, lease_s=lease_s, owner=owner)

    def start(self, kind: str, scope: str, reason: str) -> Run:
        """Begin a run. Raises RunBusyError while another of its kind is under way in the scope, LoopError for an unknown kind."""
        self._plan(kind)
        values = {
            "run_id": new_id(), "scope": scope, "kind": kind, "reason": reason, "state": str(RunState.RUNNING),
            "active": f"{scope}/{kind}", "attempts": 0, "created_at": self._now(),
        }  # fmt: skip
        try:
            with writing(self._engine, None) as connection:
                connection.execute(insert(runs), [values])
        except DuplicateEventError:
            raise RunBusyError(f"a {kind} run is under way here; it ends first") from None
        return self.run(str(values["run_id"]))

    def run(self, run_id: str) -> Run:
        with reading(self._engine, None) as connection:
            return self._load(connection, run_id)

    def every(self, scope: str | None = None) -> tuple[Run, ...]:
        """All runs, oldest first."""
        with reading(self._engine, None) as connection:
            query = select(runs.c.run_id).order_by(runs.c.created_at, runs.c.run_id)
            rows = connection.execute(query if scope is None else query.where(runs.c.scope == scope)).all()
            return tuple(self._load(connection, row.run_id) for row in rows)

    def stop(self, run_id: str, *, actor: str, reason: str) -> Run:
        """End a run by hand. A step under way may still finish; nothing follows it."""
        return self._end(run_id, RunState.STOPPED, f"{actor}: {reason}")

    def advance(self) -> Run | None:
        """Do the next step of one run that is due and nobody's; None when there is none. Call it in a loop, from any process."""
        run = self._take()
        if run is None:
            return None
        plan = self._plan(run.kind)
        todo = [(name, step) for name, step in plan.steps if name not in run.results]
        if not todo:
            return self._end(run.run_id, RunState.DONE, None)
        name, step = todo[0]
        try:
            self._in_time(run, plan)
            result = step(run)
        except NotReadyError as error:
            return self._later(run, RunState.WAITING, error.after_s, error.message)
        except CertloopError as error:
            return self._failed(run, plan, f"{name}: {error.message}", final=isinstance(error, StepTimeout))
        except Exception as error:  # noqa: BLE001 - a bug in one step must not end the loop; its text may hold values
            return self._failed(run, plan, f"{name}: {type(error).__name__}", final=False)
        if isinstance(result, Stop):
            self._finish(run, name, {**result.result, "stopped": result.reason})
            return self._end(run.run_id, RunState.STOPPED, result.reason)
        self._finish(run, name, result)
        return self._end(run.run_id, RunState.DONE, None) if len(todo) == 1 else self._release(run)

    def _take(self) -> Run | None:
        """A run whose lease nobody holds (or which ran out), leased to this process."""
        now = self._now()
        with writing(self._engine, None) as connection:
            free = or_(runs.c.lease_until.is_(None), runs.c.lease_until < now, runs.c.owner == self._owner)
            due = or_(runs.c.not_before.is_(None), runs.c.not_before <= now)
            query = select(runs.c.run_id).where(runs.c.state.in_([str(s) for s in ACTIVE]), free, due)
            row = connection.execute(query.order_by(runs.c.created_at, runs.c.run_id).limit(1)).first()
            if row is None:
                return None
            until = self._later_than(self._lease_s)
            connection.execute(
                update(runs).where(runs.c.run_id == row.run_id).values(owner=self._owner, lease_until=until, not_before=None)
            )
            return self._load(connection, row.run_id)

    def _finish(self, run: Run, name: str, result: Mapping[str, Any]) -> None:
        """The result of a step, once. Who lost the lease in between and comes second changes nothing."""
        row = {"run_id": run.run_id, "step": name, "result": canonical(dict(result)), "at": self._now()}
        with writing(self._engine, None) as connection:
            done = connection.execute(select(steps.c.step).where(steps.c.run_id == run.run_id, steps.c.step == name)).first()
            if done is None:
                connection.execute(insert(steps), [row])
                connection.execute(update(runs).where(runs.c.run_id == run.run_id).values(attempts=0, error=None))

    def _failed(self, run: Run, plan: Plan, message: str, *, final: bool) -> Run:
        if final or run.attempts + 1 >= plan.attempts:
            failed = self._end(run.run_id, RunState.FAILED, message)
            self._alarm(failed)
            return failed
        return self._later(run, RunState.RUNNING, plan.retry_s, message, attempts=run.attempts + 1)

    def _in_time(self, run: Run, plan: Plan) -> None:
        with reading(self._engine, None) as connection:
            last = connection.execute(
                select(steps.c.at).where(steps.c.run_id == run.run_id).order_by(steps.c.at.desc()).limit(1)
            ).scalar()
        began = datetime.fromisoformat(last or run.created_at)
        if self._clock() - began > timedelta(seconds=plan.wait_s):
            raise StepTimeout(f"nothing happened for {plan.wait_s / 3600:.0f} hours")

    def _later(self, run: Run, state: RunState, after_s: float, message: str, attempts: int | None = None) -> Run:
        values: dict[str, Any] = {"state": str(state), "not_before": self._later_than(after_s), "error": message}
        if attempts is not None:
            values["attempts"] = attempts
        return self._update(run.run_id, values)

    def _release(self, run: Run) -> Run:
        return self._update(run.run_id, {"state": str(RunState.RUNNING)})

    def _end(self, run_id: str, state: RunState, message: str | None) -> Run:
        return self._update(run_id, {"state": str(state), "active": None, "error": message, "finished_at": self._now()})

    def _update(self, run_id: str, values: Mapping[str, Any]) -> Run:
        with writing(self._engine, None) as connection:
            still = runs.c.state.in_([str(s) for s in ACTIVE])
            connection.execute(update(runs).where(runs.c.run_id == run_id, still).values(dict(values) | {"lease_until": None}))
            return self._load(connection, run_id)

    def _load(self, connection: Connection, run_id: str) -> Run:
        row = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
        if row is None:
            raise LoopError(f"no run {run_id[:64]}")
        done = connection.execute(select(steps).where(steps.c.run_id == run_id).order_by(steps.c.at, steps.c.step))
        results = {step.step: json.loads(step.result) for step in done}
        return Run(
            row.run_id, row.scope, row.kind, row.reason, RunState(row.state), row.attempts, row.error, row.created_at, results
        )

    def _plan(self, kind: str) -> Plan:
        try:
            return self._plans[kind]
        except KeyError:
            raise LoopError(f"no plan for {kind[:32]} runs; plans are {', '.join(sorted(self._plans))}") from None

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="microseconds")

    def _later_than(self, seconds: float) -> str:
        return (self._clock() + timedelta(seconds=seconds)).astimezone(UTC).isoformat(timespec="microseconds")
