"""A correction on a real service is in the next reading within the second, can be taken out, and leaves its trace."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
from live import Live, ended, post

FORM = (("主体全称", "青松样本贸易{}有限公司"), ("法定代表人", "张样本"), ("成立日期", "2019年03月05日"))
"""A licence whose 名称 is called 主体全称: no document type knows that word."""


def page(number: int, name_label: str = "主体全称") -> bytes:
    import pylopdf_fonts_zh_cn
    from PIL import Image, ImageDraw, ImageFont

    face = str(Path(pylopdf_fonts_zh_cn.__file__).parent / "NotoSansSC-Regular.otf")
    image = Image.new("RGB", (460, 150), "white")
    draw = ImageDraw.Draw(image)
    draw.text((150, 8), "营业执照", font=ImageFont.truetype(face, 24), fill="black")
    for line, (label, value) in enumerate(FORM):
        words = name_label if line == 0 else label
        draw.text((20, 52 + 30 * line), words, font=ImageFont.truetype(face, 17), fill="black")
        draw.text((150, 52 + 30 * line), value.format(number), font=ImageFont.truetype(face, 17), fill="black")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def read(operator: Any, number: int) -> tuple[str, dict[str, Any]]:
    document_id = post(operator, page(number), doc_type="business_licence").json()["id"]
    assert ended(operator, document_id)["status"] == "done"
    return document_id, operator.get(f"/v1/documents/{document_id}/result").json()["documents"][0]["fields"]["name"]


def test_the_next_document_of_the_form_is_read_by_what_the_correction_taught(live: Live) -> None:
    tenant = "learner"
    operator, auditor, engineer = (live.client(role, tenant) for role in ("operator", "auditor", "engineer"))
    first, name = read(operator, 1)
    assert name["value"] is None
    shown = auditor.get(f"/v1/reviews/{first}.0")
    edited = auditor.patch(
        f"/v1/reviews/{first}.0", json={"fields": {"name": "青松样本贸易1有限公司"}}, headers={"If-Match": shown.headers["etag"]}
    )
    assert edited.status_code == 200, edited.text
    auditor.post(f"/v1/reviews/{first}.0/approve", headers={"If-Match": edited.headers["etag"]}).raise_for_status()
    rules = _rules(engineer, 1)
    assert (rules[0]["rule"], rules[0]["evidence"]) == ({"field": "name", "label": "主体全称"}, [f"{first}.0"])

    second, name = read(operator, 2)
    assert name["value"] == "青松样本贸易2有限公司"
    with live.open() as service:
        trajectory = service.tenant(tenant).trajectory(f"{second}.0").trajectory
    assert trajectory.overlay_event_ids == (rules[0]["id"],)
    assert trajectory.policy_version == "embedded"

    other = live.client("operator", "stranger-to-it")
    assert read(other, 3)[1]["value"] is None

    removed = engineer.post(f"/v1/memory/{rules[0]['id']}/remove", json={"reason": "only for this test"})
    assert removed.json()["state"] == "removed"
    assert read(operator, 4)[1]["value"] is None


def test_releases_are_shown_and_there_is_nothing_to_take_back_at_first(live: Live) -> None:
    engineer = live.client("engineer", "learner")
    shown = engineer.get("/v1/releases").json()
    assert shown["pointer"]["active"] == "embedded"
    assert [move["move"] for move in shown["history"]] == ["adopted"]
    refused = engineer.post("/v1/releases/rollback", json={"reason": "just because"})
    assert (refused.status_code, refused.json()["code"]) == (409, "release_invalid")


@pytest.mark.parametrize("seen", [5, 6])
def test_documents_of_other_engines_or_pages_are_no_trouble(live: Live, seen: int) -> None:
    """An approval without edits teaches nothing and costs nothing."""
    operator, auditor, engineer = (live.client(role, "quiet") for role in ("operator", "auditor", "engineer"))
    document_id, _ = read(operator, seen)
    shown = auditor.get(f"/v1/reviews/{document_id}.0")
    auditor.post(f"/v1/reviews/{document_id}.0/approve", headers={"If-Match": shown.headers["etag"]}).raise_for_status()
    assert _rules(engineer, 0) == []


def _rules(engineer: Any, wanted: int) -> list[dict[str, Any]]:
    """The rules, as soon as there are so many."""
    until = time.monotonic() + 20
    while True:
        items: list[dict[str, Any]] = engineer.get("/v1/memory").json()["items"]
        if len(items) >= wanted or time.monotonic() > until:
            return items
        time.sleep(0.05)
