"""Reading a document is an episode of the one environment: the same loop, faults, steps and reward as any other domain's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certloop.agentrl.env import (
    Episode,
    EpisodeConfig,
    Fault,
    FaultSource,
    alter,
    no_faults,
    random_faults,
    run_episode,
    scripted_faults,
)
from certloop.agentrl.trajectory import Outcome, Provenance, validate
from certloop.extract.answer import answer_documents
from certloop.extract.config import ExtractConfig
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.environment import LOOKS, document_task, golden_paths
from certloop.extract.episode import DocumentReading, episode_limits, open_page, read_page
from certloop.extract.ingest import Decoder, IngestLimits, Page, ingest
from certloop.extract.recording import answer_of
from certloop.extract.result import Document
from certloop.extract.stored import document_from_json
from certloop.templates import Registry, load_types
from tests.agentrl.desk import Clerk, parts_task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAME = "food_permit_photo.jpg"
PASSING = (Fault.TIMEOUT, Fault.MALFORMED, Fault.RATE_LIMIT)
CONFIG = EpisodeConfig(Provenance("tenant"))
AT = "2026-01-01T00:00:00Z"
Run = Callable[[FaultSource], Episode]


@pytest.fixture(scope="module")
def engine() -> OcrEngine:
    return OcrEngine(ExtractConfig().ocr)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_types(())


@pytest.fixture(scope="module")
def page() -> Page:
    with Decoder() as decoder:
        return ingest(EXAMPLES / NAME, IngestLimits(), decoder=decoder).pages[0]


@pytest.fixture(scope="module")
def truth() -> dict[str, str]:
    rows = map(json.loads, (EXAMPLES / "labels.jsonl").read_text(encoding="utf-8").splitlines())
    fields: dict[str, str] = next(row for row in rows if row["file"] == NAME)["fields"]
    return fields


class Looks:
    """The engine, which remembers what it was asked: the same page is read again and again here."""

    def __init__(self, engine: OcrEngine) -> None:
        self._engine = engine
        self._seen: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._engine, name)

        def ask(*args: Any, **options: Any) -> Any:
            key = (name, *(_key(a) for a in args), *sorted(options.items()))
            if key not in self._seen:
                self._seen[key] = asked(*args, **options)
            return self._seen[key]

        return ask


def _key(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    return tuple(map(_key, value)) if isinstance(value, (list, tuple)) else value


@pytest.fixture(scope="module")
def looks(engine: OcrEngine) -> Any:
    return Looks(engine)


Read = Callable[..., tuple[DocumentReading, Document]]


@pytest.fixture(scope="module")
def read(page: Page, looks: Any, registry: Registry) -> Read:
    def run(faults: FaultSource = no_faults, **options: Any) -> tuple[DocumentReading, Document]:
        readings, around = read_page(page.image, looks, registry, ExtractConfig(**options), faults=faults)
        (document,) = answer_documents(page, readings, around)
        return readings[0], document

    return run


@pytest.fixture(scope="module")
def extraction(page: Page, looks: Any, registry: Registry, truth: Mapping[str, str]) -> Run:
    """The extraction episode as a task with truth, on a sealed page: whoever stamps it knows that a second look is due."""
    doc_type = registry.get("food_operation_permit")
    golden = ("ocr", "zoom", "ocr", "validate", "emit_json")

    def run(faults: FaultSource) -> Episode:
        (reader,), _ = open_page(page.image, looks, registry, ExtractConfig())
        task = document_task(reader.environment, doc_type=doc_type, truth=truth, golden=golden)
        config = replace(CONFIG, limits=episode_limits(reader))
        return run_episode(task, reader, config, traj_id="t", created_at=AT, faults=faults, clock=lambda: 0.0)

    return run


def toy(faults: FaultSource) -> Episode:
    return run_episode(parts_task(), Clerk(), CONFIG, traj_id="t", created_at=AT, faults=faults, clock=lambda: 0.0)


@pytest.fixture(params=["extraction", "parts desk"])
def domain(request: pytest.FixtureRequest, extraction: Run) -> Run:
    return extraction if request.param == "extraction" else toy


def test_both_domains_run_through_one_loop(domain: Run) -> None:
    episode = domain(no_faults)
    trajectory = validate(episode.trajectory)
    assert trajectory.outcome is Outcome.CLEAN
    assert episode.reward is not None
    assert episode.reward.quality > 0.7
    assert trajectory.steps[-1].action is None  # the step that answers
    assert all(step.action is not None and step.tool_result is not None for step in trajectory.steps[:-1])
    assert [s.observation for s in trajectory.steps[1:]] == [
        json.dumps({"ok": True, "result": s.tool_result.payload}, ensure_ascii=False)
        for s in trajectory.steps[:-1]
        if s.tool_result is not None
    ]


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_costs_a_call_and_nothing_else(domain: Run, fault: Fault) -> None:
    calm = domain(no_faults)
    for call in range(len(calm.trajectory.path)):
        episode = domain(scripted_faults({call: fault}))
        assert episode.faults == ((call, fault),)
        broken = episode.trajectory.steps[call].tool_result
        assert broken is not None
        assert (broken.ok, broken.error_kind) == (False, fault.value)
        assert episode.trajectory.outcome is Outcome.CLEAN
        assert episode.trajectory.final_json == calm.trajectory.final_json
        assert episode.reward == calm.reward
        assert len(episode.trajectory.path) == len(calm.trajectory.path) + 1


def test_a_changed_answer_is_believed_and_the_episode_lives(domain: Run) -> None:
    calm = domain(no_faults)
    spoiled = 0
    for call in range(len(calm.trajectory.path)):
        episode = domain(scripted_faults({call: Fault.CHANGED}))
        assert episode.trajectory.outcome is Outcome.CLEAN
        assert episode.reward is not None
        spoiled += episode.trajectory.steps[call] != calm.trajectory.steps[call]
    assert spoiled == len(calm.trajectory.path)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_weather_gives_data_and_the_same_weather_the_same_data(domain: Run, seed: int) -> None:
    faults = random_faults(dict.fromkeys(Fault, 0.2), seed)
    first, again = domain(faults), domain(faults)
    assert first == again
    validate(first.trajectory)
    assert first.trajectory.outcome in (Outcome.CLEAN, Outcome.REFUSED)
    assert first.reward is not None
    assert 0.0 <= first.reward.reward <= 1.0


def test_a_changed_character_of_the_first_look_is_what_is_read(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    calm, _ = read(second_reads=0)
    seen = calm.steps[0].result
    number = next(n for n, text in seen["texts"].items() if "JY2120105" in text)
    hit = next(seed for seed in range(10_000) if alter(seen, seed)["texts"][number] != seen["texts"][number])
    monkeypatch.setattr("certloop.agentrl.env.tools.alter", lambda payload, _: alter(payload, hit))
    _, document = read(scripted_faults({0: Fault.CHANGED}), second_reads=0)
    field = document.fields["permit_no"]
    assert field.value not in (None, "JY21201052642253")
    assert any(verdict.failed for verdict in field.validations)  # nobody else notices


def test_looks_that_never_come_leave_the_first_reading(read: Read) -> None:
    without, expected = read(second_reads=0)
    reading, document = read(random_faults({Fault.TIMEOUT: 1.0}, 1, tools=frozenset(LOOKS)))
    assert reading.outcome is Outcome.CLEAN
    assert document.to_json() == expected.to_json()
    assert {s.tool for s in reading.steps if not s.ok} & set(LOOKS)
    assert without.answer == reading.answer


def test_a_page_that_can_never_be_looked_at_is_refused_and_said_to_be_unknown(read: Read) -> None:
    reading, document = read(random_faults({Fault.RATE_LIMIT: 1.0}, 1))
    assert reading.outcome is Outcome.REFUSED
    assert (document.doc_type, dict(document.fields)) == ("unknown", {})
    assert [s.error_kind for s in reading.steps] == ["rate_limit"] * len(reading.steps)


def test_what_breaks_by_itself_is_raised_and_not_called_an_outcome(page: Page, looks: Any, registry: Registry) -> None:
    class Broken(Looks):
        def __getattr__(self, name: str) -> Any:
            if name == "recognise_crop":
                raise MemoryError("no room for a line")
            return getattr(looks, name)

    with pytest.raises(MemoryError, match="no room"):
        read_page(page.image, Broken(None), registry, ExtractConfig())  # type: ignore[arg-type]


def test_the_answer_of_the_episode_is_the_one_that_is_recorded(read: Read) -> None:
    reading, document = read()
    assert json.loads(reading.answer or "") == answer_of(document)


def test_a_document_brings_its_trajectory_with_it(read: Read) -> None:
    reading, document = read()
    trajectory = document.trajectory
    assert trajectory is not None
    assert trajectory == document.trajectory  # the same whenever it is asked for
    assert trajectory.outcome is Outcome.CLEAN
    assert trajectory.path == tuple(step.tool for step in reading.steps)
    assert json.loads(trajectory.final_json or "") == answer_of(document)
    assert [s.tool_result.payload for s in trajectory.steps if s.tool_result] == [s.result for s in reading.steps]
    assert (trajectory.tenant_id, trajectory.consent, trajectory.doc_type) == ("local", "none", "food_operation_permit")
    another = read()[1].trajectory
    assert another is not None
    assert another.traj_id != trajectory.traj_id  # another reading
    assert document_from_json(document.to_json()).trajectory is None
    refused = read(random_faults({Fault.TIMEOUT: 1.0}, 1))[1].trajectory
    assert refused is not None
    assert (refused.outcome, refused.final_json) == (Outcome.REFUSED, None)


def test_every_look_that_a_golden_path_calls_zoom_and_ocr_is_right() -> None:
    paths = golden_paths(["rotate", "ocr", "zoom", "ocr", "qr_decode", "validate", "emit_json"])
    assert paths == tuple(("ocr", look, "qr_decode", "validate", "emit_json") for look in LOOKS)
    assert golden_paths(["ocr", "validate", "emit_json"]) == (("ocr", "validate", "emit_json"),)


def test_an_ungraded_document_has_no_reward(page: Page, looks: Any, registry: Registry) -> None:
    (reader,), _ = open_page(page.image, looks, registry, ExtractConfig())
    config = replace(CONFIG, limits=episode_limits(reader))
    episode = run_episode(document_task(reader.environment), reader, config, traj_id="t", created_at=AT)
    assert (episode.trajectory.outcome, episode.reward) == (Outcome.CLEAN, None)
