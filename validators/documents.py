"""Rules between the fields of one document. All soft: a failure says that the fields disagree, not which of them is wrong.

Every rule of a document type answers every time; without the values it needs it is not applicable. Field ids are those of
the document types in ``templates/``; a type or field unknown here has no rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from . import citizen_id, field_dates, organisation_codes, permits
from .outcome import Verdict
from .printed import MAX_VALUE_CHARS, code_text, is_blank, without_copy_suffix
from .regions import is_province, province_of_address
from .rule import Rule, soft
from .value_rules import validate_uscc_or_id_number

Values = Mapping[str, str | None]

_ADDRESS_FIELDS: dict[str, tuple[str, ...]] = {
    "business_licence": ("address",),
    "food_operation_permit": ("premises", "residence"),
    "food_production_permit": ("residence", "premises"),
    "drug_operation_permit": ("registered_address",),
    "device_operation_permit": ("residence", "premises"),
    "device_production_permit": ("residence", "premises"),
}
_FOOD = ("food_operation_permit", "food_production_permit")
_BUSINESS_FORMS = {"1": "销售", "2": "餐饮", "3": "食堂"}
_DRUG_MODES = {"A": "批发", "B": "连锁", "C": "零售", "D": "零售"}
_QR_CODE = re.compile(r"(?<![0-9A-Z])[0-9A-HJ-NPQRTUWXY]{18}(?![0-9A-Z])")
_QR_PERMIT = re.compile(r"(?<![0-9A-Z])(?:JY|SC|YB)[0-9]{14}(?![0-9A-Z])")
_MAX_QR_PAYLOADS = 64

CODE_PRESENT = soft(
    "business_licence.number_present",
    ("有统一社会信用代码或注册号", "a credit code or registration number is present"),
    ("既无统一社会信用代码也无注册号", "neither a credit code nor a registration number"),
)
CODE_CLASS = soft(
    "business_licence.code_class",
    ("代码由市场监管部门赋予", "the code was given by the market regulator"),
    ("营业执照的代码通常以 91、92 或 93 开头", "the code of a licence normally begins with 91, 92 or 93"),
)
CODE_REGION = soft(
    "region_matches_address",
    ("代码的省份与地址一致", "the province of the code is that of the address"),
    ("代码的省份与地址不一致（迁址后代码不变）", "the province of the code is not that of the address (codes survive moves)"),
)
PERMIT_REGION = soft(
    "permit_region_matches_address",
    ("许可证编号的省份与地址一致", "the province of the permit number is that of the address"),
    ("许可证编号的省份与地址不一致", "the province of the permit number is not that of the address"),
)
FOOD_CODE = soft(
    "food_permit.credit_code",
    ("是信用代码、组织机构代码或身份证号码", "a credit code, an organisation code or an ID number"),
    ("不是信用代码、组织机构代码或身份证号码", "no credit code, organisation code or ID number"),
)
BUSINESS_FORM = soft(
    "food_operation_permit.business_form",
    ("主体业态与编号一致", "the business form fits the permit number"),
    ("主体业态与编号不一致", "the business form does not fit the permit number"),
)
DRUG_MODE = soft(
    "drug_operation_permit.mode",
    ("经营方式与编号一致", "the mode of business fits the permit number"),
    ("经营方式与编号不一致", "the mode of business does not fit the permit number"),
)
ACCOUNT_NUMBER = soft(
    "bank_account_permit.number_present",
    ("有核准号或编号", "an approval or permit number is present"),
    ("既无核准号也无编号", "neither an approval nor a permit number"),
)
ID_BIRTH = soft(
    "id_card.birth_matches_number",
    ("出生日期与号码一致", "the printed birth date is that of the number"),
    ("出生日期与号码不一致", "the printed birth date is not that of the number"),
)
ID_SEX = soft(
    "id_card.sex_matches_number",
    ("性别与号码一致", "the printed sex is that of the number"),
    ("性别与号码不一致", "the printed sex is not that of the number"),
)
QR_AGREES = soft(
    "qr_agrees",
    ("二维码与印刷的代码一致", "the QR code holds the printed number"),
    ("二维码中的代码与印刷的不一致", "the QR code holds another number than is printed"),
)


def check_document(doc_type: str, values: Values, qr_payloads: Sequence[str] = ()) -> tuple[Verdict, ...]:
    """The verdicts of all rules between fields of one document and between the print and its QR codes."""
    verdicts: list[Verdict] = list(field_dates.check_dates(doc_type, values))
    if doc_type == "business_licence":
        verdicts += _check_licence(values)
    elif doc_type in _FOOD:
        verdicts.append(_food_code(values))
    elif doc_type == "bank_account_permit":
        present = not (is_blank(values.get("approval_no")) and is_blank(values.get("permit_no")))
        verdicts.append(ACCOUNT_NUMBER.judge(present, fields=("approval_no", "permit_no")))
    elif doc_type == "id_card":
        verdicts += _check_id_card(values)
    if doc_type == "food_operation_permit":
        verdicts.append(_business_form(values))
    if doc_type == "drug_operation_permit":
        verdicts.append(_drug_mode(values))
    if doc_type in _ADDRESS_FIELDS:
        verdicts.append(_code_region(doc_type, values))
        if doc_type != "business_licence":
            verdicts.append(_permit_region(doc_type, values))
    if qr_payloads:
        verdicts.append(_qr(values, qr_payloads))
    return tuple(verdicts)


def printed(values: Values, field: str) -> str | None:
    """The field's value if something of a reasonable length is printed there."""
    value = values.get(field)
    return None if value is None or is_blank(value) or len(value) > MAX_VALUE_CHARS else value


