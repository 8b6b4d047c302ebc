"""Runs go on where they stopped, one of a kind at a time; a step's result is written once, whatever kills the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.loop import LoopError, NotReadyError, Plan, Run, RunBusyError, Runs, RunState, Stop
from certloop.agentrl.store import Store


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


def note(said: list[str], name: str) -> Callable[[Run], Mapping[str, Any]]:
    def step(run: Run) -> Mapping[str, Any]:
        said.append(name)
        return {"saw": sorted(run.results)}

    return step


def open_runs(store: Store, clock: Clock, *steps: tuple[str, Any], owner: str = "p1", **more: Any) -> Runs:
    return Runs.open(store.engine, [Plan("learn", steps, **more)], owner=owner, clock=clock, lease_s=100.0)


def test_steps_in_order_each_once(store: Store, clock: Clock) -> None:
    said: list[str] = []
    runs = open_runs(store, clock, ("select", note(said, "select")), ("train", note(said, "train")))
    run = runs.start("learn", "*", "enough")
    while runs.advance():
        pass
    done = runs.run(run.run_id)
    assert said == ["select", "train"]
    assert (done.state, done.results) == (RunState.DONE, {"select": {"saw": []}, "train": {"saw": ["select"]}})


def test_one_run_of_a_kind_at_a_time(store: Store, clock: Clock) -> None:
    runs = open_runs(store, clock, ("a", note([], "a")))
    first = runs.start("learn", "*", "enough")
    with pytest.raises(RunBusyError):
        runs.start("learn", "*", "again")
    runs.start("learn", "acme", "its own")
    runs.stop(first.run_id, actor="eng", reason="not now")
    assert runs.start("learn", "*", "again").state is RunState.RUNNING
    assert runs.run(first.run_id).error == "eng: not now"
    with pytest.raises(LoopError):
        runs.start("dance", "*", "")


def test_waiting_for_something_outside_is_no_failure(store: Store, clock: Clock) -> None:
    ready: list[bool] = []

    def fetch(run: Run) -> Mapping[str, Any]:
        if not ready:
            raise NotReadyError("still training", after_s=30)
        return {}

    runs = open_runs(store, clock, ("fetch", fetch), attempts=1)
    run = runs.start("learn", "*", "")
    assert runs.advance().state is RunState.WAITING  # type: ignore[union-attr]
    assert runs.advance() is None
    clock.now += timedelta(seconds=31)
    ready.append(True)
    assert runs.advance().state is RunState.DONE  # type: ignore[union-attr]
    assert runs.run(run.run_id).attempts == 0


def test_what_never_ends_fails_and_raises_an_alarm(store: Store, clock: Clock) -> None:
    alarms: list[Run] = []

    def never(run: Run) -> Mapping[str, Any]:
        raise NotReadyError("still training", after_s=10)

    runs = Runs.open(store.engine, [Plan("learn", [("fetch", never)], wait_s=3600)], owner="p", clock=clock, alarm=alarms.append)
    run = runs.start("learn", "*", "")
    for _ in range(400):
        if runs.advance() is None:
            clock.now += timedelta(seconds=60)
        if runs.run(run.run_id).state is RunState.FAILED:
            break
    assert [alarm.run_id for alarm in alarms] == [run.run_id]
    assert "nothing happened" in str(alarms[0].error)


def test_a_failing_step_is_tried_again_then_given_up(store: Store, clock: Clock) -> None:
    tries: list[int] = []

    def breaks(run: Run) -> Mapping[str, Any]:
        tries.append(run.attempts)
        raise RuntimeError("张样本 110101199003070000")

    runs = open_runs(store, clock, ("train", breaks), attempts=3, retry_s=10)
    run = runs.start("learn", "*", "")
    for _ in range(5):
        runs.advance()
        clock.now += timedelta(seconds=11)
    failed = runs.run(run.run_id)
    assert tries == [0, 1, 2]
    assert (failed.state, failed.error) == (RunState.FAILED, "train: RuntimeError")  # an exception's text may hold values
    runs.start("learn", "*", "the next one may")


def test_a_step_may_end_the_run(store: Store, clock: Clock) -> None:
    said: list[str] = []
    runs = open_runs(
        store, clock, ("gate", lambda run: Stop("the gate said no", {"verdict": "reject"})), ("stage", note(said, "x"))
    )
    run = runs.start("learn", "*", "")
    assert runs.advance().state is RunState.STOPPED  # type: ignore[union-attr]
    assert runs.advance() is None
    assert said == []
    assert runs.run(run.run_id).results["gate"]["verdict"] == "reject"


def test_a_dead_process_run_is_taken_up_after_its_lease(store: Store, clock: Clock) -> None:
    said: list[str] = []
    dead = open_runs(store, clock, ("a", note(said, "a")), owner="dead")
    dead.start("learn", "*", "")
    dead._take()  # killed in the step
    other = open_runs(store, clock, ("a", note(said, "a")), owner="other")
    assert other.advance() is None
    clock.now += timedelta(seconds=101)
    assert other.advance().state is RunState.DONE  # type: ignore[union-attr]
    assert said == ["a"]


def test_a_clock_that_went_back_ends_nothing(store: Store, clock: Clock) -> None:
    runs = open_runs(store, clock, ("a", note([], "a")), wait_s=60)
    run = runs.start("learn", "*", "")
    clock.now -= timedelta(days=30)
    runs.advance()
    assert runs.run(run.run_id).state is RunState.DONE


def test_plans_need_named_steps() -> None:
    for steps in ((), (("a", note([], "a")), ("a", note([], "a")))):
        with pytest.raises(LoopError):
            Plan("learn", steps)


WORKER = """
    import os, signal, sys
    from pathlib import Path
    from certloop.agentrl.loop import Plan, Runs
    from certloop.agentrl.store import Store

    folder, die_in, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

    def step(name):
        def run(run):
            if name == die_in and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            with (folder / "effects").open("a") as log:
                log.write(f"{name} {run.run_id}\\n")
            if name == die_in and when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return {"name": name}
        return run

    with Store.open(f"sqlite:///{folder}/store.db") as store:
        plan = Plan("learn", [(name, step(name)) for name in ("select", "train", "gate", "stage", "watch", "promote")])
        runs = Runs.open(store.engine, [plan], owner="worker")
        while runs.advance():
            pass
        print(*(f"{run.state} {len(run.results)}" for run in runs.every()))
"""


@pytest.mark.slow
def test_killed_at_every_step_the_run_goes_on(tmp_path: Path) -> None:
    """kill -9 before and after the effect of each step: the run ends done, no effect happens more than once too often."""
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        Runs.open(store.engine, [Plan("learn", [("x", note([], "x"))])], owner="starter").start("learn", "*", "")
    names = ("select", "train", "gate", "stage", "watch", "promote")

    def run(die_in: str, when: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, script, tmp_path, die_in, when], capture_output=True, text=True, env=os.environ, check=False
        )

    for name in names:
        for when in ("before", "after"):
            assert run(name, when).returncode == -signal.SIGKILL
    assert run("nothing", "").stdout.split() == ["done", "6"]
    effects = [line.split()[0] for line in (tmp_path / "effects").read_text().splitlines()]
    assert [effects.count(name) for name in names] == [2] * 6  # once before the kill, once for good
