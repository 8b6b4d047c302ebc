"""A stream of documents whose forms drift, from a seed. The editions are those of the drift set ``unseen_wordings``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from certloop.synth.errors import TextFitError
from certloop.synth.label import Sample, make_sample
from certloop.synth.perturb import Profile, load_profile
from certloop.synth.sample import Recipe
from certloop.synth.seeds import stream_seed

REDRAWS = 8

BASE: tuple[tuple[str, str], ...] = (
    ("business_licence", "horizontal_2019"),
    ("business_licence", "vertical_2015"),
    ("drug_operation_permit", "form_2020"),
    ("food_operation_permit", "two_column"),
    ("device_operation_permit", "form_2022"),
)
DRIFTS: tuple[Mapping[tuple[str, str], int], ...] = (
    {BASE[0]: 1001, BASE[3]: 1001},
    {BASE[1]: 1002, BASE[2]: 1001},
    {BASE[4]: 1001, BASE[0]: 1003},
)
"""Which forms get which edition at each drift; from then on the old edition stops coming."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One document: the day it came, its number in the stream, and its page with the truth."""

    day: int
    number: int
    doc_type: str
    layout: str
    sample: Sample

    @property
    def document_id(self) -> str:
        return f"d{self.number:05d}"

    @property
    def truth(self) -> Mapping[str, str]:
        """Printed value by printed label, of what can be read."""
        return {label: value for label, value in self.sample.label["fields"].items() if value}


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """``drift_days`` are the days on which each of ``DRIFTS`` begins; half of the documents are of forms that just drifted."""

    days: int = 30
    per_day: int = 10
    drift_days: tuple[int, ...] = (8, 15, 22)
    profile: str = "scan"
    width_px: int = 1100
    seed: int = 0


def documents(config: StreamConfig) -> Iterator[Arrival]:
    """The stream, in order. The same seed gives the same pages everywhere."""
    rng, profile = Random(f"stream-{config.seed}"), load_profile(config.profile)
    number = 0
    for day in range(config.days):
        forms, fresh = _forms(day, config)
        for _ in range(config.per_day):
            doc_type, layout = rng.choice(fresh if fresh and rng.random() < 0.5 else forms)
            yield Arrival(day, number, doc_type, layout, _page(config, doc_type, layout, number, profile))
            number += 1


def _forms(day: int, config: StreamConfig) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Forms of a day: all that are in use, and those that drifted last."""
    now = {form: form[1] for form in BASE}
    fresh: list[tuple[str, str]] = []
    for begins, drift in zip(config.drift_days, DRIFTS, strict=False):
        if day >= begins:
            fresh = []
            for form, edition in drift.items():
                now[form] = f"{form[1]}~d{edition}"
                fresh.append((form[0], now[form]))
    return [(form[0], layout) for form, layout in now.items()], fresh


def _page(config: StreamConfig, doc_type: str, layout: str, number: int, profile: Profile) -> Sample:
    """Values that do not fit their form are drawn again from a further seed, as in a dataset. Raises TextFitError in the end."""
    seed = config.seed * 1_000_003 + 500_000 + number
    for _ in range(REDRAWS):
        try:
            return make_sample(Recipe(doc_type, seed, config.width_px, layouts=(layout,)), profile)
        except TextFitError:
            seed = stream_seed(seed, "again")
    return make_sample(Recipe(doc_type, seed, config.width_px, layouts=(layout,)), profile)
