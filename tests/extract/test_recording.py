"""``certloop extract --store``: what was read is on record, and a store that refuses one file stops nothing else."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from certloop import CertloopError
from certloop.agentrl import store as stores
from certloop.agentrl.store import Store, StoreBusyError
from certloop.agentrl.trajectory import Consent
from certloop.cli import app
from certloop.extract import batch
from certloop.extract.ingest import Decoder, IngestLimits
from certloop.extract.recording import Recorder, Terms, answer_of, check_signals, subjects_of
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Generation, Result
from certloop.templates import load_types
from certloop.validators import validate

BAD_CODE = "91350100M000100Y44"
DOCUMENT = Document(
    "business_licence",
    0.99,
    {
        "credit_code": FieldResult(
            "统一社会信用代码", BAD_CODE, BAD_CODE, FieldStatus.READ, 0.9, validations=tuple(validate("uscc", BAD_CODE))
        ),
        "name": FieldResult("名称", "示例公司", "示例公司", FieldStatus.READ, 0.97),
        "term": FieldResult("营业期限", None, status=FieldStatus.BLANK),
        "scope": FieldResult("经营范围", None, status=FieldStatus.ABSENT),
        "established_on": FieldResult("成立日期", "2019年3月5日", "2019-03-05", FieldStatus.READ, 0.9),
    },
    title="营业执照",
    type_version="1",
    steps=({"thought": "read the page", "tool": "ocr", "args": {}, "ok": True, "result": {"lines": 4}},),
)
AT = "2026-03-01T08:00:00.000001+00:00"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/store.db"


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small pictures, each read as one licence without an engine."""

    def read_many(sources: list[Path | bytes], *_: Any, **__: Any) -> Iterator[Result]:
        for source in sources:
            yield Result(str(source), FileStatus.OK, (DOCUMENT,))

    monkeypatch.setattr(batch, "read_many", read_many)
    for number, name in enumerate(("a.png", "b.png")):
        Image.new("RGB", (64, 48), (number, 0, 0)).save(tmp_path / name)
    return tmp_path


def extract(*arguments: str | Path, code: int = 0) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["extract", "--format", "jsonl", *map(str, arguments)])
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def refusal(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["extract", *map(str, arguments)])
    assert isinstance(done.exception, CertloopError), done.output
    return done.exception.code


def test_a_document_leaves_pages_steps_answer_and_failed_checks(scans: Path, url: str) -> None:
    first, second = extract(scans / "a.png", scans / "b.png", "--store", url)
    ids = [row["documents"][0]["trajectory_id"] for row in (first, second)]
    assert None not in ids
    assert ids[0] != ids[1]
    with Store.open(url, create=False) as store:
        tenant = store.for_tenant("default")
        stored = tenant.trajectory(ids[0])
        picture = Image.open(io.BytesIO(tenant.get_blob(stored.trajectory.image_sha256[0])))
    assert np.array_equal(np.asarray(picture), np.asarray(Image.open(scans / "a.png"))), "pixel for pixel"
    assert stored.trajectory.path == ("ocr",)
    assert json.loads(stored.trajectory.final_json or "") == {
        "统一社会信用代码": BAD_CODE, "名称": "示例公司", "营业期限": None, "成立日期": "2019年3月5日"
    }  # fmt: skip
    assert (stored.trajectory.type_version, stored.trajectory.policy_version) == ("1", "embedded")
    [signal] = stored.signals
    assert (signal.field, str(signal.reason), signal.value) == ("统一社会信用代码", "hard_fail", -1.0)
    assert BAD_CODE not in (signal.hint or "")
    assert "统一社会信用代码" in (signal.hint or "")


def test_a_failed_check_points_at_the_tokens_in_which_a_model_wrote_its_field() -> None:
    text = json.dumps(answer_of(DOCUMENT), ensure_ascii=False)
    written = Generation(
        "m", "p1", "clean", final_json=text, prompt_ids=(1, 2, 3), token_ids=tuple(map(ord, text)), logprobs=(-0.1,) * len(text),
        token_offsets=tuple((n, n + 1) for n in range(len(text))),
    )  # fmt: skip
    [signal] = check_signals(replace(DOCUMENT, steps=(DOCUMENT.steps[0] | {"at": AT},), generations=(written,)), "t")
    assert signal.span is not None
    start, end = signal.span
    assert "".join(chr(token) for token in ((1, 2, 3, *written.token_ids))[start:end]) == f'"{BAD_CODE}"'
    [signal] = check_signals(DOCUMENT, "t")
    assert signal.span is None, "rules alone write no tokens"


