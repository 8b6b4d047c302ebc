"""The public surface: kinds, what they answer for blank and overlong values, and that nothing is ever repaired."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

import certloop.validators as validators
from certloop.agentrl.errors import CertloopError
from certloop.validators import KINDS, Outcome, Severity, UnknownKindError, normalise, passes, validate

WITHOUT_RULES = {"text", "long_text", "licence_no", "enum"}


def test_public_names_are_exactly_these() -> None:
    assert set(validators.__all__) == {
        "KINDS", "DateRange", "Kind", "Money", "Outcome", "PartialDate", "Severity", "UnknownKindError", "Verdict",
        "check_document", "check_dossier", "find_dates", "normalise", "parse_date", "parse_date_range", "parse_money",
        "passes", "validate",
    }  # fmt: skip
    assert all(hasattr(validators, name) for name in validators.__all__)


def test_every_command_line_and_template_kind_is_registered_under_its_own_name() -> None:
    assert set(KINDS) == {
        "uscc", "org_code", "regno15", "id_number", "uscc_or_id_number", "food_permit_no", "food_record_no",
        "food_production_no", "drug_permit_no", "device_permit_no", "device_registration_no", "account_approval_no",
        "road_transport_no", "date", "date_range", "money", "digits", "licence_no", "text", "long_text", "enum",
    }  # fmt: skip
    assert all(kind.name == name and kind.title_zh and kind.title_en for name, kind in KINDS.items())


def test_unknown_kind_lists_the_known_ones() -> None:
    for call in (validate, normalise):
        with pytest.raises(UnknownKindError) as caught:
            call("passport", "x")
        assert isinstance(caught.value, CertloopError)
        assert isinstance(caught.value, KeyError)
        assert caught.value.code == "unknown_kind"
        assert "uscc" in str(caught.value)
        assert "date_range" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "blank", [None, "", "  ", "\u3000\n", "****", "无", "----", "空白", "以下空白", "/", "——", "  年  月  日", "****年**月**日"]
)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_blank_values_are_not_applicable(kind: str, blank: str | None) -> None:
    verdicts = validate(kind, blank)
    assert normalise(kind, blank) is None
    if kind in WITHOUT_RULES:
        assert verdicts == ()
        assert passes(verdicts)
    else:
        assert [(verdict.rule, verdict.outcome) for verdict in verdicts] == [(f"{kind}.blank", Outcome.NOT_APPLICABLE)]
        assert not passes(verdicts)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - WITHOUT_RULES))
@pytest.mark.parametrize("unit", ["1", "二〇", "年月", "A", "\u0301\u0316", " ", "*", "壹仟"])
def test_a_megabyte_is_refused_at_once(kind: str, unit: str) -> None:
    value = unit * (1_000_000 // len(unit))
    (verdict,) = validate(kind, value)
    assert verdict.rule == f"{kind}.too_long"
    assert verdict.failed
    assert normalise(kind, value) is None


def test_kinds_without_rules() -> None:
    for kind in WITHOUT_RULES:
        assert validate(kind, "x" * 1_000_000) == ()
        assert normalise(kind, "x" * 1_000_000) is None
    assert normalise("text", "  某某（福州）\n 公司　") == "某某(福州) 公司"
    assert len(str(normalise("long_text", "项" * 5000))) == 5000


def test_digits_may_be_grouped() -> None:
    assert passes(validate("digits", "6222 0000-1234 ５６７８"))
    (verdict,) = validate("digits", "6222O000")
    assert verdict.failed
    assert verdict.severity is Severity.SOFT


def test_a_credit_code_field_that_may_hold_an_id_number() -> None:
    for value in ("91350100M000100Y43", "11010519491231002X"):
        assert passes(validate("uscc_or_id_number", value))
    assert validate("uscc_or_id_number", "9135O100M000100Y43")[0].suggestion == "91350100M000100Y43"


def test_only_numbers_with_a_published_checksum_can_fail_hard() -> None:
    wrong = {
        "uscc": "91350100M000100Y44",
        "org_code": "600037342",
        "regno15": "110108000000017",
        "id_number": "110105194912310021",
    }
    for kind in set(KINDS) - WITHOUT_RULES:
        verdicts = validate(kind, wrong.get(kind, "错误"))
        assert any(verdict.failed for verdict in verdicts) or kind == "date_range"
        assert any(v.failed and v.severity is Severity.HARD for v in verdicts) == (kind in wrong)


def test_digits_of_other_scripts_are_not_digits() -> None:
    for kind, value in (("regno15", "١" * 15), ("id_number", "১" * 18), ("digits", "٣٤٥"), ("food_permit_no", "JY" + "१" * 14)):
        assert not passes(validate(kind, value))
    assert not passes(validate("uscc", "91350100M000100Y43\nX"))


def test_messages_are_in_two_languages_and_give_neither_the_value_nor_the_right_character_away() -> None:
    value = "91350100M000100Y44"
    for verdict in validate("uscc", value):
        assert verdict.message_zh
        assert verdict.message_en
        assert value not in verdict.message_zh + verdict.message_en
        assert json.dumps(verdict.to_json())
    (check,) = [v for v in validate("uscc", value) if v.rule == "uscc.check_character"]
    assert check.suggestion is None
    assert not set("0123456789") & set(check.message_zh + check.message_en)


def test_a_verdict_is_a_value() -> None:
    verdict = validate("uscc", "91350100M000100Y43")[0]
    assert copy.copy(verdict) == verdict
    assert hash(verdict) == hash(validate("uscc", "91350100M000100Y43")[0])
