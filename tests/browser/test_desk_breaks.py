"""When things break: a session that ends while somebody types, a server that restarts, going back, double clicks, odd files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import ACME, Live, ended, post, small_page
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=300_000)
SCRIPT = "<img src=x onerror=window.hacked=1>"


@pytest.fixture
def certificates(desk: Live) -> list[str]:
    """Two that wait, in the queue's order (the one that was handed in first need not be read first), and nothing else does."""
    admin = desk.client("admin")
    for row in admin.get("/v1/reviews?limit=200").json()["items"]:
        name = row["certificate_id"]
        admin.post(f"/v1/reviews/{name}/release")
        etag = admin.get(f"/v1/reviews/{name}").headers["etag"]
        admin.post(f"/v1/reviews/{name}/reject", json={"reason": "other"}, headers={"If-Match": etag}).raise_for_status()
    made = [post(admin, small_page(number), doc_type="business_licence").json()["id"] for number in (61, 62)]
    assert [ended(admin, document_id, 900)["status"] for document_id in made] == ["done", "done"]
    queue = [row["certificate_id"] for row in admin.get("/v1/reviews?limit=200").json()["items"]]  # who waits longest comes first
    assert sorted(queue) == sorted(f"{document_id}.0" for document_id in made)
    return queue


def opened(visitor: Any, certificate: str, login: str = "ann") -> Any:
    page = visitor.log_in(login)
    visitor.review()
    page.locator(f"[data-open='{certificate}']").click()
    page.locator(".field.here").wait_for()
    return page


def typing(page: Any, text: str) -> None:
    page.locator(".field[data-field=person]").click()
    page.keyboard.press("e")
    page.locator(".field.editing textarea").wait_for()
    page.keyboard.insert_text(text)


def value(desk: Live, certificate: str) -> Any:
    return desk.client("auditor").get(f"/v1/reviews/{certificate}").json()["fields"]["person"]["value"]


def test_a_session_that_ends_keeps_what_was_typed(desk: Live, visit: Callable[..., Any], certificates: list[str]) -> None:
    visitor = visit(desk)
    page = opened(visitor, certificates[0])
    typing(page, "李二〇")
    cookies = visitor.context.cookies()
    visitor.context.clear_cookies()
    page.keyboard.press("Enter")
    error = page.locator(".field.editing .bad")
    expect(error).to_contain_text("登录已失效")
    expect(page.locator(".field.editing textarea")).to_have_value("李二〇")
    for key in ("a", "n", "q"):  # nothing leads away from it either
        page.locator(".field.editing").focus()
        page.keyboard.press(key)
    expect(page.locator(".field.editing textarea")).to_have_value("李二〇")
    with visitor.context.expect_page() as other:
        error.get_by_role("link").click()
    login = other.value
    for name, text in (("tenant", ACME), ("login", "ann"), ("password", "a long sentence is best")):
        login.fill(f"#{name}", text)
    login.keyboard.press("Enter")
    login.wait_for_url("**/desk/zh/**")
    login.close()
    assert visitor.context.cookies() != cookies  # another session, with another token for writes
    for _ in range(2):  # the first try may still carry the old token
        if page.locator(".field.editing").count():
            page.locator(".field.editing textarea").press("Enter")
            page.wait_for_timeout(1500)
    expect(page.locator(".field[data-field=person] .value")).to_have_text("李二〇")
    assert value(desk, certificates[0]) == "李二〇"
    used = drawn_with(visitor, page)
    assert used == "Noto Sans SC" or "〇" not in used  # by the machine's own font, or by ours: never an empty box


def drawn_with(visitor: Any, page: Any) -> str:
    """The font that Chromium drew 〇 with, by its developer tools."""
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p id=rare style=\"font-family:inherit\">〇</p>')")
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(1500)
    tools = visitor.context.new_cdp_session(page)
    tools.send("DOM.enable")
    tools.send("CSS.enable")
    root = tools.send("DOM.getDocument")["root"]["nodeId"]
    node = tools.send("DOM.querySelector", {"nodeId": root, "selector": "#rare"})["nodeId"]
    fonts = tools.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
    return str(fonts[0]["familyName"])


def test_a_server_that_restarts_costs_nothing_typed(desk: Live, visit: Callable[..., Any], certificates: list[str]) -> None:
    visitor = visit(desk)
    page = opened(visitor, certificates[0])
    typing(page, "王样例")
    desk.stop()
    page.keyboard.press("Enter")
    expect(page.locator(".field.editing .bad")).to_contain_text("连不上服务器")
    desk.start()
    page.locator(".field.editing textarea").press("Enter")
    expect(page.locator(".field[data-field=person] .value")).to_have_text("王样例")
    assert value(desk, certificates[0]) == "王样例"


def test_back_forward_and_reload_do_what_one_expects(desk: Live, visit: Callable[..., Any], certificates: list[str]) -> None:
    visitor = visit(desk)
    page = opened(visitor, certificates[0])
    page.go_back()
    page.locator(f"[data-open='{certificates[1]}']").wait_for()
    held = desk.client("auditor").get(f"/v1/reviews/{certificates[0]}").json()["claimed_by"]
    assert held is None  # what was left goes back into the queue
    page.go_forward()
    page.locator(".field.here").wait_for()
    page.reload()
    page.locator(".field.here").wait_for()
    expect(page.locator("[data-test=approve]")).to_be_visible()
    assert certificates[0] in page.url
    page.goto(f"/desk/zh/#doc_{'0' * 32}.0")
    page.reload()
    expect(page.locator("certloop-review .said")).to_contain_text("没有这份文件")
    assert all(f"doc_{'0' * 32}.0" in url for url in visitor.missing)
    visitor.missing.clear()


