"""A supplier's dossier: licence, permits, account permit and letter of one firm, which agree with each other."""

from __future__ import annotations

from dataclasses import replace

from certloop.synth.fields import Firm, make_firm
from certloop.synth.label import Sample, make_sample
from certloop.synth.perturb import Profile
from certloop.synth.sample import Recipe, choose_layout, draw_document
from certloop.synth.seeds import stream_seed, values_rng

PAPERS = ("business_licence", "food_operation_permit", "bank_account_permit", "authorisation_letter")


def dossier_firm(seed: int, *, industry: str = "food") -> Firm:
    """The firm of a dossier: a company whose licence is of the years in which every paper's form was in use."""
    return make_firm(values_rng(seed, "dossier"), form="company", issued=(2019, 2022), industry=industry)


def make_dossier(seed: int, profile: Profile, *, papers: tuple[str, ...] = PAPERS, width_px: int = 1400) -> list[Sample]:
    """One sample a paper, all of one firm; the licence is a company's form of its years."""
    firm = dossier_firm(seed)
    samples = []
    for number, type_id in enumerate(papers):
        recipe = Recipe(
            type_id,
            stream_seed(seed, "dossier", number),
            width_px,
            layouts=("horizontal_2019", "horizontal_2019_original") if type_id == "business_licence" else (),
        )
        while "company" not in choose_layout(recipe).firms:
            recipe = replace(recipe, seed=stream_seed(recipe.seed, "again"))
        samples.append(make_sample(recipe, profile, document=draw_document(recipe, firm=firm)))
    return samples
