"""What a round of training lives through: too little, contradictions, failing backends, consent taken back, bad weights."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from certloop.agentrl.backend import Candidate, RunState, Status, TrainSpec
from certloop.agentrl.loop import RunState as State
from certloop.agentrl.loop import Stop
from certloop.agentrl.store import set_consent
from certloop.agentrl.trajectory import Consent
from certloop.serve.loop.online import start_due
from certloop.train.backends.local import WORKER, LocalBackend, _started
from certloop.train.nano import nano_pages
from tests.serve.nano_round import KIND, TENANT, Place, approve, recipe

N = 40


class Worker(LocalBackend):
    """The local backend with another program as its worker."""

    def __init__(self, root: Path, *command: str) -> None:
        super().__init__(root)
        self.command, self.started = command, 0

    def _start(self, folder: Path) -> None:
        self.started += 1
        process = subprocess.Popen(self.command, start_new_session=True)
        (folder / WORKER).write_text(f'{{"pid": {process.pid}, "started": "{_started(process.pid)}"}}', "utf-8")
        self._children = [*getattr(self, "_children", []), process]


class Delivered:
    """A backend whose run is done: it delivers a folder of weights."""

    name = "delivered"

    def __init__(self, where: Path, kind: str, base: str, sha256: str) -> None:
        self.where, self.kind, self.base, self.sha256 = where, kind, base, sha256

    def plan(self, spec: TrainSpec) -> object:
        raise NotImplementedError

    def submit(self, spec: TrainSpec) -> str:
        return spec.run_id

    def status(self, run_id: str) -> Status:
        return Status(run_id, RunState.DONE)

    def fetch(self, run_id: str) -> Candidate:
        return Candidate(run_id, self.kind, str(self.where), self.base, self.sha256, "")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, (tmp_path, tmp_path))
    made.serve()
    yield made
    made.store.close()


def learn_from(place: Place, n: int = N) -> list[str]:
    pages = nano_pages(50, n)
    return approve(place.store, pages, [dict(page.fields) for page in pages])


def test_too_little_says_how_much_and_waits(place: Place) -> None:
    online = place.round(recipe())
    runs = place.runs(online)
    assert start_due(runs, online, TENANT) == "0 of 32 new approved answers: too few, waiting"
    learn_from(place, 5)
    assert start_due(runs, online, TENANT) == "5 of 32 new approved answers: too few, waiting"
    assert runs.every(TENANT) == ()


def test_auditors_who_contradict_each_other_teach_nothing(place: Place) -> None:
    pages = nano_pages(50, N)
    approve(place.store, pages, [dict(page.fields) for page in pages], auditor="ann")
    approve(place.store, pages, [dict(page.fields) for page in (*pages[1:], pages[0])], auditor="bob")
    online = place.round(recipe())
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    run = runs.advance()
    assert run is not None
    assert run.state is State.STOPPED
    assert run.error is not None
    assert "auditors contradict each other" in run.error
    assert run.results["select"]["left_out"] == {"contradicted": 2 * N}


def test_without_consent_nothing_is_trained_on(place: Place) -> None:
    pages = nano_pages(50, N)
    approve(place.store, pages, [dict(page.fields) for page in pages], consent=Consent.NONE)
    online = place.round(recipe())
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    run = runs.advance()
    assert run is not None
    assert run.state is State.STOPPED
    assert run.results["select"]["left_out"] == {"no_consent": N}


def test_a_backend_that_fails_is_tried_again_and_then_an_alarm_is_raised(place: Place) -> None:
    learn_from(place)
    backend = Worker(place.root / "runs", "false")
    online = place.round(recipe(), backend)
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    run = runs.every(TENANT)[0]
    for _ in range(200):
        runs.advance()
        place.clock.now = place.clock.now.fromtimestamp(place.clock.now.timestamp() + 5, place.clock.now.tzinfo)
        if (run := runs.run(run.run_id)).state is State.FAILED:
            break
        time.sleep(0.02)
    assert run.state is State.FAILED
    assert backend.started == 3
    assert len(place.alarms) == 1
    assert "training failed, train_backend_failed" in place.alarms[0]
    assert place.registry.pointer(TENANT).active == "first"


def test_a_backend_that_never_ends_is_given_up_with_an_alarm(place: Place) -> None:
    learn_from(place)
    backend = Worker(place.root / "runs", "sleep", "3600")
    online = place.round(recipe(), backend, timeout_s=600.0)
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    run = runs.every(TENANT)[0]
    for _ in range(3):
        runs.advance()
    assert runs.run(run.run_id).state is State.WAITING
    worker = backend._children[0]
    place.clock.now = place.clock.now.fromtimestamp(place.clock.now.timestamp() + 700, place.clock.now.tzinfo)
    ended = runs.advance()
    assert ended is not None
    assert ended.state is State.FAILED
    assert place.alarms == ["train: training was not done after 0.2 hours; it is given up"]
    assert worker.wait(10) == -9  # and nothing of it goes on


def test_consent_taken_back_while_it_trains_ends_the_round_and_what_it_made(place: Place) -> None:
    ids = learn_from(place)
    backend = Worker(place.root / "runs", "sleep", "3600")
    online = place.round(recipe(), backend)
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    run = runs.every(TENANT)[0]
    for _ in range(3):
        runs.advance()
    acme = place.store.for_tenant(TENANT)
    assert list((place.root / "rounds").glob("rows-*/images/*.png"))
    set_consent(acme, acme.trajectory(ids[7]).document_id, Consent.NONE, "withdrawn", "ann")
    worker = backend._children[0]
    place.clock.now = place.clock.now.fromtimestamp(place.clock.now.timestamp() + 5, place.clock.now.tzinfo)
    ended = runs.advance()
    assert ended is not None
    assert ended.state is State.STOPPED
    assert ended.error is not None
    assert ended.error.startswith("1 of the documents it learns from may not be used any more")
    assert worker.wait(10) == -9
    assert not list((place.root / "rounds").glob("rows-*"))
    assert not list((place.root / "runs").iterdir())
    assert run.run_id == ended.run_id


def test_a_tenant_s_rows_never_reach_another_tenant_s_or_the_shared_model(place: Place) -> None:
    learn_from(place)
    online = place.round(recipe())
    runs = place.runs(online)
    assert start_due(runs, online, "other") == "0 of 32 new approved answers: too few, waiting"
    assert start_due(runs, online, "*") == "0 of 32 new approved answers: too few, waiting"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "delivered"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    return folder


def judged(place: Place, backend: Delivered, examine: object = None) -> str:
    learn_from(place)
    online = place.round(recipe(), backend, examine=examine or (lambda old, new: pytest.fail("nothing may be loaded")))  # type: ignore[arg-type]
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    for _ in range(4):
        run = runs.advance()
    assert run is not None
    assert run.state is State.STOPPED
    assert place.registry.pointer(TENANT).candidate == ""
    return str(run.error)


def test_weights_that_were_damaged_on_the_way_are_refused(place: Place, weights: Path) -> None:
    said = judged(place, Delivered(weights, "model", "nano:early", "0" * 64))
    assert said == "the candidate was refused: its weights are not those that the backend named: a file was changed or is damaged"


def test_a_pickle_is_refused(place: Place, weights: Path) -> None:
    (weights / "optimizer.pt").write_bytes(b"x")
    assert ".pt is not loaded" in judged(place, Delivered(weights, "model", "nano:early", ""))


def test_an_adapter_of_another_base_is_refused(place: Place, weights: Path) -> None:
    said = judged(place, Delivered(weights, "adapter", "somebody/else", ""))
    assert said == "the candidate was refused: its adapter belongs to another base model"


@pytest.mark.slow
def test_an_adapter_that_only_claims_to_belong_here_is_refused(place: Place, tmp_path: Path) -> None:
    """Its name fits, the fingerprint of its base does not: the same shape, other weights."""
    from certloop.serve.loop.examine import ModelExaminer
    from certloop.train.config import ModelSpec
    from certloop.train.models import load_processor, save_model, with_lora
    from certloop.train.nano import NanoConfig, build_nano, save_nano
    from certloop.train.nano_data import nano_rows

    ours, processor = build_nano(NanoConfig.tiny(seed=0))
    save_nano(ours, processor, tmp_path / "base", half=False)
    spec = ModelSpec.model_validate({"path": str(tmp_path / "base"), "dtype": "float32", "lora": {"rank": 2, "alpha": 4}})
    theirs, _ = build_nano(NanoConfig.tiny(seed=1))
    assert spec.lora is not None
    save_model(with_lora(theirs, spec.lora), load_processor(spec), tmp_path / "foreign", base_name=spec.path)
    nano_rows(tmp_path / "held", 1, 2)
    examine = ModelExaminer(spec, tmp_path / "held", tmp_path / "held", max_new_tokens=4)
    said = judged(place, Delivered(tmp_path / "foreign", "adapter", "nano:early", ""), examine)
    assert "a model of the same shape with other weights" in said


def test_a_clock_that_goes_back_starts_nothing_twice(place: Place) -> None:
    from datetime import timedelta

    learn_from(place)
    online = place.round(recipe(), Worker(place.root / "runs", "sleep", "3600"), timeout_s=600.0)
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    for _ in range(3):
        runs.advance()
    place.clock.now -= timedelta(days=400)
    assert start_due(runs, online, TENANT) == "a round is under way"
    assert runs.advance() is None  # not due yet: nothing fails because of it
    backend = online.backend
    assert isinstance(backend, Worker)
    os.killpg(backend._children[0].pid, 9)
    assert runs.every(TENANT)[0].kind == KIND


def test_every_step_may_be_done_twice(place: Place, weights: Path) -> None:
    """A process that dies after a step's effect and before its result is written leaves the step to be done again."""
    from certloop.agentrl.release import Evidence, Pair

    def examine(old: Path | None, new: Path) -> Evidence:
        better = [Pair(f"t{n}", "held out", 0.2, 0.9) for n in range(40)]
        return Evidence(better, [Pair(f"r{n}", "others", 0.9, 0.9) for n in range(40)])

    learn_from(place)
    online = place.round(recipe(), Delivered(weights, "model", "nano:early", ""), examine=examine)
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    for name, step in online.plan().steps[:-1]:
        first = step(runs.every(TENANT)[0])
        again = step(runs.every(TENANT)[0])
        assert not isinstance(first, Stop)
        assert not isinstance(again, Stop)
        assert {k: v for k, v in first.items() if k != "at"} == {k: v for k, v in again.items() if k != "at"}, name
        runs.advance()
        place.clock.now = place.clock.now.fromtimestamp(place.clock.now.timestamp() + 5, place.clock.now.tzinfo)
    run = runs.every(TENANT)[0]
    assert run.results["stage"]["share"] == 0.05
    assert [str(row.move) for row in place.registry.history(TENANT)] == ["staged"], "staged once"
    assert len(place.registry.releases(TENANT)) == 1
