"""What values are before they are printed: dates, money and terms keep their meaning until a layout chooses a written form."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from random import Random


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in whole units of 10,000 of ``currency`` (company capital is always stated so)."""

    ten_thousands: int
    currency: str = "人民币"


@dataclass(frozen=True, slots=True)
class Term:
    """A period. ``end`` None is an open end (长期)."""

    start: date
    end: date | None


Fact = str | date | Money | Term


def random_date(rng: Random, first: date, last: date) -> date:
    return first + timedelta(days=rng.randint(0, max(0, (last - first).days)))


def years_later(day: date, years: int) -> date:
    """The last day of a period of ``years`` years that starts on ``day`` (five-year permits end the day before)."""
    try:
        same = day.replace(year=day.year + years)
    except ValueError:
        same = day.replace(year=day.year + years, day=28)
    return same - timedelta(days=1)