def _check_licence(values: Values) -> list[Verdict]:
    fields = ("credit_code", "registration_no")
    verdicts = [CODE_PRESENT.judge(not all(is_blank(values.get(field)) for field in fields), fields=fields)]
    code = _credit_code(values)
    if code is None:
        verdicts.append(_lacking(CODE_CLASS, ("credit_code",)))
    else:
        verdicts.append(CODE_CLASS.judge(code[:2] in ("91", "92", "93"), fields=("credit_code",)))
    return verdicts


def _food_code(values: Values) -> Verdict:
    value = printed(values, "credit_code")
    if value is None:
        return _lacking(FOOD_CODE, ("credit_code",))
    (either,) = validate_uscc_or_id_number(value)
    if not (either.passed or either.failed):
        return FOOD_CODE.skip(either.message_zh, either.message_en, fields=("credit_code",))
    return FOOD_CODE.judge(either.passed, suggestion=either.suggestion, fields=("credit_code",))


def _business_form(values: Values) -> Verdict:
    fields = ("permit_no", "business_form")
    number, form = (printed(values, field) for field in fields)
    word = _BUSINESS_FORMS.get(permits.food_business_form(number) or "") if number else None
    named = {known for known in _BUSINESS_FORMS.values() if form and known in form}
    if word is None or not named:
        return _lacking(BUSINESS_FORM, fields)
    return BUSINESS_FORM.judge(word in named, fields=fields)


def _drug_mode(values: Values) -> Verdict:
    fields = ("permit_no", "mode")
    number, mode = (printed(values, field) for field in fields)
    generation = permits.drug_permit_generation(number) if number else None
    if number is None or generation in (None, "1999") or mode is None or not re.search("批发|零售|连锁", mode):
        return _lacking(DRUG_MODE, fields)
    return DRUG_MODE.judge(_DRUG_MODES[code_text(number)[1]] in mode, fields=fields)


