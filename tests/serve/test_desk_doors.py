"""The desk's own doors: nothing of it stands beside the matrix without a check here, and strangers reach no page of Gradio."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import gradio
import pytest
from callers import ACME, OTHER, PASSWORD, Callers, Hands
from fastapi.routing import iter_route_contexts
from fontTools.ttLib import TTFont
from PIL import Image
from starlette.requests import Request
from starlette.routing import Mount
from starlette.testclient import TestClient

from certloop.agentrl.store import NotFoundError
from certloop.serve.api.security import Allowed, public
from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.desk import mount, samples
from certloop.serve.desk.context import Desk, Language
from certloop.serve.desk.doors import Guard
from certloop.serve.errors import UnauthenticatedError
from certloop.serve.jobs.start import start_accepting
from certloop.serve.people.roles import Permission, Role

SIGNED_IN = None
ROUTES = {
    "/favicon.ico": public,
    "/desk/font/rare.css": public,
    "/desk/font/rare.otf": public,
    "/desk/people": Permission.REVIEWS_READ,
    "/": public,
    "/login": public,
    "/desk/static/{name}": public,
    "/desk/session": SIGNED_IN,
    "/desk/samples/{name}": Permission.DOCUMENTS_WRITE,
}
MOUNTS = {"/desk/zh", "/desk/en"}
INNER = (
    "",
    "/",
    "/config",
    "/theme.css",
    "/gradio_api/info",
    "/gradio_api/queue/data?session_hash=x",
    "/static/js/x",
    "/assets/x",
)
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    service = Service.open(ServeConfig(f"sqlite:///{tmp_path_factory.mktemp('doors')}/store.db"), clock=Hands())
    start_accepting(service)
    with service, Callers(service) as made:
        bare = {context.path for context in iter_route_contexts(made.app.routes)}
        mount(made.app)
        made.app.state.bare = bare
        made.user("ann", Role.AUDITOR)
        made.user("olga", Role.OPERATOR)
        made.user("zed", Role.AUDITOR, OTHER)
        yield made


def logged_in(callers: Callers, login: str, tenant: str = ACME) -> TestClient:
    client = callers.with_key("")
    body = {"tenant": tenant, "login": login, "password": PASSWORD}
    assert client.post("/v1/login", json=body).status_code == 200
    return client


def test_every_route_of_the_desk_has_its_check(callers: Callers) -> None:
    seen, mounts = {}, set()
    for route in callers.app.routes:
        if isinstance(route, Mount):
            assert isinstance(route.app, Guard), f"{route.path} is open to strangers"
            mounts.add(route.path)
    for context in iter_route_contexts([r for r in callers.app.routes if not isinstance(r, Mount)]):
        if context.path not in callers.app.state.bare:
            calls = [dependency.call for dependency in context.dependant.dependencies]
            checks = [call.permission for call in calls if isinstance(call, Allowed)]
            assert len(checks) + (public in calls) == 1, context.path
            seen[context.path] = public if public in calls else checks[0]
            assert set(context.methods) <= {"GET", "HEAD"}
    assert mounts == MOUNTS
    assert seen == ROUTES


@pytest.mark.parametrize("path", INNER)
def test_strangers_are_sent_to_the_login_and_refused_everything_else(callers: Callers, path: str) -> None:
    stranger = callers.with_key("")
    for place in sorted(MOUNTS):
        page = stranger.get(f"{place}{path}", headers=HTML, follow_redirects=False)
        assert (page.status_code, page.headers["location"].partition("?")[0]) == (303, "/login") or page.status_code == 307
        assert stranger.get(f"{place}{path}").status_code == 401
        assert stranger.post(f"{place}{path}", content=b"x" * 10).status_code == 401


def test_a_stranger_cannot_start_or_upload_anything(callers: Callers) -> None:
    stranger = callers.with_key("")
    for path in ("queue/join", "run/predict", "call/x", "upload"):
        assert stranger.post(f"/desk/zh/gradio_api/{path}", json={"data": [], "fn_index": 0}).status_code == 401
    assert stranger.get("/desk/session").status_code == 401
    assert stranger.get("/desk/samples/licence_2019_scan.jpg").status_code == 401


def test_a_page_of_another_site_starts_nothing(callers: Callers) -> None:
    ann = logged_in(callers, "ann")
    join = "/desk/zh/gradio_api/queue/join"
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert ann.post(join, json={"data": []}, headers=headers).status_code == 401
    assert ann.get("/desk/zh/", headers=HTML).status_code == 200


def test_headers_of_the_pages_fit_gradio_and_nothing_else(callers: Callers) -> None:
    answer = logged_in(callers, "ann").get("/desk/zh/", headers=HTML)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "http" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert "fonts.googleapis" not in answer.text


def test_the_session_names_the_token_for_writes(callers: Callers) -> None:
    ann = logged_in(callers, "ann")
    me = ann.get("/desk/session").json()
    assert (me["tenant"], me["role"], me["samples"]) == (ACME, "auditor", [])
    assert ann.post("/v1/logout").status_code == 403
    assert ann.post("/v1/logout", headers={"X-CSRF-Token": me["csrf_token"]}).status_code == 204
    assert ann.get("/desk/zh/config").status_code == 401
    olga = logged_in(callers, "olga")
    (name, *_) = olga.get("/desk/session").json()["samples"]
    assert olga.get(f"/desk/samples/{name}").status_code == 200
    assert logged_in(callers, "zed", OTHER).get(f"/desk/samples/{name}").status_code == 403


def test_files_of_the_desk_are_those_that_it_names(callers: Callers) -> None:
    stranger = callers.with_key("")
    assert stranger.get("/desk/static/review.js").headers["content-type"].startswith("text/javascript")
    for name in ("doors.py", "nothing.js", "..%2Fdoors.py", "%2e%2e/doors.py"):
        assert stranger.get(f"/desk/static/{name}").status_code in (404, 422)


def test_a_handler_knows_who_sent_its_event(callers: Callers) -> None:
    """By the cookie of the event's own request; a session that ended is nobody."""
    ann = logged_in(callers, "ann")
    desk = Desk(callers.app, callers.service, Language.ZH)
    cookie = ann.cookies["certloop_session"]

    def event(secret: str) -> Any:
        headers = [(b"cookie", f"certloop_session={secret}".encode()), (b"host", b"certloop.test")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": headers,
            "query_string": b"",
            "client": ("203.0.113.9", 1),
        }
        return gradio.Request(Request(scope))

    actor = desk.actor(event(cookie))
    assert (actor.tenant, actor.role) == (ACME, Role.AUDITOR)
    with pytest.raises(UnauthenticatedError):
        desk.actor(event("x" * 43))


