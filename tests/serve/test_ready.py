"""Ready or not: what documents are read with is looked at too, and while it is damaged they wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from callers import ACME, Callers, Hands
from sqlalchemy import insert, text

from certloop.agentrl.release import Release
from certloop.serve.confidence.versions import builtin
from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.db.access import writing
from certloop.serve.db.schema import executors
from certloop.serve.errors import ReaderStoppedError
from certloop.serve.work.reading import Work


def hold_lease(service: Service) -> None:
    with writing(service, None) as connection:
        row = {"executor_id": "elsewhere", "started_at": service.now(), "lease_until": "9999-01-01T00:00:00.000000+00:00"}
        connection.execute(insert(executors), [row])


def guided(service: Service, tmp_path: Path) -> str:
    """A release with a file of rules, adopted for everybody of tenant acme; returns the file's hash."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "memory.json").write_text("[]")
    registry = service.loop.registry
    digest = registry.artefacts.add(folder)
    registry.register(Release("r2", "ocr", artefacts={"guidance": digest}))
    registry.adopt("r2", actor="eng", reason="a test", scope=ACME)
    return digest


def not_ready(callers: Callers, hands: Hands) -> list[dict[str, Any]]:
    hands.move(seconds=16)
    errors: list[dict[str, Any]] = callers.as_("anonymous").get("/readyz").json().get("errors", [])
    return errors


def test_a_release_whose_files_were_changed_is_told(callers: Callers, hands: Hands, tmp_path: Path) -> None:
    service = callers.service
    hold_lease(service)
    digest = guided(service, tmp_path)
    assert not_ready(callers, hands) == []
    file = service.config.artefacts / digest / "memory.json"
    file.write_text("[1]")
    assert not_ready(callers, hands) == [{"loc": ["releases"], "message": "registry_damaged"}]
    file.write_text("[]")
    assert not_ready(callers, hands) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE release_pointers SET body = replace(body, 'embedded', 'other')",
        "UPDATE release_pointers SET body = '{'",
        "DELETE FROM release_pointers",
        "UPDATE release_log SET details = '{'",
        "UPDATE release_log SET actor = 'somebody'",
        "UPDATE release_records SET body = replace(body, 'ocr', 'ocr2')",
        "DELETE FROM release_records",
    ],
)
def test_a_registry_that_was_changed_by_hand_is_told(callers: Callers, hands: Hands, damage: str) -> None:
    hold_lease(callers.service)
    assert not_ready(callers, hands) == []
    with writing(callers.service, None) as connection:
        for table in ("release_log", "release_records"):
            for verb in ("update", "delete"):
                connection.execute(text(f"DROP TRIGGER {table}_no_{verb}"))
        connection.execute(text(damage))
    assert not_ready(callers, hands) == [{"loc": ["releases"], "message": "registry_damaged"}]


def test_a_service_with_a_damaged_registry_starts_all_the_same(service: Service) -> None:
    assert service.loop.registry.pointer().active == "embedded"
    with writing(service, None) as connection:
        connection.execute(text("DROP TRIGGER release_log_no_update"))
        connection.execute(text("UPDATE release_log SET details = '{'"))
    config = service.config
    service.close()
    with Service.open(config) as again, Callers(again) as callers:
        hold_lease(again)
        assert callers.as_("anonymous").get("/readyz").json()["errors"] == [{"loc": ["releases"], "message": "registry_damaged"}]
        assert callers.as_("operator").get("/v1/documents").status_code == 200


def test_a_document_waits_while_its_release_is_damaged(callers: Callers, tmp_path: Path) -> None:
    """It is nobody's try: however often it is taken up, it is read once the files are there again."""
    service = callers.service
    digest = guided(service, tmp_path)
    file = service.config.artefacts / digest / "memory.json"
    file.unlink()
    document_id = callers.as_("operator").post("/v1/documents", files={"file": ("a.png", b"a")}).json()["id"]

    class Free:
        """A reader that is free at once, and reads nothing."""

        def read(self, _id: str, _content: bytes, _type: str | None, _s: float, begin: Any, steer: Any) -> None:
            assert begin()
            steer()
            raise ReaderStoppedError("it got as far as reading")

    work = Work(service, Free())  # type: ignore[arg-type]
    for _ in range(20):
        work.run(ACME, document_id)
        state = callers.as_("operator").get(f"/v1/documents/{document_id}").json()
        assert (state["status"], state["error"]["code"]) == ("queued", "artefact_invalid")
    file.write_text("[]")
    assert service.loop.steering(ACME, document_id).release_id == "r2"


def test_the_calibration_of_everybody_is_looked_at(callers: Callers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hold_lease(callers.service)
    (tmp_path / "default.json").write_text("{}")
    monkeypatch.setattr("certloop.serve.confidence.versions.resources.files", lambda _package: tmp_path)
    builtin.cache_clear()
    try:
        wrong = callers.as_("anonymous").get("/readyz").json()["errors"]
    finally:
        builtin.cache_clear()
    assert wrong == [{"loc": ["confidence"], "message": "calibration_invalid"}]


def test_two_services_in_one_folder_keep_their_files_apart(tmp_path: Path) -> None:
    first, second, usual = (ServeConfig(f"sqlite:///{tmp_path}/{name}.db").artefacts for name in ("a", "b", "store"))
    assert (first.name, second.name, usual.name) == ("a.db.artefacts", "b.db.artefacts", "artefacts")
