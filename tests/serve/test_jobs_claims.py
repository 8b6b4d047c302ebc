"""The fence: whoever claims last settles, and nobody else; what was cancelled or deleted is settled by nobody."""

from __future__ import annotations

import pytest
from callers import ACME, Callers
from live import post, small_page
from sqlalchemy import select

from certloop.serve.context import Service
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.errors import ReaderCrashedError
from certloop.serve.work.claims import claim, settle
from certloop.serve.work.readers import PagesRead
from certloop.serve.work.record import give_up, record
from certloop.serve.work.states import Status


@pytest.fixture(scope="module")
def read() -> PagesRead:
    """One real reading."""
    from certloop.extract import ExtractConfig
    from certloop.serve.work.readers import open_page_reader

    with open_page_reader(ExtractConfig()) as reader:
        found = reader.read(small_page(1))
    assert isinstance(found, PagesRead)
    return found


def accepted(callers: Callers) -> str:
    return str(post(callers.as_("operator"), small_page(1)).json()["id"])


def end(service: Service, mine: object, read: PagesRead) -> bool:
    document_id = mine.document_id  # type: ignore[attr-defined]
    return record(service, mine, read, service.loop.steering(ACME, document_id))  # type: ignore[arg-type]


def test_only_the_last_claim_settles(callers: Callers, read: PagesRead) -> None:
    service, document_id = callers.service, accepted(callers)
    first = claim(service, ACME, document_id)
    second = claim(service, ACME, document_id)
    assert first is not None
    assert second is not None
    assert (first.attempt, second.attempt) == (1, 2)
    assert not end(service, first, read)
    assert end(service, second, read)
    assert not end(service, second, read), "and only once"
    assert claim(service, ACME, document_id) is None
    with reading(service, ACME) as connection:
        assert connection.execute(select(certificates.c.certificate_id)).scalars().all() == [f"{document_id}.0"]
        assert connection.execute(select(uploads.c.attempts)).scalars().all() == [2]


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_a_result_that_comes_after_the_end_is_dropped(callers: Callers, read: PagesRead, how: str) -> None:
    service, document_id = callers.service, accepted(callers)
    mine = claim(service, ACME, document_id)
    assert mine is not None
    operator = callers.as_("operator")
    (operator.post(f"/v1/documents/{document_id}/cancel") if how == "cancel" else operator.delete(f"/v1/documents/{document_id}"))
    assert not end(service, mine, read)
    with reading(service, ACME) as connection:
        assert connection.execute(select(certificates)).all() == []
        assert connection.execute(select(uploads.c.result)).scalars().all() == [None]


def test_tries_that_vanish_are_told_from_those_that_failed(callers: Callers) -> None:
    service, document_id = callers.service, accepted(callers)
    for vanished in range(3):  # killed with the whole service: nobody said why
        mine = claim(service, ACME, document_id)
        assert mine is not None
        assert (mine.vanished, mine.failures) == (vanished, 0)
    assert give_up(service, mine, ReaderCrashedError("it ended"))
    engineer = callers.as_("engineer")
    assert engineer.post(f"/v1/jobs/dead/{document_id}/retry").status_code == 202
    again = claim(service, ACME, document_id)
    assert again is not None
    assert (again.attempt, again.vanished, again.failures) == (4, 0, 0), "a person began anew"


def test_settling_is_bound_to_the_tenant(callers: Callers) -> None:
    service, document_id = callers.service, accepted(callers)
    mine = claim(service, ACME, document_id)
    assert mine is not None
    from dataclasses import replace

    with writing(service, "other") as connection:
        assert not settle(connection, replace(mine, tenant="other"), {"status": Status.DONE})


def test_a_file_of_several_types_is_compared_with_what_each_type_has(callers: Callers, read: PagesRead) -> None:
    """Declared for a licence and a permit together: the licence answers for its own fields only."""
    service = callers.service
    answer = post(
        callers.as_("operator"), small_page(1), expected='{"name": "青松样本贸易1有限公司", "permit_no": "JY13502030012345"}'
    )
    mine = claim(service, ACME, answer.json()["id"])
    assert mine is not None
    assert end(service, mine, read)
    (document,) = callers.as_("operator").get(f"{answer.headers['location']}/result").json()["documents"]
    assert [(row["field"], row["match"]) for row in document["comparisons"]] == [("name", "match")]
    for wrong in ('{"colour": "red"}', '{"name": ""}'):
        refused = post(callers.as_("operator"), small_page(1), expected=wrong)
        assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid")
