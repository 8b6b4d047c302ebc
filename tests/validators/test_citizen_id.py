"""Citizens' ID numbers. Pins: METHODS §12; oracle: python-stdnum. All numbers are published examples or fictional."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.cn import ric

from certloop.validators import Outcome, Severity, Verdict, passes, validate
from certloop.validators.checksums import id_check_character
from certloop.validators.citizen_id import holder_of, upgrade_15


def failed(verdicts: tuple[Verdict, ...]) -> list[str]:
    return [verdict.rule for verdict in verdicts if verdict.failed]


@pytest.mark.parametrize("number", ["11010519491231002X", "11010519491231002x", "440524188001010014", "360426199101010071"])
def test_published_examples_pass(number: str) -> None:
    assert passes(validate("id_number", number))


def test_check_character_pins() -> None:
    assert id_check_character("11010519491231002") == "X"
    assert id_check_character("44052418800101001") == "4"


def test_wrong_check_character_is_a_hard_fail() -> None:
    (verdict,) = [v for v in validate("id_number", "110105194912310021") if v.failed]
    assert verdict.rule == "id_number.check_character"
    assert verdict.severity is Severity.HARD


@pytest.mark.parametrize("birth", ["19490230", "19491301", "21010101", "19000229"])
def test_impossible_birth_dates_fail_even_with_a_right_check_character(birth: str) -> None:
    body = "110105" + birth + "002"
    assert failed(validate("id_number", body + id_check_character(body))) == ["id_number.birth"]


def test_leap_day_is_a_birth_date() -> None:
    body = "31010119800229003"
    assert passes(validate("id_number", body + "1"))


def test_abolished_counties_are_no_error_and_unknown_provinces_are_soft() -> None:
    for county in ("511025", "330125", "429901"):  # only the province is looked at
        body = county + "19491231002"
        assert passes(validate("id_number", body + id_check_character(body)))
    body = "99010519491231002".replace("99", "60", 1)
    (verdict,) = [v for v in validate("id_number", body + id_check_character(body)) if v.failed]
    assert verdict.rule == "id_number.region"
    assert verdict.severity is Severity.SOFT


def test_15_digits_are_flagged_softly_with_their_18_character_form() -> None:
    verdicts = {v.rule: v for v in validate("id_number", "110105491231002")}
    flag = verdicts["id_number.old_form"]
    assert flag.failed
    assert flag.severity is Severity.SOFT
    assert flag.suggestion == "11010519491231002X"
    assert verdicts["id_number.check_character"].outcome is Outcome.NOT_APPLICABLE
    assert [rule for rule, v in verdicts.items() if v.failed] == ["id_number.old_form"]


def test_centenarian_sequences_belong_to_the_19th_century() -> None:
    assert upgrade_15("110105491231995")[6:10] == "1949"
    assert {upgrade_15(f"110105491231{n}")[6:10] for n in (996, 997, 998, 999)} == {"1849"}


def test_holder_sex_is_the_parity_of_the_sequence() -> None:
    woman, man = holder_of("11010519491231002X"), holder_of("110105491231003")
    assert woman is not None
    assert (woman.birth.iso(), woman.sex) == ("1949-12-31", "女")
    assert man is not None
    assert (man.birth.iso(), man.sex) == ("1949-12-31", "男")


@pytest.mark.parametrize("text", ["军字第1234567号", "南字第01234567号", "E12345678"])
def test_numbers_of_other_documents_fail_softly(text: str) -> None:
    (verdict,) = validate("id_number", text)
    assert verdict.rule == "id_number.other_document"
    assert verdict.severity is Severity.SOFT


def test_masked_numbers_are_not_judged() -> None:
    (verdict,) = validate("id_number", "110105********002X")
    assert verdict.outcome is Outcome.NOT_APPLICABLE


def test_confusable_letters_are_suggested_only_when_the_result_checks() -> None:
    assert validate("id_number", "11O10519491231002X")[0].suggestion == "11010519491231002X"
    assert validate("id_number", "11O105194912310021")[0].suggestion is None


days = st.dates(min_value=__import__("datetime").date(1900, 1, 1), max_value=__import__("datetime").date(2099, 12, 31))
bodies = st.tuples(
    st.sampled_from(["110105", "310101", "440305"]), days.map("{:%Y%m%d}".format), st.integers(0, 999).map("{:03d}".format)
)


@given(bodies.map("".join), st.integers(0, 17), st.sampled_from("0123456789X"))
def test_check_agrees_with_stdnum_and_every_single_substitution_is_caught(body: str, position: int, other: str) -> None:
    number = body + id_check_character(body)
    assert number[-1] == ric.calc_check_digit(number)
    assert passes(validate("id_number", number))
    changed = number[:position] + other + number[position + 1 :]
    if changed != number:
        assert [v for v in validate("id_number", changed) if v.failed and v.severity is Severity.HARD]
