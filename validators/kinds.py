"""The kinds of value: which rules apply to each and how it is brought to its machine-readable form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from certloop.agentrl.errors import CertloopError

from . import citizen_id, organisation_codes, permits, value_rules
from .dates import parse_date, parse_date_range
from .money import parse_money
from .outcome import Outcome, Severity, Verdict
from .printed import MAX_TEXT_CHARS, MAX_VALUE_CHARS, code_text, is_blank, plain_text

Json = str | dict[str, str | bool | None]


class UnknownKindError(CertloopError, KeyError):
    """A validator kind that nobody registered; the message lists those that are."""

    code: ClassVar[str] = "unknown_kind"

    def __str__(self) -> str:  # KeyError would show the repr
        return self.message


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of field value. ``validate`` and ``normalise`` take what is printed, None if nothing is."""

    name: str
    title_zh: str
    title_en: str
    validate: Callable[[str | None], tuple[Verdict, ...]]
    normalise: Callable[[str | None], Json | None]


def validate(kind: str, value: str | None) -> tuple[Verdict, ...]:
    """The verdict of each rule of the kind on the value. Raises UnknownKindError, and nothing else whatever the value."""
    return kind_of(kind).validate(value)


def normalise(kind: str, value: str | None) -> Json | None:
    """The value in machine-readable form (never repaired), or None if it has none. Raises UnknownKindError."""
    return kind_of(kind).normalise(value)


def passes(verdicts: Sequence[Verdict]) -> bool:
    """No rule failed and at least one applied; a kind without rules passes."""
    if not verdicts:
        return True
    return not any(verdict.failed for verdict in verdicts) and any(verdict.passed for verdict in verdicts)


def kind_of(name: str) -> Kind:
    """The registered kind. Raises UnknownKindError."""
    try:
        return KINDS[name]
    except KeyError:
        raise UnknownKindError(f"unknown validator kind {name[:40]!r}; known kinds: {', '.join(KINDS)}") from None


def _ruled(
    name: str,
    zh: str,
    en: str,
    rules: Callable[[str], tuple[Verdict, ...]],
    normal: Callable[[str], Json | None],
    severity: Severity = Severity.SOFT,
) -> Kind:
    """A kind whose rules and normal form see only values that are neither blank nor overlong."""

    def validate_value(value: str | None) -> tuple[Verdict, ...]:
        if value is None or is_blank(value):
            return (Verdict(f"{name}.blank", severity, Outcome.NOT_APPLICABLE, "未填写", "nothing is printed here"),)
        if len(value) > MAX_VALUE_CHARS:
            zh_long, en_long = f"超过 {MAX_VALUE_CHARS} 个字符", f"longer than {MAX_VALUE_CHARS} characters"
            return (Verdict(f"{name}.too_long", severity, Outcome.FAIL, zh_long, en_long),)
        return rules(value)

    def normalise_value(value: str | None) -> Json | None:
        return None if value is None or is_blank(value) or len(value) > MAX_VALUE_CHARS else normal(value)

    return Kind(name, zh, en, validate_value, normalise_value)


def _free(name: str, zh: str, en: str, normal: Callable[[str], Json | None]) -> Kind:
    """A kind without rules."""

    def normalise_value(value: str | None) -> Json | None:
        return None if value is None or is_blank(value) or len(value) > MAX_TEXT_CHARS else normal(value)

    return Kind(name, zh, en, lambda _value: (), normalise_value)


def _date_json(value: str) -> str | None:
    date = parse_date(value)
    return None if date is None else date.iso()


def _date_range_json(value: str) -> Json | None:
    term = parse_date_range(value)
    if term is None:
        return None
    start, end = (None if date is None else date.iso() for date in (term.start, term.end))
    return {"start": start, "end": end, "open_ended": term.open_ended}


def _money_json(value: str) -> Json | None:
    money = parse_money(value)
    return None if money is None else {"amount": money.amount_text(), "currency": money.currency}


_HARD = Severity.HARD
_ALL = (
    _ruled("uscc", "统一社会信用代码", "unified social credit code", organisation_codes.validate_uscc, code_text, _HARD),
    _ruled("org_code", "组织机构代码", "organisation code", organisation_codes.validate_org_code, code_text, _HARD),
    _ruled("regno15", "注册号", "registration number", organisation_codes.validate_regno15, code_text, _HARD),
    _ruled("id_number", "公民身份号码", "citizen's ID number", citizen_id.validate_id_number, code_text, _HARD),
    _ruled(
        "uscc_or_id_number", "信用代码或身份证号", "credit code or ID number", value_rules.validate_uscc_or_id_number, code_text
    ),
    _ruled("food_permit_no", "食品经营许可证编号", "food operating permit number", permits.validate_food_permit_no, code_text),
    _ruled("food_record_no", "食品备案编号", "food record number", permits.validate_food_record_no, code_text),
    _ruled(
        "food_production_no",
        "食品生产许可证编号",
        "food production permit number",
        permits.validate_food_production_no,
        code_text,
    ),
    _ruled("drug_permit_no", "药品经营许可证编号", "drug operating licence number", permits.validate_drug_permit_no, code_text),
    _ruled("device_permit_no", "医疗器械许可或备案编号", "device permit number", permits.validate_device_permit_no, code_text),
    _ruled(
        "device_registration_no",
        "医疗器械注册证编号",
        "device registration number",
        permits.validate_device_registration_no,
        code_text,
    ),
    _ruled("account_approval_no", "开户许可证核准号", "account approval number", permits.validate_account_approval_no, code_text),
    _ruled(
        "road_transport_no", "道路运输经营许可证号", "road transport permit number", permits.validate_road_transport_no, code_text
    ),
    _ruled("date", "日期", "date", value_rules.validate_date, _date_json),
    _ruled("date_range", "期限", "term", value_rules.validate_date_range, _date_range_json),
    _ruled("money", "金额", "amount of money", value_rules.validate_money, _money_json),
    _ruled("digits", "数字", "digits", value_rules.validate_digits, code_text),
    _free("licence_no", "证照编号", "licence number", code_text),
    _free("text", "文本", "text", plain_text),
    _free("long_text", "长文本", "long text", plain_text),
    _free("enum", "选项", "choice", plain_text),
)
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
