"""Actor x route x tenant: who may call what, for every route there is. A route without a row fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acme_world import Ids, World
from audit_world import PNG
from callers import ACME, PASSWORD, Callers, Hands, admin_of
from fastapi.routing import iter_route_contexts

from certloop.serve.api.security import Allowed, public
from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.jobs.start import start_accepting
from certloop.serve.people import keys, users
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import GRANTS, Permission, Role
from certloop.serve.webhooks import endpoints

P = Permission
PUBLIC, SIGNED_IN = "public", "signed in"


class Bad:
    """Keys that let nobody in."""

    def __init__(self, world: World, clock: Hands) -> None:
        make, service = world.callers.key, world.service
        user_id = world.user()["user_id"]
        self.keys = {
            "expired": make(ACME, Role.ADMIN, days=1),
            "revoked": make(ACME, Role.ADMIN),
            "disabled": make(ACME, Role.ADMIN, user=user_id),
            "unknown": "ck_" + "a" * 43,
        }
        keys.revoke(service, admin_of(ACME), world.callers.key_ids[self.keys["revoked"]])
        users.change(service, admin_of(ACME), user_id, disabled=True)
        clock.move(days=2)


def nothing(_: World) -> Ids:
    return {}


@dataclass(frozen=True)
class Row:
    """``may`` is the permission that the route asks for; ``make`` makes what its path names; ``send`` is the rest of the request.

    ``fine``: what a permitted caller is answered. ``foreign``: what another tenant's admin is answered (404 where the path names
    something of acme).
    """

    may: Permission | str
    make: Callable[[World], Ids] = nothing
    send: Mapping[str, Any] = field(default_factory=dict)
    fine: int = 200
    foreign: int | None = None
    needs: str = ""


FILE = {"files": {"file": ("b.png", PNG, "image/png")}}
FILES = {"files": {"files": ("b.png", PNG, "image/png")}}
ROWS: Mapping[str, Row] = {
    "POST /v1/documents": Row(P.DOCUMENTS_WRITE, send=FILE, fine=202),
    "GET /v1/documents": Row(P.DOCUMENTS_READ, World.document),
    "GET /v1/documents/{document_id}": Row(P.DOCUMENTS_READ, World.document),
    "DELETE /v1/documents/{document_id}": Row(P.DOCUMENTS_DELETE, World.document, fine=204),
    "POST /v1/documents/{document_id}/cancel": Row(P.DOCUMENTS_WRITE, World.document),
    "GET /v1/documents/{document_id}/result": Row(P.DOCUMENTS_READ, World.certificate),
    "POST /v1/batches": Row(P.DOCUMENTS_WRITE, send=FILES, fine=202),
    "GET /v1/batches": Row(P.DOCUMENTS_READ, World.batch),
    "GET /v1/batches/{batch_id}": Row(P.DOCUMENTS_READ, World.batch),
    "DELETE /v1/batches/{batch_id}": Row(P.DOCUMENTS_DELETE, World.batch, fine=204),
    "GET /v1/batches/{batch_id}/documents": Row(P.DOCUMENTS_READ, World.batch),
    "POST /v1/batches/{batch_id}/cancel": Row(P.DOCUMENTS_WRITE, World.batch),
    "GET /v1/batches/{batch_id}/events": Row(P.DOCUMENTS_READ, World.batch),
    "GET /v1/batches/{batch_id}/results": Row(P.DOCUMENTS_READ, World.batch),
    "GET /v1/certificates/{certificate_id}": Row(P.DOCUMENTS_READ, World.certificate),
    "GET /v1/certificates/{certificate_id}/pages/{page}.png": Row(P.DOCUMENTS_READ, World.certificate),
    "GET /v1/jobs/dead": Row(P.JOBS_MANAGE, World.dead),
    "POST /v1/jobs/dead/{document_id}/retry": Row(P.JOBS_MANAGE, World.dead, fine=202),
    "GET /v1/reviews": Row(P.REVIEWS_READ, World.certificate),
    "GET /v1/reviews/summary": Row(P.REVIEWS_READ),
    "GET /v1/reviews/{certificate_id}": Row(P.REVIEWS_READ, World.certificate),
    "PATCH /v1/reviews/{certificate_id}": Row(
        P.REVIEWS_DECIDE, World.certificate, send={"json": {"fields": {"name": "样例乙"}}}, needs="etag"
    ),
    "POST /v1/reviews/{certificate_id}/claim": Row(P.REVIEWS_DECIDE, World.certificate),
    "POST /v1/reviews/{certificate_id}/release": Row(P.REVIEWS_DECIDE, World.certificate),
    "POST /v1/reviews/{certificate_id}/approve": Row(P.REVIEWS_DECIDE, World.certificate, needs="etag"),
    "POST /v1/reviews/{certificate_id}/reject": Row(
        P.REVIEWS_DECIDE, World.certificate, send={"json": {"reason": "not_legible"}}, needs="etag"
    ),
    "POST /v1/reviews/{certificate_id}/undo": Row(P.REVIEWS_DECIDE, World.decided),
    "GET /v1/auditors": Row(P.LEARNING_READ),
    "POST /v1/conversations/{trajectory_id}/messages": Row(
        P.FEEDBACK_WRITE, World.certificate, send={"json": {"message": "谢谢，搞定了"}}, fine=201
    ),
    "GET /v1/outcomes": Row(P.LEARNING_READ),
    "POST /v1/outcomes": Row(P.OUTCOMES_WRITE, World.certificate, fine=201, foreign=404),
    "GET /v1/memory": Row(P.LEARNING_READ, World.rule),
    "POST /v1/memory/{rule_id}/remove": Row(P.RELEASES_MANAGE, World.rule, send={"json": {"reason": "a prank"}}),
    "GET /v1/releases": Row(P.LEARNING_READ, World.trial),
    "POST /v1/releases/rollback": Row(P.RELEASES_MANAGE, World.trial, send={"json": {"reason": "worse"}}, foreign=409),
    "GET /v1/calibration": Row(P.LEARNING_READ),
    "GET /v1/calibration/versions": Row(P.LEARNING_READ),
    "POST /v1/calibration/versions": Row(P.RELEASES_MANAGE, fine=422, foreign=422),
    "POST /v1/calibration/versions/{version}/activate": Row(P.RELEASES_MANAGE, lambda _: {"version": "builtin"}, foreign=200),
    "GET /v1/tenant": Row(P.ADMIN),
    "PATCH /v1/tenant": Row(P.ADMIN, send={"json": {"settings": {"purpose": "onboarding"}}}),
    "GET /v1/keys": Row(P.ADMIN, World.key),
    "POST /v1/keys": Row(P.ADMIN, send={"json": {"name": "k", "role": "operator"}}, fine=201),
    "GET /v1/keys/{key_id}": Row(P.ADMIN, World.key),
    "DELETE /v1/keys/{key_id}": Row(P.ADMIN, World.key),
    "POST /v1/keys/{key_id}/rotate": Row(P.ADMIN, World.key, send={"json": {}}, fine=201),
    "GET /v1/users": Row(P.ADMIN, World.user),
    "POST /v1/users": Row(P.ADMIN, send={"json": {"login": "new-{n}", "role": "operator"}}, fine=201),
    "GET /v1/users/{user_id}": Row(P.ADMIN, World.user),
    "PATCH /v1/users/{user_id}": Row(P.ADMIN, World.user, send={"json": {"disabled": True}}),
    "GET /v1/audit": Row(P.ADMIN, World.key),
    "POST /v1/login": Row(PUBLIC, send={"json": {"tenant": ACME, "login": "boss", "password": PASSWORD}}),
    "POST /v1/logout": Row(SIGNED_IN, fine=204),
    "GET /v1/me": Row(SIGNED_IN),
    "POST /v1/webhooks": Row(
        P.WEBHOOKS_MANAGE, send={"json": {"url": "https://erp.example.com/in", "events": ["batch.done"]}}, fine=201
    ),
    "GET /v1/webhooks": Row(P.WEBHOOKS_MANAGE, World.webhook),
    "GET /v1/webhooks/{webhook_id}": Row(P.WEBHOOKS_MANAGE, World.webhook),
    "PATCH /v1/webhooks/{webhook_id}": Row(P.WEBHOOKS_MANAGE, World.webhook, send={"json": {"disabled": True}}),
    "DELETE /v1/webhooks/{webhook_id}": Row(P.WEBHOOKS_MANAGE, World.webhook, fine=204),
    "POST /v1/webhooks/{webhook_id}/secret": Row(P.WEBHOOKS_MANAGE, World.webhook, fine=201),
    "GET /v1/webhooks/{webhook_id}/deliveries": Row(P.WEBHOOKS_MANAGE, World.delivery),
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": Row(P.WEBHOOKS_MANAGE, World.delivery, fine=202),
    "GET /healthz": Row(PUBLIC),
    "GET /readyz": Row(PUBLIC, fine=503),  # nobody reads here
    "GET /metrics": Row(P.JOBS_MANAGE, World.certificate),
    "POST /v1/reload": Row(P.RELEASES_MANAGE, fine=202),
    "GET /openapi.json": Row(PUBLIC),
    "GET /docs": Row(PUBLIC),
}
DUMMY: Ids = {
    "document_id": "doc_" + "0" * 32, "batch_id": "bat_" + "0" * 32, "certificate_id": f"doc_{'0' * 32}.0",
    "trajectory_id": f"doc_{'0' * 32}.0", "page": "0", "version": "builtin", "key_id": "key_" + "0" * 32,
    "rule_id": "0" * 32, "user_id": "usr_" + "0" * 32, "webhook_id": "whk_" + "0" * 32, "delivery_id": "dlv_" + "0" * 32,
}  # fmt: skip


CLOCK = Hands()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    service = Service.open(ServeConfig(*place(tmp_path_factory.mktemp("matrix"))), clock=CLOCK)
    start_accepting(service)
    with service, Callers(service) as callers:
        callers.user("boss", Role.AUDITOR)
        yield World(callers)


@pytest.fixture(scope="module")
def bad(world: World) -> Bad:
    return Bad(world, CLOCK)


def routes(app: Any) -> dict[str, Any]:
    """Every method of every route of the application, mounted ones too: nothing may stand beside the table."""
    found = {}
    for route in iter_route_contexts(app.routes):
        assert route.methods, f"{route.path}: a route without methods (a mount, a websocket) needs a check of its own here"
        for method in set(route.methods) - {"HEAD"}:
            found[f"{method} {route.path}"] = route
    return found


def request(world: World, name: str, who: str, ids: Ids, *, key: str | None = None) -> Any:
    method, _, path = name.partition(" ")
    row = ROWS[name]
    sent = dict(row.send)
    if name == "POST /v1/outcomes":
        sent["json"] = {"trajectory_id": ids["trajectory_id"], "kind": "supplier_accepted", "good": True}
    if name == "POST /v1/users":
        sent["json"] = {**sent["json"], "login": f"new-{world.number()}"}
    if "etag" in row.needs:
        sent["headers"] = {"If-Match": ids.get("etag", '"1"')}
    client = world.callers.as_(who) if key is None else world.callers.with_key(key)
    answer = client.request(method, path.format(**{**DUMMY, **ids}), **sent)
    client.cookies.clear()
    return answer


def test_every_route_has_a_row_and_every_row_a_route(world: World) -> None:
    assert set(routes(world.callers.app)) == set(ROWS)


def test_every_route_asks_for_exactly_the_permission_of_its_row(world: World) -> None:
    for name, route in routes(world.callers.app).items():
        if name == "GET /openapi.json":
            continue
        calls = [dependency.call for dependency in route.dependant.dependencies]
        checks = [call for call in calls if isinstance(call, Allowed)]
        if ROWS[name].may == PUBLIC:
            assert (checks, public in calls) == ([], True), name
        else:
            assert len(checks) == 1, name
            assert public not in calls, name
            assert (checks[0].permission or SIGNED_IN) == ROWS[name].may, name


@pytest.mark.parametrize("name", ROWS)
def test_matrix(world: World, bad: Bad, name: str) -> None:
    row = ROWS[name]
    strangers = {who: request(world, name, who, DUMMY, key=key).status_code for who, key in bad.keys.items()}
    strangers["anonymous"] = request(world, name, "anonymous", DUMMY).status_code
    if row.may == PUBLIC:
        assert set(strangers.values()) == {row.fine}
    else:
        assert set(strangers.values()) == {401}, strangers

    for role in Role:
        if row.may in (PUBLIC, SIGNED_IN) or row.may in GRANTS[role]:
            answer = request(world, name, role.value, row.make(world))
            assert answer.status_code == row.fine, f"{role}: {answer.status_code} {answer.text[:300]}"
        else:
            answer = request(world, name, role.value, DUMMY)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), f"{role}: {answer.status_code}"

    if isinstance(row.may, Permission):
        scoped = world.callers.key(ACME, Role.ADMIN, row.may)
        answer = request(world, name, "", row.make(world), key=scoped)
        assert answer.status_code == (409 if name.endswith("/undo") else row.fine), answer.text  # only who decided takes it back
        others = [permission for permission in Permission if permission is not row.may]
        narrowed = world.callers.key(ACME, Role.ADMIN, *others)
        assert request(world, name, "", DUMMY, key=narrowed).status_code == 403

    ids = row.make(world)
    answer = request(world, name, "foreign", ids)
    expected = row.foreign or (404 if "{" in name else row.fine)
    assert answer.status_code == expected, f"another tenant: {answer.status_code} {answer.text[:300]}"
    if answer.status_code != 404:
        assert not [one for one in world.made if len(one) > 10 and one in answer.text], "another tenant's ids"


def test_functions_check_for_themselves_too(world: World) -> None:
    """The desk calls them without a route."""
    from certloop.serve.errors import ForbiddenError

    nobody = Actor(ACME, "key_0", Role.OPERATOR, frozenset())
    service = world.service
    for act in (
        lambda: keys.every(service, nobody),
        lambda: users.every(service, nobody),
        lambda: endpoints.every(service, nobody),
        lambda: keys.create(service, nobody, "k", Role.ADMIN),
    ):
        with pytest.raises(ForbiddenError):
            act()
