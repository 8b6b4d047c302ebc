"""Readable and usable for everybody: contrast computed from what the browser drew (WCAG 2.2 AA), and a focus that is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live, ended, post, small_page
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=300_000)
LOOK = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8").split("\n() =>", 1)[1]
LEAST_WORDS = 8
FOCUSED = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  if (!at || at === document.body) return null;
  let drawn = null;
  for (let node = at; node && !drawn; node = node.parentElement) {
    const style = getComputedStyle(node);
    if (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2) drawn = style.outlineColor;
    else if (/rgb.* 0px 0px [1-9]/.test(style.boxShadow)) drawn = style.boxShadow;
  }
  const box = at.getBoundingClientRect();
  const words = (at.textContent || at.getAttribute('aria-label') || '').trim().slice(0, 30);
  const name = `${at.tagName}#${at.id}.${at.className} ${words}`;
  return { name, drawn, height: box.height, seen: at.matches(':focus-visible') };
}"""


@pytest.fixture(scope="module")
def certificate(desk: Live) -> str:
    client = desk.client("operator")
    document_id: str = post(client, small_page(51), doc_type="business_licence").json()["id"]
    assert ended(client, document_id, 900)["status"] == "done"
    return f"{document_id}.0"


def readable(page: Any, where: str) -> None:
    expect(page.locator(".progress-text:visible")).to_have_count(0)  # Gradio's clock of something under way fades in and out
    page.wait_for_timeout(300)  # transitions of colours end
    seen = page.evaluate("() =>" + LOOK)
    assert seen["count"] >= LEAST_WORDS and seen["found"] == [], f"{where}: {seen['found']}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(desk: Live, visit: Callable[..., Any], certificate: str, scheme: str) -> None:
    visitor = visit(desk, scheme=scheme)
    page = visitor.page
    page.goto("/login")
    page.locator("#title").wait_for()
    seen = page.evaluate("() =>" + LOOK)
    assert seen["found"] == []
    visitor.log_in("ada")
    page.locator("[data-sample]").first.wait_for()
    readable(page, "upload, empty")
    if scheme == "light":  # the same elements in both schemes; reading takes its time
        page.locator("[data-test=files]").set_input_files(
            [{"name": "page.png", "mimeType": "image/png", "buffer": small_page(52)}]
        )
        page.locator("certloop-upload tr[data-field]").first.wait_for()
        readable(page, "upload, result")
    visitor.review()
    page.locator("[data-test=start]").wait_for()
    readable(page, "queue")
    page.locator(f"[data-open='{certificate}']").click()
    page.locator(".field.here").wait_for()
    readable(page, "review")
    page.keyboard.press("e")
    readable(page, "review, correcting")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.keyboard.press("1")
    readable(page, "review, rejecting")
    page.keyboard.press("Escape")
    page.keyboard.press("q")
    page.locator("[data-test=start]").wait_for()
    page.get_by_role("tab", name="学习", exact=True).click()
    expect(page.locator("[data-test=cards]")).to_be_visible()
    page.locator("#learning-overview summary, #learning-overview h2").first.wait_for()
    readable(page, "learning")
    page.get_by_role("tab", name="数据引擎", exact=True).click()
    expect(page.locator("#synth-preview")).to_be_visible()
    readable(page, "data engine")


@pytest.mark.parametrize("tab", ["上传识别", "人工审核", "学习", "数据引擎"])
def test_the_focus_is_seen_wherever_tab_leads(desk: Live, visit: Callable[..., Any], certificate: str, tab: str) -> None:
    page = visit(desk).log_in("ada")
    page.locator("[data-sample]").first.wait_for()
    page.get_by_role("tab", name=tab, exact=True).click()
    if tab == "学习":
        expect(page.locator("[data-test=cards]")).to_be_visible()
    if tab == "人工审核":
        page.locator("[data-test=start]").wait_for()
    places: dict[str, str | None] = {}
    for _ in range(40):
        page.keyboard.press("Tab")
        if at := page.evaluate(FOCUSED):
            places[at["name"]] = at["drawn"] if at["seen"] else "by pointer"
    assert len(places) >= 5
    assert [name for name, drawn in places.items() if drawn is None] == []
