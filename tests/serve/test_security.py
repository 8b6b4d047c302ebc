"""The door over HTTP: credentials, cookies and other sites, demo mode, rates, bodies, headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from callers import ACME, PASSWORD, Callers, Hands, admin_of
from starlette.testclient import TestClient

from certloop.serve.api.app import create_app
from certloop.serve.api.limits import TokenBuckets
from certloop.serve.api.security import check_demo_bind
from certloop.serve.config import EdgeConfig, IntakeLimits
from certloop.serve.context import Service
from certloop.serve.errors import DemoError, LimitedError
from certloop.serve.people import keys, tenants
from certloop.serve.people.roles import Permission, Role

LOCAL = {"base_url": "http://localhost", "client": ("127.0.0.1", 50000)}


def code(response: Any) -> str:
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["instance"]) == (response.status_code, f"urn:request:{response.headers['x-request-id']}")
    return str(body["code"])


@pytest.fixture
def browser(callers: Callers) -> TestClient:
    """A browser in which an admin has logged in."""
    callers.user("boss", Role.ADMIN)
    client = TestClient(callers.app, base_url="https://certloop.test")
    answer = client.post("/v1/login", json={"tenant": ACME, "login": "boss", "password": PASSWORD})
    assert answer.status_code == 200
    client.headers["X-CSRF-Token"] = answer.json()["csrf_token"]
    return client


def test_a_key_says_who_calls(everybody: Callers) -> None:
    me = everybody.as_("auditor").get("/v1/me").json()
    assert me == {
        "tenant": "acme",
        "actor": everybody.key_ids[everybody.keys["auditor"]],
        "role": "auditor",
        "permissions": ["documents:read", "feedback:write", "outcomes:write", "reviews:decide", "reviews:read"],
    }


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "Bearer ck_" + "a" * 43, "ck_" + "a" * 43])
def test_without_a_valid_key_nobody_gets_in(everybody: Callers, header: str) -> None:
    answer = everybody.as_("anonymous").get("/v1/me", headers={"Authorization": header})
    assert (answer.status_code, code(answer)) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_scope_narrows_a_key(callers: Callers) -> None:
    narrow = callers.with_key(callers.key(ACME, Role.ADMIN, Permission.WEBHOOKS_MANAGE))
    assert narrow.get("/v1/webhooks").status_code == 200
    answer = narrow.get("/v1/keys")
    assert (answer.status_code, code(answer)) == (403, "forbidden")


def test_the_cookie_is_kept_from_scripts_and_other_sites(callers: Callers) -> None:
    callers.user("boss", Role.ADMIN)
    body = {"tenant": ACME, "login": "boss", "password": PASSWORD}
    for scheme, secure in (("https", True), ("http", False)):
        client = TestClient(callers.app, base_url=f"{scheme}://certloop.test")
        cookie = client.post("/v1/login", json=body).headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert ("secure" in cookie) is secure


def test_a_write_by_cookie_needs_its_token(browser: TestClient) -> None:
    body = {"name": "k", "role": "operator"}
    assert browser.get("/v1/keys").status_code == 200
    assert browser.post("/v1/keys", json=body).status_code == 201
    for token in ("", "0" * 64, "é" * 32):
        answer = browser.post("/v1/keys", json=body, headers={"X-CSRF-Token": token.encode()})
        assert (answer.status_code, code(answer)) == (403, "csrf")


@pytest.mark.parametrize(
    "header",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}],
)
def test_a_write_from_another_sites_page_is_refused(browser: TestClient, header: dict[str, str]) -> None:
    answer = browser.post("/v1/keys", json={"name": "k", "role": "operator"}, headers=header)
    assert (answer.status_code, code(answer)) == (403, "csrf")
    same = {"Origin": "https://certloop.test", "Sec-Fetch-Site": "same-origin"}
    assert browser.post("/v1/keys", json={"name": "k", "role": "operator"}, headers=same).status_code == 201


def test_a_logout_ends_the_session_even_for_a_copied_cookie(browser: TestClient, callers: Callers) -> None:
    copied = dict(browser.cookies)
    assert browser.post("/v1/logout").status_code == 204
    thief = TestClient(callers.app, base_url="https://certloop.test", cookies=copied)
    assert thief.get("/v1/me").status_code == 401


def test_guessing_passwords_is_slowed_down(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    callers.user("boss", Role.ADMIN)
    client = callers.as_("anonymous")
    body = {"tenant": ACME, "login": "boss", "password": "wrong and long enough"}
    assert [client.post("/v1/login", json=body).status_code for _ in range(6)] == [401] * 5 + [429]
    answer = client.post("/v1/login", json=body | {"password": PASSWORD})
    assert (answer.status_code, code(answer)) == (429, "locked_out")
    assert int(answer.headers["retry-after"]) >= 1


def test_guessing_logins_from_one_address_is_slowed_down(everybody: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certloop.serve.people.passwords._scrypt", lambda *_: bytes(31))
    client = everybody.with_key("")
    body = {"tenant": ACME, "password": PASSWORD}
    statuses = [client.post("/v1/login", json=body | {"login": f"user-{n}"}).status_code for n in range(30)]
    assert statuses[:20] == [401] * 20
    assert statuses[-1] == 429


class TestDemo:
    @pytest.fixture
    def app(self, open_service: Callable[..., Service]) -> Any:
        return create_app(open_service(demo=True))

    def test_it_lets_this_machine_in(self, app: Any) -> None:
        me = TestClient(app, **LOCAL).get("/v1/me").json()
        assert (me["tenant"], "admin" in me["permissions"]) == ("demo", False)

    @pytest.mark.parametrize(
        "header",
        [
            {"Host": "evil.example"},  # a name that was made to lead to 127.0.0.1
            {"Host": "localhost.evil.example"},
            {"Host": "[::1"},
            {"X-Forwarded-For": "198.51.100.4"},
            {"Forwarded": "for=198.51.100.4"},
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
        ],
    )
    def test_it_refuses_other_sites_and_proxies(self, app: Any, header: dict[str, str]) -> None:
        for method in ("GET", "POST"):
            answer = TestClient(app, **LOCAL).request(method, "/v1/webhooks", headers=header, json={})
            assert answer.status_code in (403, 422)
            assert code(answer) in ("forbidden", "csrf", "request_invalid")

    def test_it_refuses_other_machines(self, app: Any) -> None:
        answer = TestClient(app, base_url="http://localhost", client=("198.51.100.4", 1)).get("/v1/me")
        assert (answer.status_code, code(answer)) == (403, "forbidden")

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "certloop.example", ""])
    def test_it_is_bound_to_loopback(self, host: str) -> None:
        with pytest.raises(DemoError):
            check_demo_bind(host)
        for fine in ("127.0.0.1", "::1", "localhost"):
            check_demo_bind(fine)


def test_without_demo_mode_nobody_gets_in_from_this_machine(callers: Callers) -> None:
    assert TestClient(callers.app, **LOCAL).get("/v1/me").status_code == 401


def test_only_named_hosts_are_answered(open_service: Callable[..., Service]) -> None:
    app = create_app(open_service(edge=EdgeConfig(hosts=("certloop.example",))))
    assert TestClient(app, base_url="https://certloop.example").get("/v1/me").status_code == 401
    answer = TestClient(app, base_url="https://evil.example").get("/v1/me")
    assert (answer.status_code, code(answer)) == (422, "request_invalid")
    assert TestClient(app, base_url="http://10.0.0.7:8000").get("/healthz").status_code == 200  # probes ask by address


def test_a_bucket_gives_what_flows_in() -> None:
    now = 0.0
    buckets = TokenBuckets(clock=lambda: now)
    for _ in range(4):
        buckets.take("a", rate=2, burst=4)
    with pytest.raises(LimitedError) as refused:
        buckets.take("a", rate=2, burst=4)
    assert refused.value.retry_after_s == 0.5
    assert refused.value.headers == {"Retry-After": "1"}
    buckets.take("b", rate=2, burst=4)
    now = 0.5
    buckets.take("a", rate=2, burst=4)
    now = 60.0
    for _ in range(4):  # a pause fills the bucket to its brim and no further
        buckets.take("a", rate=2, burst=4)
    with pytest.raises(LimitedError):
        buckets.take("a", rate=2, burst=4)


def test_a_tenant_has_its_rate(callers: Callers) -> None:
    tenants.change_settings(callers.service, admin_of(ACME), ACME, {"rate_per_s": 0.001, "burst": 3})
    client = callers.as_("operator")
    assert [client.get("/v1/me").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert int(client.get("/v1/me").headers["retry-after"]) > 900
    assert callers.as_("auditor").get("/v1/me").status_code == 200  # each key has its own bucket
    assert callers.as_("foreign").get("/v1/me").status_code == 200


def test_guessing_keys_is_slowed_down(callers: Callers) -> None:
    callers.app.state.door.buckets = TokenBuckets(clock=lambda: 0.0)  # however long these requests take
    client = callers.with_key("ck_" + "a" * 43)
    statuses = [client.get("/v1/me").status_code for _ in range(60)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    assert callers.as_("operator").get("/v1/me").status_code == 200


class Body:
    """Sends a request over bare ASGI and counts what is read of its body."""

    def __init__(self, app: Any, path: str, headers: dict[str, str], chunk: bytes = b"x" * 65536) -> None:
        self.app, self.chunk, self.read, self.sent = app, chunk, 0, []  # type: ignore[var-annotated]
        self.scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "headers": [(k.lower().encode(), v.encode()) for k, v in {"host": "certloop.test", **headers}.items()],
            "client": ("203.0.113.7", 1), "server": ("certloop.test", 80),
        }  # fmt: skip

    async def receive(self) -> dict[str, Any]:
        self.read += len(self.chunk)
        return {"type": "http.request", "body": self.chunk, "more_body": True}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def status(self) -> int:
        asyncio.run(self.app(self.scope, self.receive, self.send))
        return int(self.sent[0]["status"])


MULTIPART = "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("path", "kind", "length"),
    [("/v1/keys", "application/json", 2 << 20), ("/v1/documents", MULTIPART, 70 << 20), ("/v1/documents", "text/plain", 2 << 20)],
)
def test_an_announced_body_over_the_limit_is_not_read(everybody: Callers, path: str, kind: str, length: int) -> None:
    key = everybody.keys["admin"]
    body = Body(everybody.app, path, {"authorization": f"Bearer {key}", "content-type": kind, "content-length": str(length)})
    assert (body.status(), body.read) == (413, 0)


@pytest.mark.parametrize(("path", "kind"), [("/v1/keys", "application/json"), ("/v1/documents", "application/json")])
def test_a_body_without_a_length_is_read_to_the_limit_and_no_further(everybody: Callers, path: str, kind: str) -> None:
    headers = {"authorization": f"Bearer {everybody.keys['admin']}", "content-type": kind, "transfer-encoding": "chunked"}
    body = Body(everybody.app, path, headers)
    assert body.status() == 413
    assert body.read <= (1 << 20) + 65536  # the limit, and the piece that went over it


@pytest.mark.parametrize("key", ["", "ck_" + "a" * 43])
@pytest.mark.parametrize("headers", [{"content-length": str(10 << 20)}, {"transfer-encoding": "chunked"}])
def test_a_strangers_file_is_not_read(everybody: Callers, key: str, headers: dict[str, str]) -> None:
    given = {"content-type": MULTIPART, **headers} | ({"authorization": f"Bearer {key}"} if key else {})
    body = Body(everybody.app, "/v1/documents", given)
    assert (body.status(), body.read) == (401, 0)


def test_limits_are_those_of_the_configuration(open_service: Callable[..., Service]) -> None:
    service = open_service(intake=IntakeLimits(json_bytes=100))
    tenants.create(service, admin_of(ACME), ACME)
    _, secret = keys.create(service, admin_of(ACME), "k", Role.ADMIN)
    client = TestClient(create_app(service), headers={"Authorization": f"Bearer {secret}"})
    assert client.post("/v1/keys", json={"name": "k" * 90, "role": "operator"}).status_code == 413


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"1" * 5000,
        b'{"name": NaN, "role": "operator"}',
        b'{"name": "\xff", "role": "operator"}',
        b'{"name": "\\ud800", "role": "operator"}',
        b'{"name": "a\\u0000b", "role": "operator"}',
        b'{"name": "k", "role": "operator", "lifetime_days": 1e400}',
        b'{"name": "k", "role": "operator", "name2": 1}',
        b'{"name": "' + b"k" * 500_000 + b'", "role": "operator"}',
        b"\x00",
        b"",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_monstrous_json_is_the_callers_mistake(everybody: Callers, text: bytes) -> None:
    answer = everybody.as_("admin").post("/v1/keys", content=text, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert code(answer) == "request_invalid"


def test_every_answer_tells_browsers_what_not_to_do(everybody: Callers) -> None:
    for path in ("/healthz", "/v1/me", "/v1/nothing", "/nothing", "/openapi.json"):
        headers = everybody.as_("operator").get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (
            "object-src 'none'" in headers["content-security-policy"]
            or "default-src 'none'" in headers["content-security-policy"]
        )
        assert "strict-transport-security" not in headers
    assert everybody.as_("operator").get("/v1/me").headers["cache-control"] == "no-store"
    secure = TestClient(everybody.app, base_url="https://certloop.test").get("/healthz")
    assert secure.headers["strict-transport-security"] == "max-age=31536000"


def test_a_request_id_is_the_callers_if_it_is_harmless(everybody: Callers) -> None:
    client = everybody.as_("operator")
    assert client.get("/healthz", headers={"X-Request-Id": "abc-12345"}).headers["x-request-id"] == "abc-12345"
    for given in ("short", 'a"b{"level":1}', "x" * 65, "张三张三张三张三"):
        assert client.get("/healthz", headers={"X-Request-Id": given.encode()}).headers["x-request-id"] != given


def test_when_a_key_was_last_used_is_written_down(callers: Callers, hands: Hands) -> None:
    client, door = callers.as_("operator"), callers.app.state.door
    client.get("/v1/me")
    hands.move(minutes=5, seconds=30)
    client.get("/v1/me")
    door.flush(callers.service)
    used = {key["role"]: key["last_used_at"] for key in callers.as_("admin").get("/v1/keys").json()["items"]}
    assert used["operator"] == "2026-03-01T08:05:00.000000+00:00"
    assert used["auditor"] is None


def test_a_new_key_is_shown_once(callers: Callers) -> None:
    admin = callers.as_("admin")
    made = admin.post("/v1/keys", json={"name": "=cmd|' /C calc'!A0 <script>", "role": "operator", "lifetime_days": 1}).json()
    assert callers.with_key(made["key"]).get("/v1/me").status_code == 200
    assert made["expires_at"] == "2026-03-02T08:00:00.000000+00:00"
    assert made["key"] not in admin.get("/v1/keys").text
    assert made["key"] not in admin.get(f"/v1/keys/{made['key_id']}").text
    turned = admin.post(f"/v1/keys/{made['key_id']}/rotate", json={"overlap_hours": 0}).json()
    assert callers.with_key(made["key"]).get("/v1/me").status_code == 401
    assert admin.delete(f"/v1/keys/{turned['key_id']}").json()["revoked_at"] is not None
    assert callers.with_key(turned["key"]).get("/v1/me").status_code == 401


def test_cursors_are_bound_to_their_tenant_and_list(callers: Callers) -> None:
    first = callers.as_("admin").get("/v1/audit", params={"limit": 1}).json()
    assert first["next_cursor"]
    second = callers.as_("admin").get("/v1/audit", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert second["items"][0]["position"] == first["items"][0]["position"] - 1
    for cursor in (first["next_cursor"], "AAAA", "W10", first["next_cursor"][:-4]):
        answer = callers.as_("foreign").get("/v1/audit", params={"cursor": cursor})
        assert (answer.status_code, code(answer)) == (422, "cursor_invalid")
