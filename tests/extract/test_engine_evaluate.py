"""``certloop evaluate`` and ``certloop extract`` with an engine that is a model, set up by the environment alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from certloop.cli import app
from certloop.extract.engine.prompt import answer_text
from certloop.train.nano.vocabulary import TYPES
from certloop.train.teach.local_server import Body, ChatServer, Reply
from certloop.train.teach.pages import LabelledPage, nano_labelled, write_labels

RUN = CliRunner()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledPage]:
    folder = tmp_path_factory.mktemp("pages")
    drawn = nano_labelled(folder, 51, 4)
    write_labels(folder / "labels.jsonl", drawn)
    return drawn


@pytest.fixture
def server(pages: list[LabelledPage], monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Answers in the order of the files: three right answers, then one cut short."""
    turn = iter(range(10**6))

    def reply(body: Body) -> Reply:
        n = next(turn) % len(pages)
        text = answer_text(pages[n].fields, "看。")
        return Reply(text[:-20] if n == len(pages) - 1 else text)

    with ChatServer(reply) as running:
        monkeypatch.setenv("CERTLOOP_ENGINE", "openai")
        monkeypatch.setenv("CERTLOOP_MODEL", "nano-teacher")
        monkeypatch.setenv("CERTLOOP_MODEL_URL", running.url)
        monkeypatch.setenv("CERTLOOP_TEMPLATE_PATH", str(TYPES))
        yield running


def test_a_model_is_evaluated_like_the_reader(pages: list[LabelledPage], server: ChatServer, tmp_path: Path) -> None:
    folder = pages[0].image.parent
    report = tmp_path / "report.json"
    done = RUN.invoke(app, ["evaluate", str(folder), "--type", "nano_licence", "--json", str(report), "--seed", "7"])
    assert done.exit_code == 0, done.output
    data = json.loads(report.read_text(encoding="utf-8"))
    assert data["answers"]["valid"] == {"ok": 3, "n": 4, "rate": 0.75, "wilson_95": data["answers"]["valid"]["wilson_95"]}
    assert data["answers"]["marks"] == {"cut": 1}
    fields = data["by_field"]
    assert fields["统一社会信用代码"]["strict"]["rate"] == 1.0
    assert fields["住所"]["strict"]["ok"] == fields["住所"]["strict"]["n"] - 1, "the last field of the cut answer"
    assert data["bootstrap_95"]["seed"] == 7
    assert "answers: valid JSON 3/4" in done.stdout


def test_two_readings_are_compared_page_by_page(pages: list[LabelledPage], server: ChatServer, tmp_path: Path) -> None:
    folder = pages[0].image.parent
    read = RUN.invoke(app, ["extract", str(folder), "--type", "nano_licence", "--output", str(tmp_path / "model.jsonl")])
    assert read.exit_code == 1, "the cut answer makes its file partial"
    lines = [json.loads(line) for line in (tmp_path / "model.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["status"] for line in lines] == ["ok", "ok", "ok", "partial"]
    assert {line["documents"][0]["release"] for line in lines} == {"openai:nano-teacher"}
    for line in lines:
        line["documents"][0]["fields"]["name"]["value"] = "别家公司"
    (tmp_path / "worse.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ["--results", str(tmp_path / "model.jsonl"), "--against", str(tmp_path / "worse.jsonl")]
    done = RUN.invoke(app, ["evaluate", str(folder), *options])
    assert done.exit_code == 0, done.output
    assert "gain over worse.jsonl, paired" in done.stdout