def test_histories_name_people_of_ones_own_tenant_only(callers: Callers) -> None:
    assert {"ann", "olga"} <= set(logged_in(callers, "ann").get("/desk/people").json().values())
    assert set(logged_in(callers, "zed", OTHER).get("/desk/people").json().values()).isdisjoint({"ann", "olga"})
    assert logged_in(callers, "olga").get("/desk/people").status_code == 403  # an operator sees no reviews


def test_the_samples_of_a_wheel_are_those_of_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listing = samples.EXAMPLES / "examples.toml"
    assert samples.LISTING.read_text(encoding="utf-8") == listing.read_text(encoding="utf-8")
    kept = samples.content("food_permit_photo.jpg")
    monkeypatch.setattr(samples, "EXAMPLES", tmp_path)
    drawn = samples.content("food_permit_photo.jpg")
    sizes = [Image.open(BytesIO(data)).size for data in (kept, drawn)]
    assert sizes[0] == sizes[1] and drawn[:2] == b"\xff\xd8"
    with pytest.raises(NotFoundError):
        samples.content("../doors.py")


def test_the_face_for_rare_characters_has_them(callers: Callers) -> None:
    stranger = callers.with_key("")
    rule = stranger.get("/desk/font/rare.css").text
    ranges = [[int(end, 16) for end in run.split("-")] for run in re.findall(r"U\+([0-9A-F-]+)", rule)]
    wanted = {code for run in ranges for code in range(run[0], run[-1] + 1)}
    assert {ord(c) for c in "〇喆堃㙓𫖯"} <= wanted and wanted.isdisjoint(map(ord, "营业执照名称"))
    face = TTFont(BytesIO(stranger.get("/desk/font/rare.otf").content))
    assert {ord(c) for c in "〇喆堃㙓"} <= set(face.getBestCmap())
