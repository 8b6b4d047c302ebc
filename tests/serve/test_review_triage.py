"""Why a certificate goes to a person: one reason each, as a sentence that people understand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from certloop.extract.result import Document, FieldStatus
from certloop.serve.confidence.calibration import Calibration
from certloop.serve.confidence.versions import builtin
from certloop.serve.dossier.compare import compare
from certloop.serve.review.triage import SENTENCES, ReviewPolicy, Why, priority_of, triage
from certloop.templates import load_types
from tests.serve.audit_world import CODE, WRONG_CODE, less_sure, licence

KINDS = load_types()
QUIET = ReviewPolicy(sample_share=0.0)


def reasons(document: Document, policy: ReviewPolicy = QUIET, **declared: str) -> list[tuple[str, str | None]]:
    kind = KINDS.types.get(document.doc_type)
    found = triage(
        document,
        policy,
        doc_type=kind,
        calibration=builtin(),
        certificate_id="doc_0.0",
        comparisons=compare(declared, document, kind),
    )
    return [(reason.why.value, reason.field) for reason in found]


def test_a_clean_sure_certificate_needs_nobody() -> None:
    assert reasons(licence()) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Document("unknown", 0.4), [("type_unknown", None)]),
        (licence(name=None), [("required_missing", "name")]),
        (less_sure(licence(), "person", 0.1), [("field_unsure", "person")]),
        (licence(credit_code=WRONG_CODE), [("hard_rule_failed", "credit_code")]),
        (licence(qr=WRONG_CODE), [("qr_disagrees", "credit_code")]),
        (licence(credit_code=None), [("required_missing", "credit_code")]),
        (less_sure(licence(), "established_on", 0.1), []),
        (licence(registered_capital="壹佰万圆", established_on="2019年02月30日"), []),
    ],
    ids=["unknown type", "missing", "unsure", "hard rule", "QR", "one of two numbers", "optional unsure", "soft rule"],
)
def test_each_reason(document: Document, expected: list[tuple[str, str | None]]) -> None:
    assert reasons(document) == expected


def test_one_number_of_two_is_enough() -> None:
    """A licence has a credit code or an old registration number: the other may be absent."""
    assert reasons(licence(credit_code=None, registration_no="110105000000012")) == []
    unsure = less_sure(licence(registration_no="110105000000012"), "registration_no", 0.1)
    assert ("field_unsure", "registration_no") in reasons(unsure), "a number that is there must be sure"


def test_what_was_declared_and_differs_or_cannot_be_found() -> None:
    assert reasons(licence(), credit_code=CODE) == []
    assert reasons(licence(), name="样例乙商贸有限公司") == [("declared_differs", "name")]
    assert reasons(licence(), paid_in_capital="100万元") == [("declared_unreadable", "paid_in_capital")]


def test_the_heaviest_reason_comes_first_and_decides_the_priority() -> None:
    document = less_sure(licence(credit_code=WRONG_CODE, name=None), "person", 0.1)
    kind = KINDS.get("business_licence")
    found = triage(document, QUIET, doc_type=kind, calibration=builtin(), certificate_id="d")
    assert [r.why for r in found] == [Why.HARD_RULE_FAILED, Why.REQUIRED_MISSING, Why.FIELD_UNSURE]
    sampled = triage(licence(), ReviewPolicy(sample_share=1.0), doc_type=kind, calibration=builtin(), certificate_id="d")
    assert [r.why for r in sampled] == [Why.SAMPLED]
    assert priority_of(found) > priority_of(found[1:]) > priority_of(sampled) > priority_of(()) == 0.0


def test_without_a_threshold_that_can_be_shown_every_required_field_is_unsure() -> None:
    kind = KINDS.get("business_licence")
    found = triage(licence(), QUIET, doc_type=kind, calibration=Calibration("none", builtin().curves), certificate_id="d")
    assert {r.field for r in found} == {"credit_code", "name", "type", "person", "address"}


def test_a_covered_field_is_missing() -> None:
    document = licence()
    covered = replace(document.fields["address"], value=None, normalised=None, status=FieldStatus.UNREADABLE)
    document = replace(document, fields={**document.fields, "address": covered}, missing=("address",))
    assert reasons(document) == [("required_missing", "address")]


def test_every_reason_is_a_sentence_in_both_languages() -> None:
    for why in Why:
        zh, en = SENTENCES[why]
        assert zh.endswith("。") and en.endswith(".") and len(zh) > 6
        assert en.isascii()
