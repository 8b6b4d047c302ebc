"""Fictional firms: one record that every document of a dossier is written from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any

from certloop.synth.fields.codes import make_registration_no, make_uscc
from certloop.synth.fields.domain import EVERYTHING, Domain, ValueDomainError
from certloop.synth.fields.facts import Money, Term, random_date, years_later
from certloop.synth.fields.people import Person, make_person
from certloop.synth.fields.regions import Place, make_address, pick_place
from certloop.synth.fields.scope import industries
from certloop.synth.fields.vocabulary import words

FORMS = ("company", "individual", "branch", "sole", "partnership", "foreign")


@dataclass(frozen=True, slots=True)
class Firm:
    """A legal person or trader. ``form`` is one of FORMS; ``issued_on`` is the date of its licence."""

    form: str
    name: str
    place: Place
    address: str
    type: str
    credit_code: str
    registration_no: str
    person: Person
    capital: Money
    paid_in: Money
    established_on: date
    issued_on: date
    term: Term
    industry: dict[str, Any]


def make_firm(
    rng: Random,
    *,
    form: str = "company",
    issued: tuple[int, int] = (2016, 2025),
    industry: str | None = None,
    domain: Domain = EVERYTHING,
) -> Firm:
    """Draw a firm whose licence was issued in one of the years ``issued``; name, region, code, form and dates agree."""
    person = make_person(rng, born=(1955, 1998), domain=domain)
    chosen = next((i for i in industries() if i["key"] == industry), None) or rng.choice(industries())
    name, place = _named_place(rng, form, person, chosen, domain)
    issued_on = random_date(rng, date(issued[0], 1, 1), date(issued[1], 12, 28))
    first_year = max(1993, issued_on.year - 12)
    established_on = issued_on if rng.random() < 0.4 else random_date(rng, date(first_year, 1, 4), issued_on)
    years = rng.choice([10, 20, 20, 30, 50])
    end = None if rng.random() < 0.55 and issued[0] > 2012 else years_later(established_on, years)
    amount = rng.choice([3, 5, 10, 20, 30, 50, 50, 80, 100, 100, 200, 300, 500, 500, 800, 1000, 1005, 1200, 2000, 3000, 5000])
    paid = rng.choice([amount, amount, max(1, amount // 5)])
    currency = rng.choice(["美元", "港元"]) if form == "foreign" else "人民币"
    kind = {"individual": "2"}.get(form, "1")
    return Firm(
        form=form,
        name=name,
        place=place,
        address=domain.draw(lambda: make_address(rng, place)),
        type=_type(rng, form, name),
        credit_code=make_uscc(rng, place.code, kind=kind, since_2016=established_on.year >= 2016),
        registration_no=make_registration_no(rng, place.code, individual=form == "individual"),
        person=person,
        capital=Money(amount, currency),
        paid_in=Money(paid, currency),
        established_on=established_on,
        issued_on=issued_on,
        term=Term(established_on, end),
        industry=chosen,
    )


def licence_authority(rng: Random, place: Place, day: date) -> str:
    """The registration authority of ``place``: 工商行政管理局 until 2018, 市场监督管理局 since."""
    office = "工商行政管理局" if day.year < 2018 else rng.choice(["市场监督管理局", "市场监督管理局", "行政审批局"])
    if place.municipality:
        return rng.choice([f"{place.city}{place.county}{office}", f"{place.city}{office}"])
    return rng.choice(
        [
            f"{place.city}{office}",
            f"{place.city}{place.county}{office}",
            f"{place.city}{office}{place.county.rstrip('区县市')}分局",
        ]
    )


def drug_authority(rng: Random, place: Place, day: date, *, province: bool = False) -> str:
    """The food, drug and device authority of ``place`` at that time."""
    where = place.province if province and not place.municipality else rng.choice([place.city, place.city + place.county])
    if province:
        return where + ("食品药品监督管理局" if day.year < 2018 else "药品监督管理局")
    return where + ("食品药品监督管理局" if day.year < 2018 else rng.choice(["市场监督管理局", "行政审批服务局"]))


def _named_place(rng: Random, form: str, person: Person, industry: dict[str, Any], domain: Domain) -> tuple[str, Place]:
    """A place and a name there that the domain accepts; a small place may have no such name, then another is drawn."""
    for _ in range(500):
        place = pick_place(rng)
        for _ in range(20):
            name = _name(rng, form, place, person, industry)
            if domain.accepts(name):
                return name, place
    raise ValueDomainError(f"no name of a {form} in the domain [{domain.low:g}, {domain.high:g}); widen the split")


def _name(rng: Random, form: str, place: Place, person: Person, industry: dict[str, Any]) -> str:
    city = rng.choice([place.city, place.city.removesuffix("市"), place.province if not place.municipality else place.city])
    trade = rng.choice(words("names", "first")) + rng.choice(words("names", "second"))
    if rng.random() < 0.25:
        trade += rng.choice(words("names", "second"))
    business = rng.choice(industry["name_words"])
    match form:
        case "individual":
            own = rng.choice(words("names", "individual")) if rng.random() < 0.7 else person.name[0] + "记"
            kind = rng.choice(
                {"food": ["餐饮店", "小吃店", "食品店", "超市", "便利店"], "medical": ["药店", "大药房", "医疗器械店"]}.get(
                    industry["key"], ["经营部", "商行", "店"]
                )
            )
            return f"{place.city}{place.county}{own}{kind}"
        case "branch":
            parent = rng.choice(["", "", rng.choice(["上海市", "广州市", "深圳市"])]) or city
            seat = rng.choice([place.city.removesuffix("市"), place.county.rstrip("区县市")])
            return f"{parent}{trade}{business}有限公司{seat}分公司"
        case "sole":
            return f"{place.city}{place.county}{trade}{business}{rng.choice(['中心', '经营部', '厂', '服务部'])}"
        case "partnership":
            return f"{city}{trade}企业管理合伙企业（{rng.choice(['有限', '普通'])}合伙）"
        case "foreign":
            return f"{trade}（{city.removesuffix('市')}）{business}有限公司"
    bracketed = rng.random() < 0.2
    suffix = rng.choices(["有限公司", "有限责任公司", "股份有限公司"], [80, 14, 6])[0]
    short = city.removesuffix("市") if bracketed else city
    return f"{trade}（{short}）{business}{suffix}" if bracketed else f"{short}{trade}{business}{suffix}"


def _type(rng: Random, form: str, name: str) -> str:
    """A type that agrees with the name's ending: the law makes a name say whether members are liable, and how far (Company
    Law article 7; Partnership Enterprise Law articles 15 and 62)."""
    match form:
        case "individual":
            return "个体工商户"
        case "branch":
            return rng.choice(words("forms", "branch_types"))
        case "sole":
            return "个人独资企业"
        case "partnership":
            return "有限合伙企业" if name.endswith("（有限合伙）") else "普通合伙企业"
        case "foreign":
            return rng.choice(["有限责任公司(外国法人独资)", "有限责任公司（港澳台法人独资）"])
    shares, drawn = name.endswith("股份有限公司"), rng.choice(words("forms", "company_types")[:8])
    if ("股份" in drawn) is shares:
        return drawn
    fitting = words("forms", "share_types" if shares else "company_types")
    return fitting[len(drawn) % len(fitting) if shares else 0]
