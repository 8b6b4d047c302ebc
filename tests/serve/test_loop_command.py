"""``certloop loop`` says in a sentence when there is nothing to show or to do, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from certloop.cli import app
from tests.serve.audit_world import World, open_world

RUNNER = CliRunner()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        yield opened


def loop(world: World, *arguments: str) -> tuple[str, str]:
    url = world.service.config.database_url
    done = RUNNER.invoke(app, ["loop", *arguments, "--database", url], env={"CERTLOOP_BLOB_URL": world.service.config.blob_url})
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.stdout, done.stderr


def test_nothing_yet_is_said_on_stderr_and_stdout_stays_data(world: World) -> None:
    out, said = loop(world, "status")
    assert (out, said.strip()) == ("", "no run yet: `certloop loop run` begins one when enough was learned")
    out, said = loop(world, "rules", "--tenant", "acme")
    assert out == ""
    assert said.startswith("nothing was learned yet")
    out, said = loop(world, "run", "--once", "--calibrate")
    assert out == ""
    assert "acme: rules: none wait for a release" in said
    assert "acme: confidences: 0 reviewed fields of 0 certificates; 400 of 40 are needed" in said


def test_rules_that_wait_begin_a_run_and_it_says_what_it_waits_for(world: World) -> None:
    world.service.loop.memory.add(
        "acme", "label", "business_licence", {"field": "name", "label": "主体全称"}, evidence=["doc.0"], actor="ann",
        replay=lambda body: None,
    )  # fmt: skip
    out, said = loop(world, "run", "--once")
    assert "acme: rules: a run begins: 1 rules in the overlay" in said
    runs = [json.loads(line) for line in out.splitlines()]
    assert runs[-1]["state"] == "waiting"
    assert "no approved certificate yet" in runs[-1]["why"]
    _, said = loop(world, "run", "--once")
    assert "acme: rules: a run is under way" in said or "judged within the last day" in said
    out, said = loop(world, "status")
    assert json.loads(out)["kind"] == "guidance"
    assert said == ""


def test_training_asks_for_what_it_is_judged_on(world: World) -> None:
    url = world.service.config.database_url
    done = RUNNER.invoke(app, ["loop", "run", "--once", "--train", "nano", "--database", url])
    assert done.exit_code != 0
    assert "--held-out DIR" in str(done.exception) + done.output


def test_training_waits_for_enough_approvals(world: World, tmp_path: Path) -> None:
    from certloop.train.nano_data import nano_rows

    nano_rows(tmp_path / "held", 1, 2)
    held = str(tmp_path / "held")
    _, said = loop(
        world, "run", "--once", "--train", "nano", "--held-out", held, "--retained", held, "--work", str(tmp_path / "w")
    )
    assert "acme: weights: 0 of 200 new approved answers: too few, waiting" in said


@pytest.mark.parametrize("words", [("releases",), ("rollback", "--reason", "try")])
def test_a_tenant_that_is_not_there_is_said(world: World, words: tuple[str, ...]) -> None:
    url = world.service.config.database_url
    env = {"CERTLOOP_BLOB_URL": world.service.config.blob_url}
    done = RUNNER.invoke(app, ["loop", *words, "--tenant", "nobody", "--database", url], env=env)
    assert done.exit_code != 0
    assert "no tenant by this name" in str(done.exception)


def test_a_tenant_s_releases_are_shown_with_the_shared_ones(world: World) -> None:
    own, shared = loop(world, "releases", "--tenant", "acme")[0], loop(world, "releases")[0]
    assert json.loads(own)["releases"] == json.loads(shared)["releases"]
    assert json.loads(own)["active"] == "embedded"
