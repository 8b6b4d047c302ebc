"""A real service with its desk, and Chromium in front of it. Nothing here is a mock: pages, cookies, files and rows are real."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "serve"))  # live.py starts the service for more rooms than one

from live import ACME, Live  # noqa: E402

PASSWORD = "a long sentence is best"
PATIENCE_MS = 600_000
"""How long a step may take on a busy machine; no test asserts on time."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Ended with each file: while Playwright runs, the thread counts as inside an event loop, and other tests start their own."""
    from playwright.sync_api import sync_playwright

    place = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert place, "no Chromium here: `make slow` installs it (scripts/need_chromium.sh)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Visitor:
    """A page, with what went wrong in it: errors of scripts, what was not there, requests to anywhere but the service."""

    def __init__(self, browser: Any, base: str, width: int, height: int, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, base_url=base, accept_downloads=True, color_scheme=scheme
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.base, self.errors, self.elsewhere, self.missing = base, [], [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", lambda answer: answer.status == 404 and self.missing.append(answer.url))
        self.page.on("request", lambda request: self._look(request.url))

    def _look(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:")):
            self.elsewhere.append(url)

    def log_in(self, login: str, tenant: str = ACME) -> Any:
        self.page.goto("/")
        self.page.wait_for_url("**/login*")
        for name, value in (("tenant", tenant), ("login", login), ("password", PASSWORD)):
            self.page.fill(f"#{name}", value)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url("**/desk/zh/")
        return self.page

    def review(self) -> Any:
        self.page.get_by_role("tab", name="人工审核").click()
        self.page.locator("certloop-review .head h2").first.wait_for()
        return self.page


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Visitor]]:
    made: list[Visitor] = []

    def make(live: Live, width: int = 1280, height: int = 860, scheme: str = "light") -> Visitor:
        made.append(Visitor(chromium, live.base, width, height, scheme))
        return made[-1]

    yield make
    for visitor in made:
        visitor.context.close()
        assert visitor.errors == [] and visitor.elsewhere == [] and visitor.missing == []


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with Live(tmp_path_factory.mktemp("demo"), desk=True, demo=True) as live:
        yield live


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Tenants acme and other with users; every certificate of acme is drawn for review, so that clean ones come there, too."""
    from certloop.serve.people import tenants, users
    from certloop.serve.people.actor import Actor
    from certloop.serve.people.roles import Role

    live = Live(tmp_path_factory.mktemp("desk"), desk=True)
    for tenant in (ACME, "other"):
        live.key(tenant=tenant)
    with live.open() as service:
        admin = Actor.of(ACME, "cli:uid-0", Role.ADMIN)
        tenants.change_settings(service, admin, ACME, {"review": {"sampling": 1.0, "double_check": 0.0}})
        roles = (("ann", Role.AUDITOR), ("bob", Role.AUDITOR), ("olga", Role.OPERATOR), ("ada", Role.ADMIN))
        for login, role in roles:
            users.create(service, admin, login, role, PASSWORD)
        users.create(service, Actor.of("other", "cli:uid-0", Role.ADMIN), "zed", Role.AUDITOR, PASSWORD)
    with live:
        yield live
