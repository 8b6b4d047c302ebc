"""A shared document holds nothing of the original: neither its image (read by OCR), nor its label, nor its trajectory."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from certloop.agentrl.rewards import match_fields
from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source
from certloop.agentrl.store import Store, share_trajectory, verify
from certloop.agentrl.trajectory import Action, Consent, Outcome, Step, ToolResult, Trajectory, dumps
from certloop.cli import app
from certloop.extract import ExtractConfig, Extractor
from certloop.extract.engine.ocr import OcrEngine
from certloop.synth.errors import PseudonymiseError
from certloop.synth.label import Sample, make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.pseudonymise import COMMON, CertificatePseudonymiser
from certloop.synth.sample import Recipe
from certloop.templates import FieldKind, load_types, squash
from certloop.validators import normalise

TYPES = load_types(())
AT = "2026-03-01T08:00:00+00:00"


def original(type_id: str, seed: int) -> Sample:
    return make_sample(Recipe(type_id, seed, 1100), load_profile("scan"))


def shown(sample: Sample) -> dict[str, str | None]:
    return dict(sample.label["fields"])


def personal(answer: Mapping[str, str | None], type_id: str) -> set[str]:
    """Every name, number and address, and every date in ISO form."""
    out = set()
    for spec in TYPES.get(type_id).fields.values():
        value = answer.get(spec.label)
        if value is None or spec.id in COMMON or spec.kind is FieldKind.ENUM:
            continue
        if spec.kind in (FieldKind.DATE, FieldKind.DATE_RANGE):
            out |= set(re.findall(r"\d{4}-\d{2}-\d{2}", str(normalise(spec.kind.value, value))))
        else:
            out.add(squash(value))
    return out


def dates_in(text: str) -> set[str]:
    found = set()
    for y, m, d in re.findall(r"(\d{4})[年.\-/](\d{1,2})[月.\-/](\d{1,2})", text):
        try:
            found.add(date(int(y), int(m), int(d)).isoformat())
        except ValueError:
            continue
    return found


@pytest.fixture(scope="module")
def engine() -> OcrEngine:
    return OcrEngine(ExtractConfig().ocr)


@pytest.mark.parametrize("type_id", [t.id for t in TYPES])
def test_a_form_of_every_type_is_filled_anew(type_id: str) -> None:
    before = original(type_id, 3)
    image, answer = CertificatePseudonymiser().rerender(before.encoded(), shown(before), type_id, 7)
    assert image != before.encoded()
    assert not personal(answer, type_id) & personal(shown(before), type_id)
    filled = {label for label, value in shown(before).items() if value is not None}
    assert len(filled & set(answer)) >= 0.8 * len(filled)  # the same form with the same rows
    spec = {s.label: s for s in TYPES.get(type_id).fields.values()}
    assert set(answer) <= set(spec)


@given(seed=st.integers(0, 2**31), type_id=st.sampled_from(["business_licence", "id_card", "bank_account_permit"]))
@settings(max_examples=5, deadline=None)
def test_no_value_of_any_original_comes_back(seed: int, type_id: str) -> None:
    before = original(type_id, seed)
    _, answer = CertificatePseudonymiser(profile="clean").rerender(before.encoded(), shown(before), type_id, seed)
    new = squash(json.dumps(answer, ensure_ascii=False))
    for word in personal(shown(before), type_id):
        assert word not in new


def test_neither_ocr_nor_the_label_finds_the_original(engine: OcrEngine) -> None:
    before = original("business_licence", 11)
    image, answer = CertificatePseudonymiser(profile="clean").rerender(before.encoded(), shown(before), "business_licence", 1)
    lines = engine.read(np.asarray(Image.open(io.BytesIO(image)).convert("RGB")))
    text = squash("".join(line.text for line in lines))
    words = personal(shown(before), "business_licence")
    assert len(words) > 5
    assert not {word for word in words if word in text}
    assert not dates_in(text) & words
    assert squash(answer["名称"] or "")[:6] in text  # what stands there instead


def test_image_and_label_of_a_copy_agree(tmp_path: Path) -> None:
    before = original("food_operation_permit", 2)
    image, answer = CertificatePseudonymiser(profile="clean").rerender(
        before.encoded(), shown(before), "food_operation_permit", 1
    )
    with Extractor() as extractor:
        (document,) = extractor.read(image).documents
    assert document.doc_type == "food_operation_permit"
    read = {f.label: f.value for f in document.fields.values() if f.value is not None}
    assert match_fields(answer, read).f1 > 0.8


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_document() -> None:
    before = original("device_operation_permit", 5)
    make = CertificatePseudonymiser().rerender
    first, again, other = (make(before.encoded(), shown(before), "device_operation_permit", seed) for seed in (1, 1, 2))
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]


@pytest.mark.parametrize(
    ("image", "answer", "kind"),
    [
        (b"no image", {"名称": "示例公司"}, "business_licence"),
        (None, {"名称": "示例公司"}, "unknown"),
        (None, {"名称": None}, "business_licence"),
        (None, {"什么": "x"}, "business_licence"),
        (None, {}, "business_licence"),
    ],
)
def test_what_cannot_be_drawn_anew_is_refused(image: bytes | None, answer: dict[str, Any], kind: str) -> None:
    page = original("business_licence", 1).encoded() if image is None else image
    with pytest.raises(PseudonymiseError):
        CertificatePseudonymiser().rerender(page, answer, kind, 1)


def fill(url: str, *consents: Consent) -> list[Sample]:
    """A store with one certificate for each consent, read wrongly in its name and put right by an auditor."""
    samples = []
    with Store.open(url) as store:
        acme = store.for_tenant("acme")
        for n, consent in enumerate(consents):
            sample = original("business_licence", 20 + n)
            answer = shown(sample)
            misread = answer | {"名称": "错" + (answer["名称"] or "")[1:]}
            texts = {str(i): value for i, value in enumerate(v for v in answer.values() if v)}
            step = Step(0, "", f"读到 {answer['名称']}", Action("ocr"), ToolResult(True, {"texts": texts}))
            trajectory = Trajectory(
                f"t-{n}", "acme", "business_licence", AT, Outcome.CLEAN, consent, "onboarding", steps=(step,),
                image_sha256=(acme.put_blob(sample.encoded()),), final_json=json.dumps(misread, ensure_ascii=False),
            )  # fmt: skip
            who = {"traj_id": f"t-{n}", "source": Source.AUDITOR, "confidence": 1.0, "actor": "auditor-7", "at": AT}
            edit = Signal(
                scope=Scope.FIELD, field="名称", value=-1.0, reason=Reason.EDIT,
                evidence={"old": misread["名称"], "new": answer["名称"]}, **who,
            )  # fmt: skip
            with acme.batch("test") as batch:
                batch.add_trajectory(trajectory)
                batch.add_signal(edit)
                batch.add_signal(Signal(scope=Scope.TRAJECTORY, value=1.0, reason=Reason.APPROVAL, **who))
            samples.append(sample)
    return samples


def test_a_shared_trajectory_names_nobody(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    (sample,) = fill(url, Consent.SHARED)
    with Store.open(url) as store:
        acme, common = store.for_tenant("acme"), store.for_tenant("common")
        copy_id = share_trajectory(acme, "t-0", common, CertificatePseudonymiser(profile="clean"), seed=3, actor="test")
        copy = common.trajectory(copy_id)
        text = squash(dumps(copy.trajectory))
        for word in personal(shown(sample), "business_licence"):
            assert word not in text
        assert copy.trajectory.created_at != AT
        assert set(json.loads(copy.trajectory.final_json or "{}")) >= {"名称", "住所"}
        assert verify(store).clean


def command(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["store", "share", *arguments])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    return done.stdout


def test_the_command_shares_what_may_be_shared_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    samples = fill(url, Consent.SHARED, Consent.TENANT, Consent.SHARED)
    told = command("--store", url, "--tenant", "acme", "--to", "common", "--seed", "5", "--profile", "clean", "--json")
    rows = [json.loads(line) for line in told.splitlines()]
    assert {row["trajectory"] for row in rows} == {"t-0", "t-2"}  # t-1 is for its own tenant only
    again = command("--store", url, "--tenant", "acme", "--to", "common", "--seed", "5", "--profile", "clean", "--json")
    assert again == ""
    words = personal(shown(samples[0]), "business_licence") | personal(shown(samples[2]), "business_licence")
    out = tmp_path / "rows.jsonl"
    arguments = ["trajectories", "export", "--store", url, "--tenant", "common", "--consent", "shared", "--unapproved", "-o"]
    done = CliRunner().invoke(app, [*arguments, str(out)])
    assert done.exit_code == 0, done.output
    lines = out.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2
    assert not {word for word in words if word in squash("".join(lines))}


def test_the_command_says_what_may_not_be_shared(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    fill(url, Consent.TENANT)
    done = CliRunner().invoke(app, ["store", "share", "t-0", "--store", url, "--tenant", "acme", "--to", "common"])
    assert getattr(done.exception, "code", None) == "consent_missing"
    done = CliRunner().invoke(app, ["store", "share", "--store", url, "--tenant", "acme", "--to", "acme"])
    assert getattr(done.exception, "code", None) == "usage"