def test_one_reading_is_on_record_once_under_the_id_of_its_episode(scans: Path, url: str) -> None:
    document = replace(DOCUMENT, steps=(DOCUMENT.steps[0] | {"at": AT},))
    result = Result("a.png", FileStatus.OK, (document,))
    assert document.trajectory is not None
    with Store.open(url) as store, Decoder() as decoder:
        terms = Terms("default", Consent.NONE, "", "test")
        recorder = Recorder(store, terms, load_types(), IngestLimits(), decoder)
        first, again = (recorder.record(scans / "a.png", result).documents[0] for _ in range(2))
        assert first.trajectory_id == again.trajectory_id == document.trajectory.traj_id
        [stored] = store.for_tenant("default").trajectories()
        assert stored.trajectory.created_at == AT


def test_nothing_is_used_for_training_unless_somebody_consents(scans: Path, url: str) -> None:
    silent = extract(scans / "a.png", "--store", url)[0]["documents"][0]["trajectory_id"]
    said = ["--tenant", "acme", "--consent", "tenant", "--purpose", "supplier onboarding"]
    consented = extract(scans / "b.png", "--store", url, *said)[0]["documents"][0]["trajectory_id"]
    with Store.open(url, create=False) as store:
        state = store.for_tenant("default").trajectory(silent).state
        assert (state.consent, state.purpose) == (Consent.NONE, "")
        state = store.for_tenant("acme").trajectory(consented).state
        assert (state.consent, state.purpose) == (Consent.TENANT, "supplier onboarding")


def test_a_person_can_be_found_again_for_erasure(scans: Path, url: str) -> None:
    extract(scans / "a.png", "--store", url)
    with Store.open(url, create=False) as store:
        tenant = store.for_tenant("default")
        assert len(stores.find_documents(tenant, subject="示例公司")) == 1
        assert len(stores.find_documents(tenant, subject=BAD_CODE)) == 1
        assert stores.find_documents(tenant, subject="2019年3月5日") == ()


def test_a_store_that_refuses_one_file_stops_nothing_else(scans: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record, calls = stores.record_result, iter([True, False])

    def busy_once(*arguments: Any, **options: Any) -> str:
        if next(calls):
            raise StoreBusyError("another process writes; try again")
        return record(*arguments, **options)

    monkeypatch.setattr(stores, "record_result", busy_once)
    first, second = extract(scans / "a.png", scans / "b.png", "--store", url, code=1)
    assert (first["status"], first["error"]["code"]) == ("partial", "store_busy")
    assert first["documents"][0]["fields"]["name"]["value"] == "示例公司", "what was read is not lost"
    assert first["documents"][0]["trajectory_id"] is None
    assert (second["status"], "error" in second) == ("ok", False)
    assert second["documents"][0]["trajectory_id"]


def test_a_file_that_vanished_after_it_was_read(scans: Path, url: str) -> None:
    missing, present = extract(scans / "gone.png", scans / "a.png", "--store", url, code=1)
    assert (missing["status"], missing["error"]["code"]) == ("partial", "file_not_found")
    assert present["documents"][0]["trajectory_id"]


def test_the_table_says_what_was_not_stored(scans: Path, url: str) -> None:
    done = CliRunner().invoke(app, ["extract", str(scans / "gone.png"), "--store", url])
    assert "file_not_found" in done.stdout


def test_a_wrong_address_or_tenant_stops_the_command(scans: Path, url: str) -> None:
    assert refusal(scans / "a.png", "--store", "oracle://x") == "store_url_invalid"
    assert refusal(scans / "a.png", "--store", url, "--tenant", "No Such Name") == "tenant_invalid"


def test_terms_without_a_store_make_no_sense(scans: Path) -> None:
    assert refusal(scans / "a.png", "--consent", "tenant") == "usage"
    assert refusal(scans / "a.png", "--tenant", "acme") == "usage"


def test_without_a_store_there_is_no_trajectory(scans: Path) -> None:
    assert extract(scans / "a.png")[0]["documents"][0]["trajectory_id"] is None


def test_a_document_of_unknown_type_is_an_answer_too() -> None:
    unknown = Document("unknown", 0.2)
    assert (answer_of(unknown), subjects_of(unknown, load_types())) == ({}, ())


def test_an_approved_unknown_document_does_not_stop_an_export(scans: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_many(sources: list[Path | bytes], *_: Any, **__: Any) -> Iterator[Result]:
        yield from (Result(str(s), FileStatus.OK, (Document("unknown", 0.2),)) for s in sources)

    monkeypatch.setattr(batch, "read_many", read_many)
    extract(scans / "a.png", "--store", url, "--consent", "tenant")
    done = CliRunner().invoke(app, ["trajectories", "export", "--unapproved", "--store", url])
    assert (done.exit_code, done.stdout) == (0, ""), done.output
