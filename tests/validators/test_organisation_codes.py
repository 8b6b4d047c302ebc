"""Credit code, organisation code and registration number. Pins: METHODS §12; oracle: python-stdnum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.cn import ric, uscc
from stdnum.iso7064 import mod_11_10

from certloop.validators import Outcome, Severity, Verdict, normalise, passes, validate
from certloop.validators.checksums import mod_11_10_check_digit, org_code_check_character, uscc_check_character

ALPHABET = "0123456789ABCDEFGHJKLMNPQRTUWXY"
VALID_USCC = (
    "91350100M000100Y43",
    "91110000600037341L",
    "91330100799655058B",
    "91440300708461136T",
    "914403001922038216",
    "911101083303521997",
)


def by_rule(verdicts: tuple[Verdict, ...]) -> dict[str, Verdict]:
    return {verdict.rule: verdict for verdict in verdicts}


def hard_failures(verdicts: tuple[Verdict, ...]) -> list[str]:
    return [verdict.rule for verdict in verdicts if verdict.failed and verdict.severity is Severity.HARD]


@pytest.mark.parametrize("code", VALID_USCC)
def test_published_credit_codes_pass(code: str) -> None:
    assert passes(validate("uscc", code))
    assert not [verdict for verdict in validate("uscc", code) if not verdict.passed]


def test_worked_check_characters() -> None:
    assert uscc_check_character("91350100M000100Y4") == "3"
    assert uscc_check_character("91110000600037341") == "L"


@pytest.mark.parametrize(
    ("body", "check"), [("60003734", "1"), ("D2143569", "X"), ("M000100Y", "4"), ("19220382", "1"), ("33035219", "9")]
)
def test_organisation_code_pins(body: str, check: str) -> None:
    assert org_code_check_character(body) == check
    assert passes(validate("org_code", f"{body}-{check}"))
    assert passes(validate("org_code", body + check))
    assert hard_failures(validate("org_code", body + ("2" if check != "2" else "3"))) == ["org_code.check_character"]


def test_organisation_code_whose_check_is_eleven_ends_in_zero() -> None:
    assert org_code_check_character("00000000") == "0"  # sum 0, 11 - 0 = 11 -> 0


@pytest.mark.parametrize("text", ["９１３５０１００Ｍ０００１００Ｙ４３", " 91350100 M000100Y 43\n", "91350100m000100y43"])
def test_width_spaces_and_case_do_not_matter(text: str) -> None:
    assert passes(validate("uscc", text))
    assert normalise("uscc", text) == "91350100M000100Y43"


def test_copy_suffix_of_a_duplicate_is_not_part_of_the_code() -> None:
    assert passes(validate("uscc", "91350100M000100Y43（1-1）"))
    assert passes(validate("regno15", "110108000000016(1-1)"))


@pytest.mark.parametrize(
    ("misread", "meant"),
    [("9135O100M000100Y43", "91350100M000100Y43"), ("9I350100M00010OY43", "91350100M000100Y43"), ("9135010OMOOO1OOY43", None)],
)
def test_impossible_letters_yield_a_suggestion_and_never_a_pass(misread: str, meant: str | None) -> None:
    verdict = by_rule(validate("uscc", misread))["uscc.shape"]
    assert verdict.failed
    assert verdict.severity is Severity.HARD
    assert verdict.suggestion == (meant or "91350100M000100Y43")
    assert normalise("uscc", misread) == misread  # the value stays as printed


def test_s_and_z_are_suggested_as_five_and_two() -> None:
    # fictional codes; check characters T and X computed with python-stdnum
    code = "91250105MA00000025"
    whole = code[:17] + uscc.calc_check_digit(code[:17])
    assert by_rule(validate("uscc", "9" + "1Z" + whole[3:]))["uscc.shape"].suggestion == whole
    assert by_rule(validate("uscc", whole[:3] + "S" + whole[4:]))["uscc.shape"].suggestion == whole


def test_no_suggestion_for_v_or_when_the_repair_does_not_check() -> None:
    assert by_rule(validate("uscc", "91350100M000100V43"))["uscc.shape"].suggestion is None
    assert by_rule(validate("uscc", "9135O100M000100Y44"))["uscc.shape"].suggestion is None
    assert by_rule(validate("uscc", "91350100M000100Y44"))["uscc.check_character"].suggestion is None


@pytest.mark.parametrize("number", ["11010519491231002X", "440524188001010014", "360426199101010071"])
def test_an_id_number_is_not_a_credit_code(number: str) -> None:
    verdicts = validate("uscc", number)
    assert [verdict.rule for verdict in verdicts] == ["uscc.is_id_number"]
    assert hard_failures(verdicts) == ["uscc.is_id_number"]


def test_an_id_number_that_passes_the_credit_code_checksum_still_fails_but_softly() -> None:
    number = "110105194912310409"  # found with python-stdnum: both checksums hold
    assert uscc.is_valid(number)
    assert ric.is_valid(number)
    verdict = by_rule(validate("uscc", number))["uscc.is_id_number"]
    assert verdict.failed
    assert verdict.severity is Severity.SOFT
    assert not passes(validate("uscc", number))


def test_region_and_inner_organisation_code_are_soft() -> None:
    body = "9199010060003734 2".replace(" ", "")
    code = body + uscc_check_character(body)
    verdicts = by_rule(validate("uscc", code))
    assert verdicts["uscc.check_character"].passed
    assert verdicts["uscc.region"].failed
    assert verdicts["uscc.organisation_code"].failed
    assert {verdicts[rule].severity for rule in ("uscc.region", "uscc.organisation_code", "uscc.department")} == {Severity.SOFT}
    assert hard_failures(validate("uscc", code)) == []


@pytest.mark.parametrize("code", ["91350100M000100Y4", "91350100M000100Y433", "91350A00M000100Y43", "军字第1234567号"])
def test_wrong_forms_fail(code: str) -> None:
    assert hard_failures(validate("uscc", code)) == ["uscc.shape"]


@pytest.mark.parametrize(("body", "check"), [("11010800000001", "6"), ("44030110344866", "9"), ("44030110309741", "3")])
def test_registration_number_pins(body: str, check: str) -> None:
    assert mod_11_10_check_digit(body) == check
    assert passes(validate("regno15", body + check))
    assert hard_failures(validate("regno15", body + str((int(check) + 1) % 10))) == ["regno15.check_digit"]


def test_mod_11_10_trace_of_the_pin() -> None:
    product, trace = 10, []
    for digit in "11010800000001":
        product = ((product + int(digit)) % 10 or 10) * 2 % 11
        trace.append(product)
    assert trace == [2, 6, 1, 4, 8, 1, 2, 4, 8, 5, 10, 9, 7, 5]


def test_registration_number_of_13_digits_passes_softly_without_a_check() -> None:
    verdicts = by_rule(validate("regno15", "1101082345678"))
    assert verdicts["regno15.old_form"].severity is Severity.SOFT
    assert verdicts["regno15.check_digit"].outcome is Outcome.NOT_APPLICABLE
    assert passes(tuple(verdicts.values()))


def test_a_credit_code_in_the_registration_number_fails_softly() -> None:
    assert [v.rule for v in validate("regno15", VALID_USCC[0])] == ["regno15.is_credit_code"]
    assert hard_failures(validate("regno15", VALID_USCC[0])) == []


def test_national_administration_codes_have_a_region() -> None:
    body = "91100000" + "60003734" + "1"
    assert passes(validate("uscc", body + uscc_check_character(body)))


# --- properties ---------------------------------------------------------------------------------------------------------

bodies = st.tuples(
    st.sampled_from(["91", "92", "93", "11", "52"]),
    st.text("0123456789", min_size=6, max_size=6),
    st.text(ALPHABET, min_size=9, max_size=9),
).map("".join)


@given(bodies)
def test_check_character_agrees_with_stdnum(body: str) -> None:
    assert uscc_check_character(body) == uscc.calc_check_digit(body)


@given(bodies, st.integers(0, 17), st.sampled_from(ALPHABET))
def test_every_single_substitution_in_a_credit_code_is_caught(body: str, position: int, other: str) -> None:
    code = body + uscc_check_character(body)
    changed = code[:position] + other + code[position + 1 :]
    if changed != code:
        assert hard_failures(validate("uscc", changed))


@given(bodies, st.integers(0, 16))
def test_every_adjacent_transposition_in_a_credit_code_is_caught(body: str, position: int) -> None:
    code = body + uscc_check_character(body)
    changed = code[:position] + code[position + 1] + code[position] + code[position + 2 :]
    if changed != code:
        assert hard_failures(validate("uscc", changed))


@given(
    st.one_of(bodies.map(lambda body: body + uscc_check_character(body)), st.text(ALPHABET + "IOSVZ", min_size=18, max_size=18))
)
def test_form_and_checksum_agree_with_stdnum(code: str) -> None:
    if uscc.is_valid(code) and ric.is_valid(code):
        return  # an ID number is refused here, stdnum does not look
    strict = not hard_failures(validate("uscc", code))
    # stdnum takes a letter beyond its alphabet nowhere, and any region of digits but a non-digit department letter
    assert strict == (uscc.is_valid(code) or _letter_department(code))


def _letter_department(code: str) -> bool:
    """stdnum wants digits in the first 8; GB 32100 allows letters in the first two (A, N, Y)."""
    well_formed = all(ch in ALPHABET for ch in code) and code[2:8].isdigit() and not code[:2].isdigit()
    return well_formed and code[17] == uscc_check_character(code[:17])


@given(st.text("0123456789", min_size=14, max_size=14), st.integers(0, 14), st.sampled_from("0123456789"))
def test_registration_numbers_agree_with_stdnum_and_catch_single_substitutions(body: str, position: int, other: str) -> None:
    number = body + mod_11_10_check_digit(body)
    assert mod_11_10.is_valid(number)
    assert hard_failures(validate("regno15", number)) == []
    changed = number[:position] + other + number[position + 1 :]
    if changed != number:
        assert hard_failures(validate("regno15", changed)) == ["regno15.check_digit"]