def test_a_double_click_decides_once(desk: Live, visit: Callable[..., Any], certificates: list[str]) -> None:
    page = opened(visit(desk), certificates[0])
    page.keyboard.press("a")  # there are fields to look at: it asks
    page.locator("[data-test=approve]").dblclick()
    expect(page.locator("certloop-review .said")).to_contain_text("已通过")
    states = [desk.client("auditor").get(f"/v1/reviews/{name}").json()["state"] for name in certificates]
    assert states == ["approved", "open"]


def test_two_windows_of_one_auditor(desk: Live, visit: Callable[..., Any], certificates: list[str]) -> None:
    visitor = visit(desk)
    page = opened(visitor, certificates[0])
    other = visitor.context.new_page()
    other.goto(f"/desk/zh/#{certificates[0]}")
    other.locator(".field.here").wait_for()
    for _ in range(2):
        other.keyboard.press("a")
    expect(other.locator("certloop-review .said")).to_contain_text("已通过")
    typing(page, "后来的人")
    page.keyboard.press("Enter")
    expect(page.locator("certloop-review .said")).to_have_class("said bad")
    expect(page.locator("[data-test=approve]")).to_have_count(0)
    assert desk.client("auditor").get(f"/v1/reviews/{certificates[0]}").json()["state"] == "approved"


def test_what_was_handed_in_outlives_a_reload_and_a_restart(desk: Live, visit: Callable[..., Any]) -> None:
    page = visit(desk).log_in("olga")
    page.locator("[data-sample]").first.wait_for()
    files = [{"name": f"page-{n}.png", "mimeType": "image/png", "buffer": small_page(n)} for n in (71, 72, 73)]
    page.locator("[data-test=files]").set_input_files(files)
    page.locator("certloop-upload li[data-status=queued], certloop-upload li[data-status=running]").first.wait_for()
    page.reload()
    page.locator("certloop-upload li").first.wait_for()
    desk.stop()
    expect(page.locator("certloop-upload .said")).to_contain_text("连不上服务器")
    desk.start()
    expect(page.locator("certloop-upload li[data-status=done]")).to_have_count(3)
    page.locator("certloop-upload tr[data-field]").first.wait_for()


def test_odd_files_are_said_in_words(desk: Live, visit: Callable[..., Any], tmp_path: Path) -> None:
    """A picture of more pixels than can be read, a PDF of 300 pages, a damaged one whose name is markup and a formula."""
    page = visit(desk).log_in("olga")
    page.locator("[data-sample]").first.wait_for()
    files = [
        {"name": "large.png", "mimeType": "image/png", "buffer": blank_png(16000, 14000)},
        {"name": "long.pdf", "mimeType": "application/pdf", "buffer": blank_pdf(300)},
        {"name": f"{SCRIPT}=HYPERLINK(1).png", "mimeType": "image/png", "buffer": b"\x89PNG nothing"},
    ]
    page.locator("[data-test=files]").set_input_files(files)
    for text in ("像素太多", "页数太多", "无法读取"):
        expect(page.locator("certloop-upload li[data-status=failed]", has_text=text).first).to_be_visible()
    expect(page.locator("certloop-upload .files")).to_contain_text(SCRIPT)
    assert page.evaluate("window.hacked") is None and page.locator("img[src=x]").count() == 0
    assert "Traceback" not in page.content()


def blank_png(width: int, height: int) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("1", (width, height), 1).save(out, "PNG")
    return out.getvalue()


def blank_pdf(pages: int) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    page = Image.new("L", (60, 80), 255)
    page.save(out, "PDF", save_all=True, append_images=[page] * (pages - 1))
    return out.getvalue()


def test_the_queue_goes_on_page_by_page_and_names_people(desk: Live, visit: Callable[..., Any], certificates: list[str]) -> None:
    """With pages of one certificate instead of a hundred; the service is the real one."""
    script = (Path(__file__).resolve().parents[2] / "serve" / "desk" / "static" / "review.js").read_text(encoding="utf-8")
    assert "PAGE = 100;" in script
    ann, bob = visit(desk), visit(desk)
    small = script.replace("PAGE = 100;", "PAGE = 1;")

    def answer(route: Any) -> None:
        route.fulfill(body=small, content_type="text/javascript; charset=utf-8")

    for visitor in (ann, bob):
        visitor.page.route("**/desk/static/review.js", answer)
    page = opened(ann, certificates[0])
    bob.log_in("bob")
    bob.review()
    rows = bob.page.locator("[data-open]")
    expect(rows).to_have_count(1)
    expect(bob.page.locator("certloop-review tbody tr")).to_contain_text("ann")
    bob.page.locator("[data-test=more]").click()
    expect(rows).to_have_count(2)
    expect(bob.page.locator("[data-test=more]")).to_have_count(0)
    bob.page.keyboard.press("n")  # the first is held by ann: the one on the second page opens
    bob.page.locator(".field.here").wait_for()
    assert certificates[1] in bob.page.url
    page.keyboard.press("q")
    page.locator(f"[data-open='{certificates[0]}']").wait_for()
    bob.page.goto(f"/desk/zh/#{certificates[0]}")
    bob.page.locator(".history summary").click()
    expect(bob.page.locator(".history")).to_contain_text("ann · 开始处理")
