"""From a picture to a training row on a real service with a real reader: read, reviewed, corrected, approved, exported."""

from __future__ import annotations

import io
import json
from pathlib import Path

from live import Live, ended, post, small_page
from PIL import Image

from certloop.agentrl.signals import fuse
from certloop.agentrl.store import create_snapshot
from certloop.agentrl.store.exporters import approved_answer, trl_prompt_row


def test_a_correction_reaches_a_training_row(live: Live, tmp_path: Path) -> None:
    tenant = "audited"
    operator, auditor, engineer = (live.client(role, tenant) for role in ("operator", "auditor", "engineer"))
    declared = json.dumps({"name": "青松样本贸易7有限公司", "person": "另一位"}, ensure_ascii=False)
    page = small_page(7)
    answer = post(operator, page, consent="tenant", purpose="training", doc_type="business_licence", expected=declared)
    document_id = answer.json()["id"]
    assert ended(operator, document_id)["status"] == "done"
    certificate = f"{document_id}.0"
    assert [row["certificate_id"] for row in auditor.get("/v1/reviews").json()["items"]] == [certificate]
    shown = auditor.get(f"/v1/reviews/{certificate}")
    compared = {c["field"]: c["match"] for c in shown.json()["comparisons"]}
    assert compared["name"] == "match" and compared["person"] in ("differs", "not_readable")
    name = shown.json()["fields"]["name"]
    crop = Image.open(io.BytesIO(auditor.get(name["crop"]).content))
    assert crop.width > 20 and crop.height > 5
    edited = auditor.patch(
        f"/v1/reviews/{certificate}",
        json={"fields": {"name": "青松样本贸易七有限公司"}, "comment": "你应该先查二维码"},
        headers={"If-Match": shown.headers["etag"]},
    )
    assert edited.status_code == 200, edited.text
    done = auditor.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": edited.headers["etag"]})
    assert done.status_code == 200, done.text
    assert operator.get(f"/v1/documents/{document_id}/result").json()["documents"][0]["state"] == "approved"
    assert engineer.get("/v1/calibration").json()["reviewed"]["fields"] > 0
    with live.open() as service:
        store = service.tenant(tenant)
        (row,) = create_snapshot(store, tmp_path / "sets", actor="test").rows()
        truth = approved_answer(row.trajectory, row.signals)
        prompt = trl_prompt_row("读", truth, ["page.png"])
        assert json.loads(prompt["ground_truth"])["名称"] == "青松样本贸易七有限公司"
        folded = fuse(row.signals)
        assert folded.fields["名称"].value == -1.0 and 0.0 < (folded.trajectory.value or 0.0) < 1.0
        assert {hint.hint for hint in folded.hints} >= {"你应该先查二维码"}
        assert Image.open(io.BytesIO(store.get_blob(row.trajectory.image_sha256[0]))).size == Image.open(io.BytesIO(page)).size
    assert post(operator, page).status_code == 202
    with live.open() as service:
        signals = service.tenant(tenant).trajectory(certificate).signals
    assert [s.value for s in signals if s.reason == "reupload"] == [-1.0]
