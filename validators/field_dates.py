"""Rules between the dates of one document: their order, five-year terms, and the term of an ID card by its holder's age."""

from __future__ import annotations

from collections.abc import Mapping

from . import citizen_id
from .dates import DateRange, PartialDate, last_day_of_term, parse_date, parse_date_range
from .outcome import Verdict
from .printed import is_blank
from .rule import soft

Values = Mapping[str, str | None]

_ORDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "business_licence": (
        ("established_on", "issued_on"),
        ("established_on", "term.end"),
        ("term.start", "term.end"),
        ("term.start", "issued_on"),
        ("issued_on", "term.end"),
    ),
    "food_operation_permit": (("issued_on", "valid_until"),),
    "food_production_permit": (("issued_on", "valid_until"),),
    "drug_operation_permit": (("issued_on", "valid_until"),),
    "device_operation_permit": (("issued_on", "valid_until"),),
    "device_production_permit": (("issued_on", "valid_until"),),
    "road_transport_operation_permit": (("valid_from", "valid_until"), ("issued_on", "valid_until")),
    "road_transport_certificate": (("first_issued_on", "issued_on"),),
    "id_card": (("birth", "term.start"), ("term.start", "term.end")),
    "authorisation_letter": (("term.start", "term.end"), ("signed_on", "term.end")),
}
"""Document type to pairs (not later than, this); ``term.start`` is the start of the range in the field ``term``."""

_FIVE_YEARS = frozenset(doc_type for doc_type, pairs in _ORDERS.items() if pairs == (("issued_on", "valid_until"),))

DATE_ORDER = soft("date_order", ("日期先后合理", "the dates are in order"), ("日期先后颠倒", "the dates are in the wrong order"))
FIVE_YEARS = soft(
    "five_year_term",
    ("有效期为五年", "valid for five years"),
    ("有效期不是自签发起五年减一天（变更、补发的证除外）", "not five years less a day from issue (a changed permit may differ)"),
)
TERM_BY_AGE = soft(
    "id_card.term_by_age",
    ("有效期限与年龄相符", "the term fits the holder's age"),
    ("有效期限与年龄不符（依年龄为 5 年、10 年、20 年或长期）", "the term does not fit the age (5, 10, 20 years or long)"),
)


def check_dates(doc_type: str, values: Values) -> tuple[Verdict, ...]:
    """The date rules of the document type; empty for a type without any."""
    verdicts = [_order(values, earlier, later) for earlier, later in _ORDERS.get(doc_type, ())]
    if doc_type in _FIVE_YEARS:
        verdicts.append(_five_years(values))
    if doc_type == "id_card":
        verdicts.append(_term_by_age(values))
    return tuple(verdicts)


def date_of(values: Values, path: str) -> PartialDate | None:
    """The date in a field, or at ``field.start`` or ``field.end`` of a range; None if blank or unreadable."""
    field, _, part = path.partition(".")
    value = values.get(field)
    if value is None or is_blank(value):
        return None
    if not part:
        return parse_date(value)
    term = parse_date_range(value)
    if term is None:
        return None
    return term.start if part == "start" else term.end


def _order(values: Values, earlier: str, later: str) -> Verdict:
    fields = tuple(dict.fromkeys(path.partition(".")[0] for path in (earlier, later)))
    first, second = date_of(values, earlier), date_of(values, later)
    if first is None or second is None:
        return DATE_ORDER.skip("缺少可比对的日期", "a date to compare is missing", fields=fields)
    return DATE_ORDER.judge(first.may_be_by(second), fields=fields)


def _five_years(values: Values) -> Verdict:
    fields = ("issued_on", "valid_until")
    issued, until = (date_of(values, field) for field in fields)
    expected = last_day_of_term(issued, 5) if issued else None
    if until is None or until.precision != "day" or expected is None:
        return FIVE_YEARS.skip("缺少可比对的日期", "a date to compare is missing", fields=fields)
    return FIVE_YEARS.judge(until == expected, fields=fields)


def _term_by_age(values: Values) -> Verdict:
    fields = ("id_number", "birth", "term")
    number, term_text = values.get("id_number"), values.get("term")
    holder = citizen_id.holder_of(number) if number and not is_blank(number) and len(number) < 100 else None
    birth = holder.birth if holder else date_of(values, "birth")
    term = parse_date_range(term_text) if term_text else None
    known = _is_exact(birth) and term is not None and _is_exact(term.start) and (term.open_ended or _is_exact(term.end))
    if not known or birth is None or term is None or term.start is None:
        return TERM_BY_AGE.skip("缺少可比对的值", "a value to compare is missing", fields=fields)
    age = _full_years(birth, term.start)
    expected = 5 if age < 16 else 10 if age < 26 else 20 if age < 46 else None
    return TERM_BY_AGE.judge(_years(term) == expected, fields=fields)


def _is_exact(date: PartialDate | None) -> bool:
    return date is not None and date.precision == "day"


def _full_years(birth: PartialDate, on: PartialDate) -> int:
    before_birthday = (on.month or 0, on.day or 0) < (birth.month or 0, birth.day or 0)
    return on.year - birth.year - before_birthday


def _years(term: DateRange) -> int | None:
    """Whole years of a term, None for an open one, -1 if it is not a whole number of years."""
    if term.open_ended or term.start is None or term.end is None:
        return None
    leap_day = (term.start.month, term.start.day) == (2, 29)
    anniversary = [(term.start.month, term.start.day)] + ([(2, 28), (3, 1)] if leap_day else [])
    return term.end.year - term.start.year if (term.end.month, term.end.day) in anniversary else -1
