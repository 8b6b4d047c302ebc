"""The middle speed with a real model: nano learns from approved answers, and the gate tells good rounds from poisoned ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from certloop.agentrl.loop import RunState
from certloop.serve.loop.online import start_due
from certloop.train.nano import nano_pages
from tests.serve.nano_round import TENANT, Place, advance, approve, held_out, recipe

PAGES, POISONED = 256, 128
FINISHED = (RunState.DONE, RunState.STOPPED, RunState.FAILED)


@pytest.fixture(scope="module")
def pages_held_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    import torch

    torch.set_num_threads(1)
    return held_out(tmp_path_factory.mktemp("held-out"), 990_100, 80, 120)


@pytest.mark.slow
def test_a_round_that_the_loop_began_raises_held_out_reward_and_passes_the_gate(
    tmp_path: Path, pages_held_out: tuple[Path, Path]
) -> None:
    place = Place(tmp_path, pages_held_out)
    place.serve()
    online = place.round(recipe(steps=48))
    runs = place.runs(online)
    assert "too few" in start_due(runs, online, TENANT)
    pages = nano_pages(31, PAGES)
    approve(place.store, pages, [dict(page.fields) for page in pages])
    assert start_due(runs, online, TENANT) == f"{PAGES} new approved answers"
    assert start_due(runs, online, TENANT) == "a round is under way"
    run = advance(place, runs, runs.every(TENANT)[0], lambda run: "stage" in run.results or run.state in FINISHED)
    judged = run.results["judge"]
    assert judged["verdict"] == "promote", judged
    release = place.registry.release(place.registry.pointer(TENANT).candidate, scope=TENANT)
    assert release.data_manifest_sha256 == run.results["pack"]["data_sha256"]
    assert (place.registry.artefacts.path(release.artefacts["model"]) / "model.safetensors").is_file()
    report = (place.registry.artefacts.path(release.artefacts["gate"]) / "gate.html").read_text("utf-8")
    assert "nano_licence" in report or "统一社会信用代码" in report  # the forgetting table, by field


@pytest.mark.slow
def test_a_poisoned_round_is_refused(tmp_path: Path, pages_held_out: tuple[Path, Path]) -> None:
    place = Place(tmp_path, pages_held_out)
    place.serve()
    pages = nano_pages(32, POISONED)
    dealt = [dict(page.fields) for page in (*pages[1:], pages[0])]  # each page with another page's answer
    approve(place.store, pages, dealt)
    online = place.round(recipe(steps=16, learning_rate=5e-4))
    runs = place.runs(online)
    start_due(runs, online, TENANT)
    run = advance(place, runs, runs.every(TENANT)[0], lambda run: run.state in FINISHED)
    assert run.state is RunState.STOPPED
    assert run.results["judge"]["verdict"] == "reject", run.results["judge"]
    assert place.registry.pointer(TENANT).candidate == ""


def test_rows_are_asked_and_answered_as_serving_does(tmp_path: Path) -> None:
    """Prompt and order of labels are the type's, whichever field the auditor added last."""
    from certloop.serve.loop import ground_truth
    from certloop.train.nano import user_text
    from certloop.train.nano.vocabulary import nano_type
    from certloop.train.rows import read_rows

    place = Place(tmp_path, (tmp_path, tmp_path))
    pages = nano_pages(33, 12)
    approve(place.store, pages, [dict(reversed(page.fields.items())) for page in pages])
    rows = [(truth, 1.0) for truth in ground_truth.truths(place.store, TENANT)]
    ground_truth.pack(place.store, rows, lambda name: nano_type(), tmp_path / "rows")
    packed = read_rows(tmp_path / "rows")
    assert {row.prompt for row in packed} == {user_text()}
    assert [row.completion for row in packed] == [page.answer for page in pages]
    place.store.close()
