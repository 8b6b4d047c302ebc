"""A model that learned to please: it fills in every field, printed or not. The judge likes it, auditors do not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from certloop.agentrl.backend import RunState
from certloop.agentrl.loop import NotReadyError
from certloop.agentrl.release import ArmWindow, CanaryPolicy, CanaryState, Pointer, Release
from certloop.serve.loop.trial import Trial
from certloop.train.backends import make_spec
from certloop.train.backends.local import LocalBackend
from certloop.train.evaluate import read_rows_with
from certloop.train.models import load_processor, load_student
from certloop.train.nano import NanoPage, answer_text, user_text
from certloop.train.nano.form import form_ids
from certloop.train.nano.page import draw_page
from certloop.train.nano.values import draw_values
from certloop.train.nano.vocabulary import nano_type
from certloop.train.rows import Row, write_rows
from tests.serve.nano_round import TENANT, Place, answers_of, recipe

TRAFFIC = 200
SHOWN = 5  # fields printed on a page, of six: nano leaves one out where it is not there (with fewer it invents by itself)


def pages(seed: int, n: int) -> list[NanoPage]:
    return [draw_page(seed, index, form_ids("seen"), keep=SHOWN) for index in range(n)]


def filled_in(page: NanoPage, rng: Random) -> dict[str, str]:
    """What is printed, and for every other field something that looks right."""
    invented = draw_values(rng, trader=False)
    return {spec.label: page.fields.get(spec.label, invented[spec.id]) for spec in nano_type().fields.values()}


def rows_of(folder: Path, shown: Sequence[NanoPage], answers: Sequence[dict[str, str]]) -> list[Row]:
    (folder / "images").mkdir(parents=True)
    rows = []
    for page, answer in zip(shown, answers, strict=True):
        image = folder / "images" / f"{page.seed}-{page.index}.png"
        page.image.save(image)
        rows.append(Row(image.stem, user_text(), (image,), answer_text(answer), truth=dict(page.fields)))
    write_rows(folder, rows, source="test")
    return rows


def arm(weights: Path | None, rows: Sequence[Row]) -> ArmWindow:
    """Real readings. The judge counts filled fields (four periods); an auditor approves only what is printed and nothing else."""
    spec = recipe(path="nano:teacher").student
    answers = answers_of(read_rows_with(load_student(spec, weights), load_processor(spec), rows))
    judged = [sum(bool(value) for value in answer.values()) / len(nano_type().fields) for answer in answers]
    passed = sum(answer == dict(row.truth or {}) for row, answer in zip(rows, answers, strict=True))
    quarter = len(rows) // 4
    periods = [sum(judged[i : i + quarter]) / quarter for i in range(0, len(rows), quarter)]
    return ArmWindow(len(rows), len(rows), passed, periods)


@pytest.mark.slow
def test_a_candidate_that_pleases_the_judge_and_fails_auditors_is_rolled_back(tmp_path: Path) -> None:
    import torch

    torch.set_num_threads(1)
    rng = Random(5)
    lessons = pages(61, 96)
    rows_of(tmp_path / "rows", lessons, [filled_in(page, rng) for page in lessons])
    config = recipe(path="nano:teacher", steps=24, learning_rate=3e-4)
    config = config.with_(data=config.data.model_dump(exclude_none=True) | {"train": str(tmp_path / "rows")})
    backend = LocalBackend(tmp_path / "runs")
    run_id = backend.submit(make_spec(config))
    while (status := backend.status(run_id)).state is RunState.RUNNING:
        time.sleep(0.5)
    assert status.state is RunState.DONE, status.error
    weights = Path(backend.fetch(run_id).where)

    traffic = rows_of(tmp_path / "traffic", pages(62, TRAFFIC), [dict(page.fields) for page in pages(62, TRAFFIC)])
    old, new = arm(None, traffic), arm(weights, traffic)
    assert old.judge_mean is not None
    assert new.judge_mean is not None
    assert new.judge_mean > old.judge_mean + 0.05, "the judge is more pleased"
    assert new.passed < old.passed - 60, "auditors are not"

    place = Place(tmp_path, (tmp_path, tmp_path))
    place.serve("nano:teacher")
    made = Release(
        "pleasing", "qwen-vl", "nano:teacher", artefacts={"model": place.registry.artefacts.add(weights)},
        data_manifest_sha256=make_spec(config).data_sha256, parent="first",
    )  # fmt: skip
    place.registry.register(made, scope=TENANT)
    trial = Trial(place.registry, CanaryPolicy(), place.clock)
    assert trial.stage(TENANT, "pleasing", per_week=1000.0, reason="test").share == 0.05

    def state(pointer: Pointer) -> CanaryState:
        return CanaryState(pointer.share, trial.since(TENANT), new, old, documents_per_week=1000.0)

    def still_fine(pointer: Pointer) -> CanaryState:
        return CanaryState(pointer.share, trial.since(TENANT), old, old, documents_per_week=1000.0)

    place.clock.now += timedelta(hours=1)
    with pytest.raises(NotReadyError):  # two arms that are alike: it goes on
        trial.watch(TENANT, "pleasing", still_fine)
    serves, why = trial.watch(TENANT, "pleasing", state)
    assert not serves
    assert "judge_up_business_down: the judge is more pleased and the business less" in why
    assert place.registry.pointer(TENANT).active == "first"
    assert place.registry.pointer(TENANT).candidate == ""
    assert place.registry.quarantined(TENANT) == {made.data_manifest_sha256}, "what it learned from is set aside for a look"
    place.store.close()
