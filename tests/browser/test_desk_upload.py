"""Uploading at the desk, in a real browser on the demo: clean, turned and broken files, boxes, downloads, languages, phones."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=120_000)
PATIENCE_MS = 600_000
"""A busy machine reads slowly; nothing here asserts on time."""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLEAN, TURNED = EXAMPLES / "licence_2019_scan.jpg", EXAMPLES / "individual_photo_rotated.jpg"


def hand_in(page: Any, *files: Path) -> None:
    page.locator("[data-sample]").first.wait_for()
    page.locator("[data-test=files]").set_input_files([str(file) for file in files])


def test_clean_turned_and_broken_files(demo: Live, visit: Callable[..., Any], tmp_path: Path) -> None:
    page = visit(demo).page
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(CLEAN.read_bytes()[:900])
    page.goto("/")
    hand_in(page, CLEAN, TURNED, broken)
    expect(page.locator("li[data-status=done]")).to_have_count(2, timeout=PATIENCE_MS)
    failed = page.locator("li[data-status=failed]")
    expect(failed).to_have_count(1)
    expect(failed).to_contain_text("无法读取")
    assert "Traceback" not in page.content()

    page.locator("li", has_text="licence_2019").get_by_role("button").click()
    row = page.locator("certloop-upload tr[data-field=credit_code]")
    expect(row).to_contain_text("校验通过")
    row.hover()
    expect(page.locator("polygon.lit")).to_have_attribute("data-field", "credit_code")
    page.locator("polygon[data-field=name]").hover()
    expect(page.locator("certloop-upload tr.lit")).to_have_attribute("data-field", "name")
    expect(page.locator("certloop-upload .facts")).to_contain_text("二维码")

    with page.expect_download() as csv_file:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.reader(io.StringIO(Path(csv_file.value.path()).read_text(encoding="utf-8-sig"))))
    assert len(rows) > 10
    for kind in ("JSON", "XLSX"):
        with page.expect_download() as file:
            page.get_by_role("link", name=kind).click()
        assert Path(file.value.path()).stat().st_size > 500

    page.locator("li", has_text="individual_photo").get_by_role("button").click()
    turned = page.locator("certloop-upload certloop-viewer svg > g")
    expect(turned).to_have_attribute("transform", "".join(["translate(", *_corner(page), ") rotate(", str(_turn(demo)), ")"]))


def _turn(demo: Live) -> int:
    """How far the reader turned the photograph, in quarters."""
    import httpx

    client = httpx.Client(base_url=demo.base, trust_env=False)
    for document in client.get("/v1/documents").json()["items"]:
        if document["file"] == TURNED.name:
            rotation = client.get(f"/v1/documents/{document['id']}/result").json()["documents"][0]["rotation"]
            turn = round(rotation / 90) * 90 % 360
            assert turn != 0
            return turn
    raise AssertionError("the turned photograph is not there")


def _corner(page: Any) -> list[str]:
    """The shift that brings a page turned by 180 degrees, or by 90 or 270, back to positive coordinates."""
    transform = str(page.locator("certloop-upload certloop-viewer svg > g").get_attribute("transform"))
    image = page.locator("certloop-upload certloop-viewer svg image")
    width, height = image.get_attribute("width"), image.get_attribute("height")
    turn = transform.partition("rotate(")[2].rstrip(")")
    return {"90": [height, " 0"], "180": [width, f" {height}"], "270": ["0", f" {width}"]}[turn]


def test_a_sample_in_english_on_a_phone(demo: Live, visit: Callable[..., Any]) -> None:
    page = visit(demo, 390, 844).page
    page.goto("/")
    page.get_by_role("link", name="English").click()
    page.wait_for_url("**/desk/en/")
    page.locator("[data-sample='licence_2019_scan.jpg']").click()
    expect(page.locator("certloop-upload tr[data-field=name]")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("tab", name="Review")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_papers_of_one_supplier_are_checked_against_each_other(demo: Live, visit: Callable[..., Any]) -> None:
    page = visit(demo).page
    page.goto("/")
    page.locator("[data-sample='supplier_dossier.pdf']").click()
    expect(page.locator("certloop-upload .checks li").first).to_be_visible(timeout=PATIENCE_MS)
