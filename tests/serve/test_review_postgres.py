"""Review on Postgres: row level security, transactions and JSON columns are others there than on SQLite."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from postgres_place import Postgres
from sqlalchemy import select

from certloop.agentrl.signals import fuse
from certloop.agentrl.store.exporters import approved_answer
from certloop.serve.db.access import reading
from certloop.serve.db.schema import history, reviews
from tests.serve.audit_world import PNG, less_sure, licence, open_world

pytestmark = pytest.mark.slow


def test_a_review_from_reading_to_undo(postgres: Postgres, tmp_path: Path) -> None:
    with open_world(tmp_path, url=postgres.url(), blob_url=str(tmp_path / "blobs")) as world:
        world.settings(review={"double_check": 1.0})
        certificate = world.certificate(less_sure(licence(), "address", 0.3))
        with world.as_("ann") as ann, world.as_("bob") as bob, world.as_("stranger") as stranger, world.as_("eve") as eve:
            rows = ann.get("/v1/reviews", params={"reason": "field_unsure", "claimed": "nobody"}).json()["items"]
            assert [row["certificate_id"] for row in rows] == [certificate]
            assert stranger.get("/v1/reviews").json()["items"] == []
            edited = ann.patch(
                f"/v1/reviews/{certificate}", json={"fields": {"address": "北京市朝阳区样例路7号"}}, headers={"If-Match": '"2"'}
            )
            assert edited.status_code == 200, edited.text
            assert bob.post(f"/v1/reviews/{certificate}/claim").status_code == 409
            assert ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"3"'}).status_code == 200
            assert ann.post(f"/v1/reviews/{certificate}/undo").status_code == 200
            assert ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"5"'}).status_code == 200
            world.clock.pass_s(61)
            (second,) = bob.get("/v1/reviews").json()["items"]
            done = bob.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": f'"{second["revision"]}"'})
            assert second["second_look"] and done.status_code == 200, done.text
            (row,) = eve.get("/v1/auditors").json()["items"]
            assert (row["agreed"], row["checked"]) == (6, 7)
            assert eve.get("/v1/calibration").json()["reviewed"]["fields"] == 7
            world.clock.pass_s(10)
            told = ann.post(
                "/v1/outcomes", json={"trajectory_id": certificate, "kind": "complaint", "good": False, "outcome_id": "o"}
            )
            assert told.status_code == 201
        stored = world.service.tenant("acme").trajectory(certificate)
        assert json.loads(approved_answer(stored.trajectory, stored.signals) or "")["住所"] == "北京市朝阳区样例路7号"
        assert 0.9 < (fuse(stored.signals).trajectory.value or 0.0) < 1.0
        with reading(world.service, "other") as connection:
            assert connection.execute(select(reviews)).all() == [] == connection.execute(select(history)).all()


def test_of_many_at_once_one_holds_and_one_decides(postgres: Postgres, tmp_path: Path) -> None:
    with open_world(tmp_path, url=postgres.url(), blob_url=str(tmp_path / "blobs")) as world:
        content = PNG + b"again"
        certificate = world.certificate(less_sure(licence(), "address", 0.3), content=content)
        world.clock.pass_s(60)
        world.hand_in(content=content)
        codes: list[int] = []
        start = threading.Barrier(6)

        def approve(name: str) -> None:
            with world.as_(name) as client:
                start.wait()
                codes.append(client.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"2"'}).status_code)

        threads = [threading.Thread(target=approve, args=(name,)) for name in ("ann", "bob") * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes) == [200, 409, 409, 409, 409, 409]
        said = world.signals(certificate)
        assert sum(s.reason == "reupload" for s in said) == 1
        assert sum(s.reason == "approval" and s.field is None for s in said) == 1


def test_many_decisions_at_once_do_not_wait_for_each_others_connections(postgres: Postgres, tmp_path: Path) -> None:
    """A transaction that asked for a second connection while others queue behind it would starve with the pool."""
    with open_world(tmp_path, url=postgres.url(), blob_url=str(tmp_path / "blobs")) as world:
        waiting = [world.certificate(less_sure(licence(), "address", 0.3)) for _ in range(24)]
        codes: list[int] = []
        start = threading.Barrier(len(waiting))

        def approve(certificate: str) -> None:
            with world.as_("ann") as client:
                start.wait()
                codes.append(client.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"2"'}).status_code)

        threads = [threading.Thread(target=approve, args=(certificate,)) for certificate in waiting]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == [200] * len(waiting)
