"""Places: province, city and county with their real region codes, and addresses inside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

from certloop.synth.fields.vocabulary import read_data, words


@dataclass(frozen=True, slots=True)
class Place:
    """A county-level place. ``code`` is its six-digit GB/T 2260 code, ``short`` the province's one-character name."""

    province: str
    short: str
    city: str
    city_code: str
    county: str
    code: str

    @property
    def municipality(self) -> bool:
        """Beijing, Tianjin, Shanghai and Chongqing: province and city have one name."""
        return self.province == self.city

    @property
    def full(self) -> str:
        return (self.city if self.municipality else self.province + self.city) + self.county


@lru_cache(maxsize=1)
def all_places() -> tuple[Place, ...]:
    """Every county of ``synth/data/regions.toml``."""
    return tuple(
        Place(c["province"], c["short"], c["name"], c["code"], county, code)
        for c in read_data("regions")["cities"]
        for code, county in c["counties"].items()
    )


def pick_place(rng: Random) -> Place:
    return rng.choice(all_places())


def make_address(rng: Random, place: Place, *, residential: bool = False) -> str:
    """A fictional address in ``place``; the parts agree with its region code, the street is invented."""
    head = rng.choice([place.full, place.full, place.city + place.county])
    if rng.random() < 0.12:
        town, village = rng.choice(words("places", "towns")), rng.choice(words("places", "villages"))
        return f"{head}{town}{village}{rng.choice('一二三四五六七八')}组"
    road = rng.choice(words("places", "roads")) + rng.choice(words("places", "road_kinds"))
    town = rng.choice(words("places", "towns")) if rng.random() < 0.4 else ""
    number = f"{rng.randint(1, 999)}号"
    tail = ""
    if residential or rng.random() < 0.7:
        building = rng.choice(words("places", "buildings")) if rng.random() < 0.6 else ""
        block = f"{rng.randint(1, 28)}{rng.choice(['栋', '幢', '号楼'])}"
        unit = f"{rng.randint(1, 4)}单元" if residential else ""
        room = f"{rng.randint(1, 26)}{rng.randint(1, 12):02d}{rng.choice(['室', '房', '', '号'])}"
        tail = building + block + unit + room
    return head + town + road + number + tail
