"""Rules between the documents of one dossier: licence, permits, account permit and letter speak of the same company.

All soft: a branch, a franchise or a renamed company may rightly differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .citizen_id import is_valid_18
from .documents import printed
from .organisation_codes import is_valid_org_code
from .outcome import Verdict
from .printed import code_text, name_text, without_copy_suffix
from .rule import Rule, soft

Values = Mapping[str, str | None]
MIN_ADDRESS_CHARS = 5

_NAME_FIELDS = {
    "business_licence": "name",
    "food_operation_permit": "operator",
    "food_production_permit": "producer",
    "drug_operation_permit": "name",
    "device_operation_permit": "name",
    "device_production_permit": "name",
    "bank_account_permit": "name",
    "road_transport_operation_permit": "operator",
    "road_transport_certificate": "operator",
    "authorisation_letter": "principal",
}
_CODE_FIELDS = {doc_type: "credit_code" for doc_type in _NAME_FIELDS if "road" not in doc_type and "bank" not in doc_type} | {
    "authorisation_letter": "principal_code"
}
_PERSON_FIELDS = {doc_type: "person" for doc_type in _NAME_FIELDS if "road" not in doc_type} | {
    "authorisation_letter": "principal_person"
}

_ADDRESS_FIELDS = {
    "business_licence": "address",
    "food_operation_permit": "residence",
    "food_production_permit": "residence",
    "drug_operation_permit": "registered_address",
    "device_operation_permit": "residence",
    "device_production_permit": "residence",
    "road_transport_operation_permit": "address",
}
"""The registered address; the places of business may rightly be others."""

SAME_NAME = soft(
    "dossier.name", ("名称一致", "the names agree"), ("名称与其他证件不一致", "the name differs from that of another document")
)
SAME_CODE = soft(
    "dossier.credit_code",
    ("信用代码一致", "the credit codes agree"),
    ("信用代码与其他证件不一致", "the credit code differs from that of another document"),
)
SAME_PERSON = soft(
    "dossier.person",
    ("法定代表人一致", "the legal representatives agree"),
    ("法定代表人与其他证件不一致", "the legal representative differs from that of another document"),
)
SAME_ADDRESS = soft(
    "dossier.address",
    ("住所一致", "the registered addresses agree"),
    ("住所与其他证件不一致", "the registered address differs from that of another document"),
)
AGENT_NUMBER = soft(
    "dossier.agent_id_number",
    ("受托人身份证号与身份证一致", "the agent's ID number is that of the ID card"),
    ("受托人身份证号与身份证不一致", "the agent's ID number is not that of the ID card"),
)


def check_dossier(documents: Sequence[tuple[str, Values]]) -> tuple[Verdict, ...]:
    """Compare each document with the dossier's first business licence, or else with the first one that has the value.

    A verdict's ``fields`` are ``INDEX:DOC_TYPE.FIELD``, the reference first. Values are compared after NFKC, without spaces,
    with one kind of bracket; a dossier with nothing to compare has no verdicts.
    """
    verdicts: list[Verdict] = []
    rules = (
        (SAME_NAME, _NAME_FIELDS),
        (SAME_CODE, _CODE_FIELDS),
        (SAME_PERSON, _PERSON_FIELDS),
        (SAME_ADDRESS, _ADDRESS_FIELDS),
    )
    for rule, fields in rules:
        verdicts += _compare(rule, fields, documents)
    return (*verdicts, *_agent(documents))


def _compare(rule: Rule, field_of: Mapping[str, str], documents: Sequence[tuple[str, Values]]) -> list[Verdict]:
    found: list[tuple[str, str]] = []
    for index, (doc_type, values) in enumerate(documents):
        field = field_of.get(doc_type)
        value = printed(values, field) if field else None
        if value is not None:
            folded = name_text(value) if rule is not SAME_CODE else without_copy_suffix(code_text(value))
            if rule is SAME_CODE and (is_valid_18(folded) or is_valid_org_code(folded)):
                continue  # a sole trader's permit may hold an ID number, an older one the organisation code
            entry = (f"{index}:{doc_type}.{field}", folded)
            is_first_licence = doc_type == "business_licence" and not any(":business_licence." in path for path, _ in found)
            found.insert(0 if is_first_licence else len(found), entry)
    same = _same_address if rule is SAME_ADDRESS else str.__eq__
    return [rule.judge(same(value, found[0][1]), fields=(found[0][0], path)) for path, value in found[1:]]


def _same_address(a: str, b: str) -> bool:
    """One may leave out the province or the city before it; nothing behind it."""
    shorter, longer = sorted((a, b), key=len)
    return longer.endswith(shorter) and len(shorter) >= MIN_ADDRESS_CHARS


def _agent(documents: Sequence[tuple[str, Values]]) -> list[Verdict]:
    """An ID card in the dossier that bears the agent's name must bear the agent's number."""
    cards = [(index, values) for index, (doc_type, values) in enumerate(documents) if doc_type == "id_card"]
    verdicts = []
    for index, (doc_type, values) in enumerate(documents):
        if doc_type != "authorisation_letter":
            continue
        agent, number = printed(values, "agent"), printed(values, "agent_id_number")
        for card_index, card in cards:
            name, card_number = printed(card, "name"), printed(card, "id_number")
            if not (agent and number and name and card_number) or name_text(agent) != name_text(name):
                continue
            fields = (f"{card_index}:id_card.id_number", f"{index}:authorisation_letter.agent_id_number")
            verdicts.append(AGENT_NUMBER.judge(code_text(number) == code_text(card_number), fields=fields))
    return verdicts
