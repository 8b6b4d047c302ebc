"""Values agree with each other and with the rules that certificates follow."""

from __future__ import annotations

from datetime import date
from random import Random

import pytest
from stdnum.cn import ric, uscc

from certloop.synth.fields import BUILDERS, Money, Order, Term, build_facts, make_firm, print_fact
from certloop.synth.fields.codes import make_registration_no, mod_11_10, organisation_check, spoil_check_digit, uscc_check
from certloop.synth.fields.domain import Domain, ValueDomainError
from certloop.synth.fields.firms import FORMS
from certloop.synth.fields.people import make_person
from certloop.synth.fields.printing import DATE_STYLES, MONEY_STYLES, TERM_STYLES, print_date, print_money
from certloop.synth.fields.regions import all_places
from certloop.templates import UnknownTypeError, load_types
from certloop.validators import Severity, check_document, check_dossier, validate


def test_check_digits_follow_the_standards() -> None:
    """Pins of METHODS.md section 12."""
    assert uscc_check("91350100M000100Y4") == "3"
    assert uscc_check("91110000600037341") == "L"
    assert organisation_check("60003734") == "1"
    assert organisation_check("D2143569") == "X"
    assert mod_11_10("11010800000001") == "6"
    assert mod_11_10("44030110344866") == "9"
    assert mod_11_10("1110807121565") == "0"


@pytest.mark.parametrize("seed", range(40))
def test_a_firm_agrees_with_itself(seed: int) -> None:
    firm = make_firm(Random(seed), form=Random(seed).choice(["company", "individual", "branch", "sole", "partnership"]))
    assert uscc.is_valid(firm.credit_code) or firm.credit_code[2:8] == firm.place.code
    assert firm.credit_code[2:8] == firm.place.code
    assert firm.credit_code[1] == ("2" if firm.form == "individual" else "1")
    assert firm.place.county in firm.address
    assert firm.established_on <= firm.issued_on
    assert firm.term.end is None or firm.term.end > firm.issued_on or firm.term.end > firm.established_on


@pytest.mark.parametrize("seed", range(40))
def test_an_identity_number_says_what_the_card_says(seed: int) -> None:
    person = make_person(Random(seed))
    assert person.id_number[:6] == person.home.code
    assert person.id_number[6:14] == person.birth.strftime("%Y%m%d")
    assert (int(person.id_number[16]) % 2 == 1) is person.male
    assert ric.calc_check_digit(person.id_number) == person.id_number[-1]


def test_region_codes_nest() -> None:
    for place in all_places():
        assert place.code[:2] == place.city_code[:2]
        assert place.municipality or place.code[:4] == place.city_code[:4]
    assert len({p.code[:2] for p in all_places()}) >= 30


@pytest.mark.parametrize("type_id", list(BUILDERS))
def test_no_hard_rule_fails_on_generated_values(type_id: str) -> None:
    doc_type = load_types().get(type_id)
    for seed in range(12):
        rng = Random(seed)
        facts = build_facts(type_id, rng, make_firm(rng, form=rng.choice(["company", "individual"])), Order())
        values = {k: print_fact(v, "", rng) for k, v in facts.items()}
        for field_id, value in values.items():
            kinds = doc_type.fields[field_id].validator_kinds
            verdicts = [[v for v in validate(kind, value) if v.failed and v.severity is Severity.HARD] for kind in kinds]
            assert not all(verdicts), (field_id, value, verdicts)
        failed = [v for v in check_document(type_id, values) if v.failed and v.severity is Severity.HARD]
        assert not failed, failed


def test_a_dossier_agrees_across_its_papers() -> None:
    firm = make_firm(Random(5), issued=(2019, 2021))
    papers = []
    for type_id in ("business_licence", "food_operation_permit", "bank_account_permit", "authorisation_letter"):
        facts = build_facts(type_id, Random(6), firm, Order(issued=(2021, 2024)))
        papers.append((type_id, {k: print_fact(v, "", Random(1)) for k, v in facts.items()}))
    assert not [v for v in check_dossier(papers) if v.failed]


def test_dates_and_money_are_written_as_on_paper() -> None:
    day = date(2008, 10, 27)
    assert print_date(day, "numeral") == "二〇〇八年十月二十七日"
    assert print_date(date(2010, 12, 20), "numeral") == "二〇一〇年十二月二十日"
    assert print_date(day, "padded") == "2008年10月27日"
    assert print_date(date(2020, 9, 2), "plain") == "2020年9月2日"
    assert print_money(Money(1200), "capital") == "壹仟贰佰万元整"
    assert print_money(Money(1005), "digits_cny") == "1005万元人民币"
    assert print_money(Money(1005), "capital") == "壹仟零伍万元整"
    assert print_money(Money(50), "cny_capital") == "人民币伍拾万元"
    assert print_money(Money(300, "美元"), "decimal") == "美元300.0000万"


def test_every_style_prints_something_the_rules_read_back() -> None:
    rng = Random(0)
    for style in DATE_STYLES:
        assert not any(v.failed for v in validate("date", print_date(date(2020, 2, 29), style)))
    for style in MONEY_STYLES:
        assert not any(v.failed for v in validate("money", print_money(Money(1200), style)))
    for style in TERM_STYLES:
        text = print_fact(Term(date(2020, 1, 1), date(2030, 1, 1)), f"{style}:padded", rng)
        assert not any(v.failed for v in validate("date_range", text)), text


def test_domains_share_no_value() -> None:
    left, right = Domain(0, 0.5), Domain(0.5, 1)
    names = {make_firm(Random(s), domain=left).name for s in range(60)}
    assert not names & {make_firm(Random(s), domain=right).name for s in range(60)}
    assert all(left.accepts(n) and not right.accepts(n) for n in names)


@pytest.mark.parametrize("form", FORMS)
def test_the_smallest_split_has_values_for_every_form(form: str) -> None:
    for seed in range(20):
        firm = make_firm(Random(seed), form=form, domain=Domain(0.95, 1.0))
        assert firm.place.county in firm.address and firm.credit_code[2:8] == firm.place.code
    with pytest.raises(ValueDomainError, match="widen"):
        make_firm(Random(0), form=form, domain=Domain(0.5, 0.5))


def test_a_spoiled_code_differs_in_its_check_digit_alone() -> None:
    code = make_registration_no(Random(1), "110108")
    spoiled = spoil_check_digit(Random(1), code)
    assert spoiled[:-1] == code[:-1] and spoiled != code


def test_an_unknown_type_names_the_known_ones() -> None:
    with pytest.raises(UnknownTypeError, match="business_licence"):
        build_facts("passport", Random(0), make_firm(Random(0)), Order())