def _check_id_card(values: Values) -> list[Verdict]:
    number, birth, sex = (printed(values, field) for field in ("id_number", "birth", "sex"))
    holder = citizen_id.holder_of(number) if number else None
    verdicts = []
    birth_fields, sex_fields = ("id_number", "birth"), ("id_number", "sex")
    born = field_dates.date_of(values, "birth") if birth else None
    if holder is None or born is None:
        verdicts.append(_lacking(ID_BIRTH, birth_fields))
    else:
        verdicts.append(ID_BIRTH.judge(born.may_be_by(holder.birth) and holder.birth.may_be_by(born), fields=birth_fields))
    said = {"男": "男", "女": "女", "M": "男", "F": "女"}.get(code_text(sex)) if sex else None
    if holder is None or said is None:
        verdicts.append(_lacking(ID_SEX, sex_fields))
    else:
        verdicts.append(ID_SEX.judge(said == holder.sex, fields=sex_fields))
    return verdicts


def _code_region(doc_type: str, values: Values) -> Verdict:
    address_field, province = _address(doc_type, values)
    code = _credit_code(values)
    source, region = "credit_code", code[2:8] if code else None
    number = printed(values, "registration_no")
    if region is None and number is not None and re.fullmatch(r"[0-9]{13,15}", code_text(number)):
        source, region = "registration_no", code_text(number)[:6]
    fields = (source, address_field)
    if region is None or province is None:
        return _lacking(CODE_REGION, fields)
    if not is_province(region[:2]):
        return CODE_REGION.skip("代码不含省份（如 100000）", "the code names no province (such as 100000)", fields=fields)
    return CODE_REGION.judge(region[:2] == province, fields=fields)


def _permit_region(doc_type: str, values: Values) -> Verdict:
    address_field, province = _address(doc_type, values)
    number = printed(values, "permit_no")
    region = permits.province_of_permit(number) if number else None
    fields = ("permit_no", address_field)
    if region is None or province is None:
        return _lacking(PERMIT_REGION, fields)
    return PERMIT_REGION.judge(region == province, fields=fields)


def _address(doc_type: str, values: Values) -> tuple[str, str | None]:
    """The first address field from which a province can be told, and the province."""
    candidates = _ADDRESS_FIELDS[doc_type]
    for field in candidates:
        value = printed(values, field)
        province = province_of_address(value) if value else None
        if province is not None:
            return field, province
    return candidates[0], None


def _qr(values: Values, payloads: Sequence[str]) -> Verdict:
    """Compare the codes in the QR payloads with the printed ones of the same kind (credit codes; JY, SC, YB numbers)."""
    texts = [code_text(payload) for payload in payloads[:_MAX_QR_PAYLOADS] if len(payload) <= MAX_VALUE_CHARS]
    # NFKC and removed spaces must not glue a code to its label, so the raw payload is searched as well
    texts += [payload.upper() for payload in payloads[:_MAX_QR_PAYLOADS] if len(payload) <= MAX_VALUE_CHARS]
    codes = {code for text in texts for code in _QR_CODE.findall(text) if organisation_codes.is_valid_uscc(code)}
    numbers = {number for text in texts for number in _QR_PERMIT.findall(text)}
    agreements: dict[str, bool] = {}
    for field, found in (("credit_code", codes), ("permit_no", numbers)):
        value = printed(values, field)
        if value is not None and found and (field == "credit_code" or code_text(value)[:2] in ("JY", "SC", "YB")):
            agreements[field] = without_copy_suffix(code_text(value)) in found
    if not agreements:
        return QR_AGREES.skip("二维码中没有可比对的代码", "the QR codes hold no number to compare", fields=("credit_code",))
    return QR_AGREES.judge(all(agreements.values()), fields=tuple(agreements))


def _credit_code(values: Values) -> str | None:
    """The printed credit code if it has the form of one (an ID number in its place has not)."""
    value = printed(values, "credit_code")
    code = without_copy_suffix(code_text(value)) if value else ""
    return code if organisation_codes.is_valid_uscc(code) and not citizen_id.is_valid_18(code) else None


def _lacking(rule: Rule, fields: tuple[str, ...]) -> Verdict:
    return rule.skip("缺少可比对的值", "a value to compare is missing", fields=fields)
