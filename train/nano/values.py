"""Consistent values of one demonstration licence: region, code, name, form and date agree as they do in the data engine."""

from __future__ import annotations

from random import Random

from certloop.synth.fields.codes import make_uscc, spoil_check_digit
from certloop.train.nano.vocabulary import words

MISPRINTS = 0.1
"""Share of codes with a wrong check digit: what is printed is the answer, a model must not learn to repair it."""


def draw_values(rng: Random, *, trader: bool) -> dict[str, str]:
    """Return field id to printed value, all six fields."""
    known = words()
    region, county = rng.choice(list(known.counties.items()))
    since_2016 = rng.random() < 0.7
    code = make_uscc(rng, region, kind="2" if trader else "1", since_2016=since_2016)
    year = rng.randint(2016, 2025) if since_2016 else rng.randint(1996, 2015)
    month, day = rng.randint(1, 12), rng.randint(1, 28)
    date = f"{year}年{month:02d}月{day:02d}日" if rng.random() < 0.6 else f"{year}年{month}月{day}日"
    return {
        "code": spoil_check_digit(rng, code) if rng.random() < MISPRINTS else code,
        "name": _name(rng, county, trader=trader),
        "type": rng.choice(known.trader_types if trader else known.company_types),
        "person": rng.choice(known.surnames) + "".join(rng.choice(known.given) for _ in range(1 if rng.random() < 0.3 else 2)),
        "date": date,
        "address": f"{county}{rng.choice(known.roads)}{rng.choice(known.road_kinds)}{rng.randint(1, 399)}号",
    }


def _name(rng: Random, county: str, *, trader: bool) -> str:
    known = words()
    city = county.split("市")[0] + ("市" if rng.random() < 0.2 else "")
    middle = rng.choice(known.first) + rng.choice(known.second)
    ending = rng.choice(known.trader_endings) if trader else known.company_ending
    return city + middle + rng.choice(known.industries) + ending
