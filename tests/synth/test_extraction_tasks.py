"""Tasks for learning agents: synthetic pages whose truth and right paths are known, in the environment of every other domain."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice

import pytest

from certloop.agentrl.env import Action, Decision, EpisodeConfig, Limits, Outcome, TaskGenerator, run_episode
from certloop.agentrl.trajectory import Provenance
from certloop.extract.environment import LOOKS
from certloop.extract.episode import episode_limits
from certloop.synth.label import make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe
from certloop.synth.seeds import stream_seed
from certloop.synth.tasks import ExtractionTasks
from tests.agentrl.desk import Script, parts_tasks

TYPES = ("business_licence", "bank_account_permit")
CONFIG = EpisodeConfig(Provenance("study"))
AT = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def tasks() -> ExtractionTasks:
    return ExtractionTasks(TYPES, profile="clean", width_px=1300)


def truth_of(number: int) -> dict[str, str | None]:
    recipe = Recipe(TYPES[number % 2], stream_seed(5, f"task {number}"), 1300)
    fields: dict[str, str | None] = make_sample(recipe, load_profile("clean")).label["fields"]
    return fields


def test_two_domains_are_generators_of_one_kind(tasks: ExtractionTasks) -> None:
    generators: list[TaskGenerator] = [tasks, parts_tasks]
    for generator in generators:
        first, again = (next(iter(generator(5))) for _ in range(2))
        assert (first.task_id, first.kind, first.prompt, first.golden_paths) == (
            again.task_id, again.kind, again.prompt, again.golden_paths,
        )  # fmt: skip


def test_types_come_in_turn_and_paths_follow_the_page(tasks: ExtractionTasks) -> None:
    for number, task in enumerate(islice(tasks(5), 2)):
        assert task.kind == TYPES[number % 2]
        assert task.prompt  # the type's own, as in serving
        for path in task.golden_paths:
            assert (path[0], path[-2:]) == ("ocr", ("validate", "emit_json"))
        assert len(task.golden_paths) in (1, len(LOOKS))  # a seal over a value: any of the looks


def test_the_gold_answer_earns_everything_and_no_truth_is_told(tasks: ExtractionTasks) -> None:
    task = tasks.extraction(5, 0).task
    assert task.grade is not None
    gold = {label: value for label, value in truth_of(0).items() if value is not None}
    grade = task.grade(json.dumps(gold, ensure_ascii=False))
    assert grade is not None
    assert (grade.quality, grade.form) == (1.0, True)
    told = f"{task.prompt} {task.observation} {task.golden_paths}"
    assert not [value for value in gold.values() if len(value) > 3 and value in told]
    assert task.grade("no JSON") is None


@pytest.mark.parametrize("number", [0, 1])
def test_the_embedded_reader_is_one_policy_for_them(tasks: ExtractionTasks, number: int) -> None:
    extraction = tasks.extraction(5, number)
    config = replace(CONFIG, limits=episode_limits(extraction.reader))
    episode = run_episode(extraction.task, extraction.reader, config, traj_id="t", created_at=AT)
    assert episode.trajectory.outcome is Outcome.CLEAN
    assert episode.reward is not None
    assert episode.reward.quality > 0.5
    assert 0.0 < episode.reward.path <= 1.0
    assert episode.path[0] == "ocr"
    assert episode.path[-2:] == ("validate", "emit_json")


def test_any_other_policy_may_use_the_tools(tasks: ExtractionTasks) -> None:
    """One that answers from the texts it saw, without the reader's layout: what a model does that calls tools itself."""
    task = tasks.extraction(5, 0).task
    script = Script([Decision("look", Action("ocr")), Decision("done", answer=json.dumps({"名称": truth_of(0)["名称"]}))])
    episode = run_episode(task, script, replace(CONFIG, limits=Limits(5)), traj_id="t", created_at=AT)
    texts = "".join(episode.trajectory.steps[0].tool_result.payload["texts"].values())  # type: ignore[union-attr]
    assert "统一社会信用代码" in texts or "注册号" in texts
    assert episode.reward is not None
    assert 0.05 < episode.reward.quality < 1.0  # one field of many
    assert {tool["name"] for tool in script.seen[0].tools} == {"ocr", "qr_decode", "validate", *LOOKS}
