"""Fictional persons whose name, sex, birth, identity number and address agree."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from random import Random

from certloop.synth.fields.codes import make_id_number
from certloop.synth.fields.domain import EVERYTHING, Domain
from certloop.synth.fields.facts import random_date
from certloop.synth.fields.regions import Place, make_address, pick_place
from certloop.synth.fields.vocabulary import words


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    male: bool
    birth: date
    ethnicity: str
    home: Place
    address: str
    id_number: str


def make_person(rng: Random, *, born: tuple[int, int] = (1955, 2000), domain: Domain = EVERYTHING) -> Person:
    """Draw a person born in one of the years ``born`` (both ends included)."""
    male = rng.random() < 0.6
    home = pick_place(rng)
    birth = random_date(rng, date(born[0], 1, 1), date(born[1], 12, 31))
    return Person(
        name=domain.draw(lambda: make_name(rng, male)),
        male=male,
        birth=birth,
        ethnicity=rng.choice(words("people", "ethnicities")),
        home=home,
        address=domain.draw(lambda: make_address(rng, home, residential=True)),
        id_number=make_id_number(rng, home.code, birth.strftime("%Y%m%d"), male),
    )


def make_name(rng: Random, male: bool) -> str:
    family = rng.choice(words("people", "surnames")) if rng.random() < 0.985 else rng.choice(words("people", "compound_surnames"))
    given = words("people", "male" if male else "female")
    return family + "".join(rng.choice(given) for _ in range(1 if rng.random() < 0.22 else 2))
