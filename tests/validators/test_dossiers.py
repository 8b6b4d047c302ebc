"""Agreement between the documents of one dossier."""

from __future__ import annotations

from certloop.validators import Severity, Verdict, check_dossier

CODE = "91350100M000100Y43"
LICENCE: tuple[str, dict[str, str | None]] = (
    "business_licence",
    {"name": "某某（福州）科技有限公司", "credit_code": CODE, "person": "甲某"},
)
PERMIT: tuple[str, dict[str, str | None]] = (
    "food_operation_permit",
    {"operator": "某某(福州) 科技有限公司", "credit_code": "９１３５０１００Ｍ０００１００Ｙ４３", "person": "甲 某"},
)
ACCOUNT: tuple[str, dict[str, str | None]] = ("bank_account_permit", {"name": "某某（福州）科技有限公司", "person": "甲某"})
LETTER: tuple[str, dict[str, str | None]] = (
    "authorisation_letter",
    {
        "principal": "某某〔福州〕科技有限公司",
        "principal_code": CODE,
        "principal_person": "甲某",
        "agent": "乙某",
        "agent_id_number": "11010519491231002x",
    },
)
CARD: tuple[str, dict[str, str | None]] = ("id_card", {"name": "乙某", "id_number": "11010519491231002X"})


def failures(verdicts: tuple[Verdict, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(verdict.rule, verdict.fields) for verdict in verdicts if verdict.failed]


def test_a_consistent_dossier_agrees_whatever_the_brackets_width_and_spaces() -> None:
    verdicts = check_dossier([LICENCE, PERMIT, ACCOUNT, LETTER, CARD])
    assert failures(verdicts) == []
    assert [verdict.rule for verdict in verdicts].count("dossier.name") == 3
    assert {verdict.severity for verdict in verdicts} == {Severity.SOFT}


def test_disagreements_name_both_fields_and_the_licence_is_the_reference() -> None:
    other = ("food_operation_permit", PERMIT[1] | {"operator": "另一公司", "credit_code": "91110000600037341L", "person": "丙某"})
    assert failures(check_dossier([other, LICENCE])) == [
        ("dossier.name", ("1:business_licence.name", "0:food_operation_permit.operator")),
        ("dossier.credit_code", ("1:business_licence.credit_code", "0:food_operation_permit.credit_code")),
        ("dossier.person", ("1:business_licence.person", "0:food_operation_permit.person")),
    ]


def test_a_sole_traders_id_number_on_a_permit_is_not_compared_with_the_credit_code() -> None:
    sole = ("food_operation_permit", PERMIT[1] | {"credit_code": "11010519491231002X"})
    assert failures(check_dossier([LICENCE, sole])) == []


def test_the_agents_number_must_be_that_of_the_card_with_the_agents_name() -> None:
    wrong = ("id_card", CARD[1] | {"id_number": "440524188001010014"})
    assert failures(check_dossier([LETTER, wrong])) == [
        ("dossier.agent_id_number", ("1:id_card.id_number", "0:authorisation_letter.agent_id_number"))
    ]
    assert failures(check_dossier([LETTER, ("id_card", wrong[1] | {"name": "丁某"})])) == []


def test_blank_missing_and_huge_values_are_not_compared() -> None:
    blank = ("drug_operation_permit", {"name": "****", "credit_code": None, "person": "甲" * 1_000_000})
    assert check_dossier([LICENCE, blank]) == ()
    assert check_dossier([]) == ()
    assert check_dossier([("passport", {"name": "某"})]) == ()
