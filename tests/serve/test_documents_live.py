"""From a file to its result over HTTP, on a real service with a real reader."""

from __future__ import annotations

from typing import Any

import pytest
from live import Live, ended, post, small_page


@pytest.fixture(scope="module")
def client(live: Live) -> Any:
    return live.client()


def test_a_file_becomes_a_result(client: Any) -> None:
    answer = post(client, small_page(1), "licence one.png")
    assert answer.status_code == 202
    assert answer.headers["Location"] == answer.json()["location"]
    state = ended(client, answer.json()["id"])
    assert (state["status"], state["attempts"], state["file"]) == ("done", 1, "licence one.png")
    result = client.get(f"{answer.headers['Location']}/result").json()
    (document,) = result["documents"]
    assert document["doc_type"] == "business_licence"
    assert document["fields"]["name"]["value"] == "青松样本贸易1有限公司"
    assert document["certificate_id"] == f"{answer.json()['id']}.0"
    assert document["certificate_id"] == state["certificates"][0]["id"]
