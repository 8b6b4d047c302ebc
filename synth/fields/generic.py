"""Values for document types that nobody wrote a builder for (a user's folder): chosen by field kind and id, from the same
firm."""

from __future__ import annotations

from datetime import date
from random import Random

from certloop.synth.fields.builders import Order
from certloop.synth.fields.facts import Fact, Term, random_date, years_later
from certloop.synth.fields.firms import Firm, licence_authority
from certloop.synth.fields.scope import make_scope
from certloop.templates import DocumentType, FieldKind, FieldSpec


def build_generic_facts(doc_type: DocumentType, rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    """A plausible fact for every field of ``doc_type``."""
    first = max(date(order.issued[0], 1, 2), firm.established_on)
    issued = random_date(rng, first, max(first, date(order.issued[1], 12, 28)))
    return {spec.id: _fact(spec, rng, firm, order, issued) for spec in doc_type.fields.values()}


def _fact(spec: FieldSpec, rng: Random, firm: Firm, order: Order, issued: date) -> Fact:
    match spec.kind:
        case FieldKind.USCC:
            return firm.credit_code
        case FieldKind.REGNO15:
            return firm.registration_no
        case FieldKind.ID_NUMBER:
            return firm.person.id_number
        case FieldKind.DATE:
            return years_later(issued, 5) if "until" in spec.id or "expir" in spec.id else issued
        case FieldKind.DATE_RANGE:
            return Term(issued, years_later(issued, 5))
        case FieldKind.MONEY:
            return firm.capital
        case FieldKind.LONG_TEXT:
            return make_scope(rng, firm.industry, issued.year, longest=order.longest_scope)
        case FieldKind.ENUM:
            return rng.choice(spec.values) if spec.values else "是"
        case FieldKind.DIGITS:
            return "".join(rng.choice("0123456789") for _ in range(11))
        case FieldKind.LICENCE_NO:
            return f"{firm.place.short}{issued.year}{rng.randint(1, 999999):06d}号"
    return _text(spec, rng, firm, order, issued)


def _text(spec: FieldSpec, rng: Random, firm: Firm, order: Order, issued: date) -> str:
    words = spec.id + spec.label
    if any(w in words for w in ("address", "premises", "地址", "住所", "场所")):
        return order.address(rng, firm.place)
    if any(w in words for w in ("authority", "机关", "部门")):
        return licence_authority(rng, firm.place, issued)
    if any(w in words for w in ("person", "manager", "agent", "负责人", "姓名", "法定代表人")):
        return order.name(rng, rng.random() < 0.6)
    return firm.name
