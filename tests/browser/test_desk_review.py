"""Auditing at the desk, in a real browser with real logins: by keyboard, two auditors at once, strangers, scripts in values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live, ended, post, small_page
from playwright.sync_api import expect

from certloop.agentrl.signals import fuse

pytestmark = pytest.mark.slow
expect.set_options(timeout=120_000)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT = "<img src=x onerror=window.hacked=1>"


def read(desk: Live, content: bytes, **fields: Any) -> str:
    """Hand a file in and wait until it is read; its certificate waits for a person."""
    client = desk.client("operator")
    document_id: str = post(client, content, **fields).json()["id"]
    assert ended(client, document_id, 900)["status"] == "done"
    return f"{document_id}.0"


def close_all(desk: Live) -> None:
    """Whatever waits from another test is rejected."""
    auditor = desk.client("admin")
    for row in auditor.get("/v1/reviews?limit=200").json()["items"]:
        name = row["certificate_id"]
        auditor.post(f"/v1/reviews/{name}/release")
        etag = auditor.get(f"/v1/reviews/{name}").headers["etag"]
        auditor.post(f"/v1/reviews/{name}/reject", json={"reason": "other"}, headers={"If-Match": etag}).raise_for_status()


@pytest.fixture(autouse=True)
def empty_queue(desk: Live) -> None:
    close_all(desk)


def press(page: Any, *keys: str) -> int:
    for key in keys:
        page.keyboard.press(key)
    return len(keys)


def test_a_clean_document_takes_two_keys(desk: Live, visit: Callable[..., Any]) -> None:
    certificate = read(desk, (EXAMPLES / "licence_2019_scan.jpg").read_bytes())
    fields = desk.client("auditor").get(f"/v1/reviews/{certificate}").json()["fields"]
    assert sum(field["value"] is not None for field in fields.values()) >= 10
    visitor = visit(desk)
    page = visitor.log_in("ann")
    visitor.review()
    page.locator("[data-test=start]").wait_for()
    count = press(page, "n")
    page.locator(".field.here").wait_for()
    count += press(page, "a")
    expect(page.locator("certloop-review .said")).to_contain_text("已通过")
    assert count == 2
    assert desk.client("auditor").get(f"/v1/reviews/{certificate}").json()["state"] == "approved"


def test_correct_and_approve_by_keyboard_alone(desk: Live, visit: Callable[..., Any]) -> None:
    certificate = read(desk, small_page(11), doc_type="business_licence", consent="tenant", purpose="training")
    visitor = visit(desk)
    page = visitor.log_in("ann")
    visitor.review()
    page.locator("[data-test=start]").wait_for()
    press(page, "n")
    page.locator(".field.here").wait_for()
    for _ in range(40):
        if page.locator(".field.here").get_attribute("data-field") == "name":
            break
        press(page, "j")
    press(page, "e")
    page.locator(".field.editing textarea").wait_for()
    page.keyboard.insert_text(f"青松{SCRIPT}有限公司")
    press(page, "Enter")
    name = page.locator(".field[data-field=name] .value")
    expect(name).to_have_text(f"青松{SCRIPT}有限公司")
    press(page, "c")
    page.locator("dialog [data-test=comment]").wait_for()
    page.keyboard.insert_text("你应该先查二维码")
    press(page, "Enter")
    page.locator("dialog").wait_for(state="detached")
    expect(page.locator("certloop-review .said")).to_contain_text("已保存")
    page.locator(".history summary").click()
    expect(page.locator(".history")).to_contain_text("你应该先查二维码")
    page.locator(".field.here").focus()
    press(page, "a", "a")
    expect(page.locator("certloop-review .said")).to_contain_text("已通过")
    assert page.evaluate("window.hacked") is None and page.locator("img[src=x]").count() == 0
    with desk.open() as service:
        folded = fuse(service.tenant("acme").trajectory(certificate).signals)
    assert folded.fields["名称"].value == -1.0
    assert "你应该先查二维码" in {hint.hint for hint in folded.hints}


def test_reject_and_take_back(desk: Live, visit: Callable[..., Any]) -> None:
    certificate = read(desk, small_page(12), doc_type="business_licence")
    visitor = visit(desk)
    page = visitor.log_in("ann")
    visitor.review()
    page.locator(f"[data-open='{certificate}']").click()
    page.locator(".field.here").wait_for()
    press(page, "r")
    page.locator("dialog").wait_for()
    press(page, "6", "Enter")
    expect(page.locator("certloop-review .said")).to_contain_text("已退回")
    auditor = desk.client("auditor")
    assert auditor.get(f"/v1/reviews/{certificate}").json()["state"] == "rejected"
    press(page, "u")
    expect(page.locator("certloop-review .said")).to_contain_text("已撤销")
    assert auditor.get(f"/v1/reviews/{certificate}").json()["state"] == "open"


def test_two_auditors_on_one_document(desk: Live, visit: Callable[..., Any]) -> None:
    certificate = read(desk, small_page(13), doc_type="business_licence")
    ann, bob = visit(desk), visit(desk)
    for visitor, login in ((ann, "ann"), (bob, "bob")):
        visitor.log_in(login)
        visitor.review()
        visitor.page.locator(f"[data-open='{certificate}']").wait_for()
    ann.page.locator(f"[data-open='{certificate}']").click()
    ann.page.locator(".field.here").wait_for()
    bob.page.locator(f"[data-open='{certificate}']").click()
    expect(bob.page.locator("certloop-review .said")).to_contain_text("另一位审核员正在处理")
    expect(bob.page.locator("[data-test=approve]")).to_have_count(0)

    changed = ann.page.evaluate(  # the same auditor in another window
        """async (id) => {
            const me = await (await fetch('/desk/session')).json();
            const etag = (await fetch(`/v1/reviews/${id}`)).headers.get('etag');
            const headers = { 'Content-Type': 'application/json', 'X-CSRF-Token': me.csrf_token, 'If-Match': etag };
            const body = '{"fields":{"person":"李样本"}}';
            return (await fetch(`/v1/reviews/${id}`, { method: 'PATCH', headers, body })).status;
        }""",
        certificate,
    )
    assert changed == 200
    press(ann.page, "a", "a")
    expect(ann.page.locator("certloop-review .said")).to_contain_text("刚被别人改过")
    expect(ann.page.locator(".field[data-field=person] .value")).to_have_text("李样本")
    assert desk.client("auditor").get(f"/v1/reviews/{certificate}").json()["state"] == "open"


def test_a_stranger_sees_nothing_of_it(desk: Live, visit: Callable[..., Any]) -> None:
    certificate = read(desk, small_page(14), doc_type="business_licence")
    visitor = visit(desk)
    page = visitor.log_in("zed", "other")
    visitor.review()
    expect(page.locator("certloop-review .empty")).to_be_visible()
    paths = [
        f"/v1/reviews/{certificate}",
        f"/v1/certificates/{certificate}/pages/0.png",
        f"/v1/documents/{certificate[:-2]}/result",
    ]
    assert page.evaluate("(paths) => Promise.all(paths.map(async (path) => (await fetch(path)).status))", paths) == [404] * 3
    visitor.missing.clear()
    page.get_by_role("button", name="退出").click()
    page.wait_for_url("**/login*")
    page.goto("/desk/zh/")
    page.wait_for_url("**/login*")


def test_the_screen_fits_a_phone(desk: Live, visit: Callable[..., Any]) -> None:
    certificate = read(desk, (EXAMPLES / "licence_2015_vertical.jpg").read_bytes())
    visitor = visit(desk, 390, 844)
    page = visitor.log_in("bob")
    visitor.review()
    page.locator(f"[data-open='{certificate}']").click()
    page.locator(".field .crop").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
