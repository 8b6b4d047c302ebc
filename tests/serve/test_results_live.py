"""Results on a real service: every format, audit mode, pages, progress, hostile files, deletion of what was read."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from live import ACME, Live, ended, post, small_page, until
from PIL import Image
from sqlalchemy import select

from certloop.agentrl.store import NotFoundError
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, reviews, uploads

NAME = "青松样本贸易{}有限公司"


@pytest.fixture(scope="module")
def client(live: Live) -> Any:
    return live.client()


@pytest.fixture(scope="module")
def read(client: Any) -> dict[str, Any]:
    """A document that was read, with declared values: one right, one wrong, one that the form does not have."""
    expected = {"name": NAME.format(5), "established_on": "2020-01-01", "credit_code": "91350100M000100Y43"}
    answer = post(client, small_page(5), "five.png", doc_type="business_licence", expected=json.dumps(expected))
    return ended(client, answer.json()["id"])


def test_a_result_is_the_contract_of_the_command_line_with_its_state(client: Any, read: dict[str, Any]) -> None:
    result = client.get(f"/v1/documents/{read['id']}/result").json()
    assert (result["id"], result["file"], result["status"]) == (read["id"], "five.png", "ok")
    (document,) = result["documents"]
    assert next(iter(document["fields"])) in ("name", "credit_code"), "fields stand in the order of the form"
    assert document["fields"]["established_on"]["normalised"] == "2019-03-05"
    assert document["trajectory_id"] == document["certificate_id"] == f"{read['id']}.0"
    assert (document["state"], document["revision"] >= 1) == ("review", True)
    assert "declared_differs" in {reason["reason"] for reason in document["reasons"]}
    one = client.get(f"/v1/certificates/{document['certificate_id']}")
    assert one.json() == document
    assert one.headers["etag"] == f'"{document["revision"]}"'


def test_audit_mode_says_what_matches_differs_and_cannot_be_read(client: Any, read: dict[str, Any]) -> None:
    (document,) = client.get(f"/v1/documents/{read['id']}/result").json()["documents"]
    found = {row["field"]: row for row in document["comparisons"]}
    assert {name: row["match"] for name, row in found.items()} == {
        "name": "match", "established_on": "differs", "credit_code": "not_readable",
    }  # fmt: skip
    assert found["established_on"]["printed"] == "2019年03月05日"
    assert len(found["established_on"]["box"]) == 4
    assert found["credit_code"]["box"] is None
    assert found["credit_code"]["reason"] == "not_on_form"


def test_results_come_as_csv_and_xlsx(client: Any, read: dict[str, Any]) -> None:
    from openpyxl import load_workbook

    place = f"/v1/documents/{read['id']}/result"
    text = client.get(f"{place}?format=csv")
    assert text.content.startswith(b"\xef\xbb\xbf")
    assert f'filename="{read["id"]}.csv"' in text.headers["content-disposition"]
    rows = {row["field"]: row for row in csv.DictReader(io.StringIO(text.content.decode("utf-8-sig")))}
    assert rows["name"]["value"] == NAME.format(5)
    book = load_workbook(io.BytesIO(client.get(f"{place}?format=xlsx").content))
    assert book.sheetnames == ["files", "business_licence"]
    assert NAME.format(5) in [cell.value for cell in book["business_licence"][2]]
    line = json.loads(client.get(f"{place}?format=jsonl").text)
    assert line == client.get(place).json()
    assert client.get(f"{place}?format=pdf").status_code == 422


def test_pages_are_shown_whole_cut_and_small(client: Any, read: dict[str, Any]) -> None:
    place = f"/v1/certificates/{read['id']}.0/pages/0.png"

    def size(query: str = "") -> tuple[int, int]:
        answer = client.get(f"{place}{query}")
        assert answer.headers["content-type"] == "image/png"
        return Image.open(io.BytesIO(answer.content)).size

    assert size() == (420, 150)
    assert size("?crop=10,20,110,70") == (100, 50)
    assert size("?width=210") == (210, 75)
    assert size("?field=name")[1] < 60
    for query, status in (
        ("?crop=500,20,600,70", 422), ("?crop=1,2,3", 422), ("?field=credit_code", 404), ("?field=x&crop=1,2,3,4", 422),
    ):  # fmt: skip
        assert client.get(f"{place}{query}").status_code == status
    assert client.get(f"/v1/certificates/{read['id']}.0/pages/1.png").status_code == 404
    assert client.get(f"/v1/certificates/{read['id']}.7/pages/0.png").status_code == 404


def test_another_tenant_sees_neither_result_nor_page(live: Live, read: dict[str, Any]) -> None:
    foreign = live.client(tenant="other")
    for path in (
        f"/v1/documents/{read['id']}/result", f"/v1/certificates/{read['id']}.0", f"/v1/certificates/{read['id']}.0/pages/0.png",
    ):  # fmt: skip
        assert foreign.get(path).json()["code"] == "not_found"


def test_progress_of_a_batch_comes_as_events_until_the_last_file(client: Any) -> None:
    pages = [("files", (f"{n}.png", small_page(n))) for n in (11, 12)]
    batch = client.post("/v1/batches", files=[*pages, ("files", ("bad.txt", b"no picture"))]).json()
    events = []
    with client.stream("GET", f"{batch['location']}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                events.append(line.removeprefix("event: "))
            elif line.startswith("data: "):
                last = json.loads(line.removeprefix("data: "))
    assert events[-1] == "done"
    assert events.count("done") == 1
    assert (last["status"], last["counts"]["done"], last["counts"]["failed"]) == ("done", 2, 1)
    results = client.get(f"{batch['location']}/results").json()
    assert [row["file"] for row in results] == ["11.png", "12.png", "bad.txt"]
    assert results[2]["error"]["code"] == "format_unsupported"
    rows = list(csv.DictReader(io.StringIO(client.get(f"{batch['location']}/results?format=csv").content.decode("utf-8-sig"))))
    assert {row["file"] for row in rows} == {"11.png", "12.png", "bad.txt"}


def test_a_pdf_of_several_certificates_is_one_document_with_several(client: Any) -> None:
    pages = [Image.open(io.BytesIO(small_page(n, size=(640, 220)))) for n in (21, 22)]
    out = io.BytesIO()
    pages[0].save(out, "PDF", save_all=True, append_images=pages[1:], resolution=72)
    state = ended(client, post(client, out.getvalue(), "two.pdf").json()["id"])
    result = client.get(f"/v1/documents/{state['id']}/result").json()
    assert [document["pages"] for document in result["documents"]] == [[0], [1]]
    assert [document["certificate_id"] for document in result["documents"]] == [f"{state['id']}.0", f"{state['id']}.1"]
    assert client.get(f"/v1/certificates/{state['id']}.1/pages/1.png").status_code == 200
    assert client.get(f"/v1/certificates/{state['id']}.1/pages/0.png").status_code == 404


def _truncated() -> bytes:
    out = io.BytesIO()
    Image.effect_noise((300, 300), 90).save(out, "JPEG")
    return out.getvalue()[:2000]


def _many_pixels() -> bytes:
    out = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"<script>alert(1)</script>", "format_unsupported"),
        (b"PK\x03\x04" + b"\0" * 100, "format_unsupported"),
        (_truncated(), "image_truncated"),
        (_many_pixels(), "image_too_many_pixels"),
        (b"%PDF-1.7\nnothing", "pdf_corrupt"),
    ],
    ids=["text", "archive", "truncated", "pixels", "pdf"],
)
def test_a_hostile_file_fails_alone_with_its_code(client: Any, content: bytes, code: str) -> None:
    state = ended(client, post(client, content, "hostile").json()["id"])
    assert (state["status"], state["error"]["code"], state["attempts"]) == ("failed", code, 1)
    result = client.get(f"/v1/documents/{state['id']}/result").json()
    assert (result["status"], result["error"]["code"], result["documents"]) == ("failed", code, [])


def test_an_empty_file_of_a_batch_fails_alone(client: Any) -> None:
    files = [("files", ("empty.png", b"")), ("files", ("page.png", small_page(61)))]
    batch = client.post("/v1/batches", files=files)
    assert batch.status_code == 202, batch.text
    rows = client.get(f"{batch.headers['location']}/documents").json()["items"]
    empty, page = (ended(client, row["id"]) for row in rows)
    assert (empty["status"], empty["error"]["code"]) == ("failed", "file_empty")
    assert (page["status"], page["error"]) == ("done", None)


def test_deleting_takes_results_pages_trajectories_and_reviews(live: Live, client: Any) -> None:
    document_id = post(client, small_page(31), doc_type="business_licence", expected='{"name": "别的公司"}').json()["id"]
    ended(client, document_id)
    with live.open() as service:
        handle = service.tenant(ACME)
        images = handle.trajectory(f"{document_id}.0").trajectory.image_sha256
        assert all(service.store.blobs.exists(ACME, image) for image in images)
        assert client.delete(f"/v1/documents/{document_id}").status_code == 204
        with pytest.raises(NotFoundError):
            handle.get_blob(images[0])
        assert not any(service.store.blobs.exists(ACME, image) for image in images)
        with reading(service, ACME) as connection:
            for table in (certificates, reviews):
                query = select(table).where(table.c.certificate_id == f"{document_id}.0")
                assert connection.execute(query).all() == []
            row = connection.execute(select(uploads).where(uploads.c.document_id == document_id)).one()
        assert (row.result, row.expected) == (None, None)
    assert client.get(f"/v1/certificates/{document_id}.0").status_code == 404


def test_the_same_file_again_speaks_against_its_first_answer(live: Live, client: Any) -> None:
    page = small_page(41)
    first = post(client, page).json()["id"]
    ended(client, first)
    post(client, page)
    with live.open() as service:
        signals = service.tenant(ACME).trajectory(f"{first}.0").signals
    assert [(str(signal.source), signal.value) for signal in signals if str(signal.source) == "implicit"] == [("implicit", -1.0)]


def test_the_store_is_as_it_was_written_after_all_this(live: Live, client: Any) -> None:
    from certloop.agentrl.store import verify

    until(lambda: not client.get("/v1/documents?status=queued").json()["items"])
    until(lambda: not client.get("/v1/documents?status=running").json()["items"])
    with live.open() as service:
        report = verify(service.store)
    assert report.clean, report.findings
