"""A model server that answers 500, cuts its answer or hangs: the document waits for it, and is given up only in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live import Live, ended, post, small_page

from certloop.train.teach.local_server import Body, ChatServer, Reply

pytestmark = pytest.mark.slow

ANSWER = '{"名称": "青松样本贸易1有限公司", "法定代表人": "张样本", "成立日期": "2019年03月05日"}'
JOBS = {"attempts": 2, "timeout_s": 60.0, "lease_s": 5.0, "drain_s": 5.0}


class Moody:
    """Behaves badly so many times, then well."""

    def __init__(self, bad: dict[str, Any], times: int) -> None:
        self.bad, self.left = bad, times

    def __call__(self, body: Body) -> Reply:
        if self.left > 0:
            self.left -= 1
            return Reply(**self.bad)
        return Reply(ANSWER)


def service(folder: Path, server: ChatServer) -> Live:
    model = {"model": "m", "url": server.url, "timeout_s": 2.0, "retries": 0, "constraint": "none"}
    return Live(folder, jobs=JOBS, model=model)


@pytest.mark.parametrize(
    "bad", [{"status": 500}, {"text": ANSWER, "cut_after": 4}, {"text": ANSWER, "hang_s": 6.0}], ids=["500", "cut", "hang"]
)
def test_a_model_server_that_comes_back_costs_a_try(tmp_path: Path, bad: dict[str, Any]) -> None:
    with ChatServer(Moody(bad, 1)) as server, service(tmp_path, server) as live:
        client = live.client()
        document_id = post(client, small_page(1), doc_type="business_licence").json()["id"]
        state = ended(client, document_id)
        assert (state["status"], state["attempts"]) == ("done", 2)
        (document,) = client.get(f"/v1/documents/{document_id}/result").json()["documents"]
        assert document["fields"]["name"]["value"] == "青松样本贸易1有限公司"


def test_a_model_server_that_stays_away_leaves_a_dead_letter_that_can_be_tried_again(tmp_path: Path) -> None:
    mood = Moody({"status": 500}, 1_000_000)
    with ChatServer(mood) as server, service(tmp_path, server) as live:
        client = live.client()
        document_id = post(client, small_page(1), doc_type="business_licence").json()["id"]
        state = ended(client, document_id)
        assert (state["status"], state["error"]["code"], state["attempts"]) == ("dead", "model_response", 2)
        mood.left = 0
        client.post(f"/v1/jobs/dead/{document_id}/retry")
        assert ended(client, document_id)["status"] == "done"
