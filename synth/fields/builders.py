"""Facts of each document type, all written from one firm, so that a supplier's papers agree with each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from certloop.synth.fields.codes import make_food_permit_no, make_food_production_no
from certloop.synth.fields.domain import EVERYTHING, Domain
from certloop.synth.fields.facts import Fact, Term, random_date, years_later
from certloop.synth.fields.firms import Firm, drug_authority, licence_authority
from certloop.synth.fields.people import make_name, make_person
from certloop.synth.fields.regions import Place, make_address
from certloop.synth.fields.scope import make_items, make_scope
from certloop.synth.fields.vocabulary import read_data, words
from certloop.templates import UnknownTypeError


@dataclass(frozen=True, slots=True)
class Order:
    """What the layout asks of the values: years of issue, a variant of the form, and the longest scope it can hold."""

    issued: tuple[int, int] = (2016, 2025)
    variant: str = ""
    longest_scope: int = 300
    domain: Domain = EVERYTHING

    def address(self, rng: Random, place: Place) -> str:
        return self.domain.draw(lambda: make_address(rng, place))

    def name(self, rng: Random, male: bool) -> str:
        return self.domain.draw(lambda: make_name(rng, male))


Builder = Callable[[Random, Firm, Order], dict[str, Fact]]


def build_facts(type_id: str, rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    """Facts by field id for one document of ``type_id``. Raises UnknownTypeError (code unknown_type)."""
    try:
        builder = BUILDERS[type_id]
    except KeyError:
        raise UnknownTypeError(f"no value generator for document type {type_id!r}; known: {', '.join(BUILDERS)}") from None
    return builder(rng, firm, order)


def _licence(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    return {
        "credit_code": firm.credit_code,
        "registration_no": firm.registration_no,
        "name": firm.name,
        "type": firm.type,
        "person": firm.person.name,
        "organization_form": rng.choice(["个人经营", "个人经营", "家庭经营"]),
        "registered_capital": firm.capital,
        "paid_in_capital": firm.paid_in,
        "established_on": firm.established_on,
        "term": firm.term,
        "address": firm.address,
        "scope": make_scope(rng, firm.industry, firm.issued_on.year, longest=order.longest_scope),
        "authority": licence_authority(rng, firm.place, firm.issued_on),
        "issued_on": firm.issued_on,
        "serial_no": rng.choice(
            [f"S{rng.randint(10**11, 10**12 - 1)}", f"{firm.place.code}{firm.issued_on:%Y%m%d}{rng.randint(1, 9999):04d}"]
        ),
    }


def _issue(rng: Random, firm: Firm, order: Order) -> date:
    """A permit is issued after the licence and within the years that the form was in use."""
    first = max(date(order.issued[0], 1, 2), firm.established_on)
    return random_date(rng, first, max(first, date(order.issued[1], 12, 28)))


def _food(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    issued = _issue(rng, firm, order)
    form = rng.choice(words("texts", "food_forms"))
    digit = "1" if form.startswith("食品") else "2" if form.startswith("餐饮") else "3"
    authority = drug_authority(rng, firm.place, issued)
    code = firm.person.id_number if firm.form == "individual" and rng.random() < 0.5 else firm.credit_code
    return {
        "operator": firm.name,
        "credit_code": code,
        "person": firm.person.name,
        "residence": firm.address,
        "premises": firm.address if rng.random() < 0.7 else order.address(rng, firm.place),
        "business_form": form,
        "items": make_items(rng, "food_items", "sale" if digit == "1" else "catering", 1, 4),
        "permit_no": make_food_permit_no(rng, firm.place.code, digit),
        "valid_until": years_later(issued, 5),
        **_supervision(rng, firm, order, authority),
        "issued_on": issued,
    }


def _supervision(rng: Random, firm: Firm, order: Order, authority: str) -> dict[str, Fact]:
    body = firm.place.county.rstrip("区县市") + rng.choice(words("texts", "supervision"))
    staff = rng.choice(["、", " ", "，"]).join(order.name(rng, rng.random() < 0.6) for _ in range(rng.choice([1, 2, 2])))
    return {
        "supervision_body": rng.choice([body, authority]),
        "supervision_staff": staff,
        "hotline": rng.choice(words("texts", "hotlines")),
        "authority": authority,
        "signer": order.name(rng, True),
    }


def _food_production(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    issued = _issue(rng, firm, order)
    return {
        "producer": firm.name,
        "credit_code": firm.credit_code,
        "person": firm.person.name,
        "residence": firm.address,
        "premises": firm.address if rng.random() < 0.6 else order.address(rng, firm.place),
        "food_types": make_items(rng, "food_types", "items", 1, 4),
        "permit_no": make_food_production_no(rng, firm.place.code),
        "valid_until": years_later(issued, 5),
        **_supervision(rng, firm, order, drug_authority(rng, firm.place, issued)),
        "issued_on": issued,
    }


def _drug(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    issued = _issue(rng, firm, order)
    kind = rng.choice("ABCD")
    if issued.year >= 2024:
        number = f"{firm.place.short}{kind}{rng.choice('AB')}{firm.place.code[2:]}{rng.randint(1, 99999):05d}"
    else:
        number = f"{firm.place.short}{kind}{rng.choice('AB')}{rng.randint(1000000, 9999999)}"
    mode = {
        "A": "批发",
        "B": "零售（连锁总部）",
        "C": rng.choice(["零售（连锁）", "零售(连锁门店)"]),
        "D": rng.choice(["零售", "零售(单体)"]),
    }[kind]
    return {
        "name": firm.name,
        "credit_code": firm.credit_code,
        "person": firm.person.name,
        "manager": firm.person.name if rng.random() < 0.5 else order.name(rng, True),
        "quality_manager": order.name(rng, rng.random() < 0.5),
        "mode": mode,
        "scope": make_items(rng, "drug", "items", 3, 9),
        "registered_address": firm.address,
        "warehouse": rng.choice(["***", "无", order.address(rng, firm.place)])
        if kind in "CD"
        else order.address(rng, firm.place),
        "permit_no": number,
        "serial_no": f"{rng.randint(10**7, 10**8 - 1)}",
        "authority": drug_authority(rng, firm.place, issued, province=kind in "AB"),
        "issued_on": issued,
        "valid_until": years_later(issued, 5),
    }


def _device_number(rng: Random, place: Place, issued: date, word: str) -> str:
    city = "" if place.municipality else place.city[0]
    agency = "食药监" if issued.year < 2019 else "药监"
    return f"{place.short}{city}{agency}械{word}{issued.year}{rng.randint(1, 9999):04d}号"


def _device(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    issued = _issue(rng, firm, order)
    record = order.variant == "record"
    classes = "；".join(
        sorted(make_items(rng, "device", "second" if record or rng.random() < 0.5 else "third", 3, 14, stop="；").split("；"))
    )
    scope = ("二类：" if record else rng.choice(["三类：", "Ⅲ类：", "第三类医疗器械：", ""])) + classes.replace(
        "；", rng.choice(["；", "，", "，"])
    )
    if record and rng.random() < 0.3:
        scope = "全部二类医疗器械"
    return {
        "name": firm.name,
        "credit_code": firm.credit_code,
        "permit_no": _device_number(rng, firm.place, issued, "经营备" if record else "经营许"),
        "person": firm.person.name,
        "manager": firm.person.name if rng.random() < 0.5 else order.name(rng, True),
        "quality_manager": order.name(rng, False),
        "mode": rng.choice(words("texts", "device_modes")),
        "residence": firm.address,
        "premises": firm.address if rng.random() < 0.6 else order.address(rng, firm.place),
        "warehouse": order.address(rng, firm.place),
        "scope": scope[: order.longest_scope],
        "authority": drug_authority(rng, firm.place, issued),
        "issued_on": issued,
        "valid_until": years_later(issued, 5),
    }


def _device_production(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    facts = _device(rng, firm, order)
    issued = facts["issued_on"]
    assert isinstance(issued, date)
    facts["permit_no"] = (
        f"{firm.place.short}{'食' if issued.year < 2019 else ''}药监械生产许{issued.year}{rng.randint(1, 9999):04d}号"
    )
    facts["scope"] = make_items(rng, "device", "production", 1, 4, stop="；")
    facts["authority"] = drug_authority(rng, firm.place, issued, province=True)
    return {k: v for k, v in facts.items() if k not in ("quality_manager", "mode", "warehouse")}


def _account(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    issued = _issue(rng, firm, order)
    bank = (
        f"{rng.choice(words('texts', 'banks'))}{firm.place.city.removesuffix('市')}{rng.choice(words('texts', 'bank_branches'))}"
    )
    area = f"{firm.place.code[:2]}{rng.randint(10, 90)}"
    return {
        "name": firm.name,
        "bank": bank,
        "account": "".join(str(rng.randint(0, 9)) for _ in range(rng.choice([15, 16, 17, 18, 19]))).replace("0", "6", 1),
        "approval_no": f"J{area}{rng.randint(1, 9999999):07d}{rng.choice(['01', '02', '03'])}",
        "permit_no": f"{area}-{rng.randint(1, 99999999):08d}",
        "person": firm.person.name,
        "authority": f"中国人民银行{firm.place.city.removesuffix('市')}{rng.choice(['分行', '中心支行'])}",
        "issued_on": issued,
    }


def _transport_office(rng: Random, place: Place) -> str:
    return rng.choice([f"{place.city}{place.county}道路运输管理局", f"{place.city}交通运输局", f"{place.city}道路运输管理处"])


def _transport(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    issued = _issue(rng, firm, order)
    number = f"{firm.place.short}交运管许可{firm.place.county[0]}字{firm.place.code}{rng.randint(1, 999999):06d}号"
    return {
        "operator": firm.name,
        "address": firm.address,
        "scope": make_items(rng, "transport", "operator", 1, 3),
        "permit_no": number,
        "valid_from": issued,
        "valid_until": years_later(issued, 4),
        "authority": _transport_office(rng, firm.place),
        "issued_on": issued,
    }


def _vehicle(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    issued = _issue(rng, firm, order)
    plate = (
        f"{firm.place.short}{rng.choice('ABCDEFGH')}{''.join(rng.choice('0123456789ABCDEFGHJKLMNPQRSTUVWXYZ') for _ in range(5))}"
    )
    vehicle = rng.choice(words("texts", "vehicle_types"))
    size = (rng.randint(5990, 12000), rng.randint(2000, 2550), rng.randint(2200, 3990))
    load = (
        f"{rng.randint(20, 55)}座"
        if "客车" in vehicle
        else rng.choice([f"{rng.uniform(1.5, 31):.3f}吨", f"{rng.randint(2, 31)}吨"])
    )
    return {
        "operator": firm.name,
        "address": firm.address,
        "plate": plate + rng.choice(["", "（黄色）", "(黄)", ""]),
        "permit_no": f"{firm.place.code}{rng.randint(1, 999999):06d}",
        "economic_type": rng.choice(words("texts", "economic_types")),
        "vehicle_type": vehicle,
        "capacity": load,
        "length": str(size[0]),
        "width": str(size[1]),
        "height": str(size[2]),
        "scope": make_items(rng, "transport", "vehicle", 1, 2),
        "first_issued_on": issued - timedelta(days=rng.randint(0, 1500)),
        "issued_on": issued,
        "certificate_no": f"{firm.place.short}交运管{firm.place.county[0]}字{firm.place.code}{rng.randint(1, 999999):06d}号",
        "authority": _transport_office(rng, firm.place),
        "remarks": rng.choice(["无", "总质量25000kg", "二级维护按期执行", "燃油类型：柴油"]),
    }


def _identity(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    person = firm.person
    age = firm.issued_on.year - person.birth.year
    start = firm.issued_on
    end = None if age >= 46 else years_later(start, 20 if age >= 26 else 10) + timedelta(days=1)
    return {
        "name": person.name,
        "sex": "男" if person.male else "女",
        "ethnicity": person.ethnicity,
        "birth": person.birth,
        "address": person.address,
        "id_number": person.id_number,
        "authority": f"{person.home.city if rng.random() < 0.4 else ''}{person.home.county}公安局".replace(
            "区公安局", rng.choice(["分局", "区公安局"])
        )
        if not person.home.municipality
        else f"{person.home.city}公安局{person.home.county.rstrip('区县')}分局",
        "term": Term(start, end),
    }


def _letter(rng: Random, firm: Firm, order: Order) -> dict[str, Fact]:
    texts = read_data("scopes")["letter"]
    agent = make_person(rng, born=(1968, 1999), domain=order.domain)
    signed = _issue(rng, firm, order)
    project = rng.choice(texts["projects"])
    end = signed + timedelta(days=rng.choice([30, 60, 90, 180, 364]))
    return {
        "principal": firm.name,
        "principal_code": firm.credit_code,
        "principal_person": firm.person.name,
        "agent": agent.name,
        "agent_id_number": agent.id_number,
        "agent_title": rng.choice(words("texts", "titles")),
        "agent_phone": f"1{rng.choice('3578')}{rng.randint(0, 10**9 - 1):09d}",
        "matter": rng.choice(texts["matters"]).format(project=project),
        "powers": rng.choice(texts["powers"]),
        "project": project,
        "term": Term(signed, end),
        "no_sub_delegation": rng.choice(["代理人无转委托权", "受托人无转委托权", "被授权人无转委托权"]),
        "signed_on": signed,
    }


BUILDERS: Mapping[str, Builder] = {
    "business_licence": _licence,
    "food_operation_permit": _food,
    "food_production_permit": _food_production,
    "drug_operation_permit": _drug,
    "device_operation_permit": _device,
    "device_production_permit": _device_production,
    "bank_account_permit": _account,
    "road_transport_operation_permit": _transport,
    "road_transport_certificate": _vehicle,
    "id_card": _identity,
    "authorisation_letter": _letter,
}
