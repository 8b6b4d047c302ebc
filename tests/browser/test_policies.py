"""No page of the service breaks its own security policy, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from live import Live

pytestmark = pytest.mark.slow

WATCH = "document.addEventListener('securitypolicyviolation', (e) => console.error('POLICY', e.violatedDirective, e.blockedURI))"


def watched(visitor: Any) -> list[str]:
    """What the browser complains about from now on."""
    said: list[str] = []
    visitor.context.add_init_script(WATCH)
    visitor.page.on(
        "console",
        lambda line: said.append(line.text) if "POLICY" in line.text or "Content Security Policy" in line.text else None,
    )
    return said


def test_the_description_of_the_api(demo: Live, visit: Callable[..., Any]) -> None:
    visitor = visit(demo)
    said = watched(visitor)
    visitor.page.goto("/docs")
    assert visitor.page.locator("h3").count() > 50
    font = visitor.page.locator("pre").first.evaluate("one => getComputedStyle(one).fontSize")
    assert (said, font) == ([], "14px"), "its own style is in force"


def test_the_watch_sees_a_violation(demo: Live, visit: Callable[..., Any]) -> None:
    """A check that cannot fail proves nothing."""
    visitor = visit(demo)
    said = watched(visitor)
    visitor.page.goto("/docs")
    visitor.page.evaluate(
        "document.body.append(Object.assign(document.createElement('img'), {src: 'data:image/gif;base64,R0lGODlhAQABAAAAACw='}))"
    )
    visitor.page.wait_for_function("() => true")
    for _ in range(100):
        if said:
            break
        visitor.page.wait_for_timeout(50)
    assert said


def test_every_tab_of_the_desk(demo: Live, visit: Callable[..., Any]) -> None:
    visitor = visit(demo)
    said = watched(visitor)
    visitor.page.goto("/")
    visitor.page.wait_for_url("**/desk/zh/")
    visitor.page.get_by_role("tab").first.wait_for()
    for tab in visitor.page.get_by_role("tab").all():
        tab.click()
        visitor.page.wait_for_load_state("networkidle")
    assert said == []


def test_the_login(desk: Live, visit: Callable[..., Any]) -> None:
    visitor = visit(desk)
    said = watched(visitor)
    visitor.log_in("ann")
    visitor.review()
    assert said == []
