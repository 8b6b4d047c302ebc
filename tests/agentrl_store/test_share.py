"""A document leaves its tenant only when it may, and only with image and label replaced together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from certloop.agentrl.store import ConsentError, EventError, Store, TenantStore, share_trajectory, verify
from certloop.agentrl.trajectory import Consent, Redaction, Trajectory

Make = Callable[..., Trajectory]


class Faker:
    """A renderer of the toy domain: the page is its label."""

    def rerender(self, image: bytes, answer: Mapping[str, Any], kind: str, seed: int) -> tuple[bytes, Mapping[str, Any]]:
        assert kind == "parts_list"
        assert image == b"page of a person"
        return f"page of fiction {seed}".encode(), dict.fromkeys(answer, f"fiction {seed}")


class Lazy:
    def rerender(self, image: bytes, answer: Mapping[str, Any], kind: str, seed: int) -> tuple[bytes, Mapping[str, Any]]:
        return b"another page", dict(answer)


def put(tenant: TenantStore, trajectory: Trajectory) -> None:
    with tenant.batch("engine") as batch:
        batch.add_trajectory(trajectory)


def test_a_shared_copy_holds_nothing_of_the_original(store: Store, make_trajectory: Make) -> None:
    acme, common = store.for_tenant("acme"), store.for_tenant("common")
    image = acme.put_blob(b"page of a person")
    put(acme, make_trajectory("t-1", image_sha256=(image,), consent=Consent.SHARED))
    copy_id = share_trajectory(acme, "t-1", common, Faker(), seed=7, actor="engineer")
    copy = common.trajectory(copy_id).trajectory
    fiction = json.loads(copy.final_json or "")["owner"]
    assert copy.final_json == f'{{"owner": "{fiction}", "part": "{fiction}"}}'
    assert common.get_blob(copy.image_sha256[0]) == f"page of {fiction}".encode()
    again = share_trajectory(acme, "t-1", store.for_tenant("third"), Faker(), seed=7, actor="engineer")
    assert store.for_tenant("third").trajectory(again).trajectory.final_json == copy.final_json
    assert (copy.redaction, copy.steps, copy.token_ids) == (Redaction.PSEUDONYMISED, (), ())
    assert list(acme.audit_rows())[-2].details == {"trajectory": "t-1", "copy": copy_id, "to": "common"}
    assert "t-1" not in {e.traj_id for e in common.events()}
    assert verify(store).clean


def test_what_may_not_or_cannot_be_shared_is_not(store: Store, make_trajectory: Make) -> None:
    acme, common = store.for_tenant("acme"), store.for_tenant("common")
    image = acme.put_blob(b"page of a person")
    put(acme, make_trajectory("own", image_sha256=(image,), consent=Consent.TENANT))
    put(acme, make_trajectory("blind", consent=Consent.SHARED))
    put(acme, make_trajectory("lazy", image_sha256=(image,), consent=Consent.SHARED))
    with pytest.raises(ConsentError):
        share_trajectory(acme, "own", common, Faker(), seed=7, actor="engineer")
    with pytest.raises(EventError):
        share_trajectory(acme, "blind", common, Faker(), seed=7, actor="engineer")
    with pytest.raises(EventError, match="left the document"):
        share_trajectory(acme, "lazy", common, Lazy(), seed=7, actor="engineer")
    assert not list(common.trajectories())
