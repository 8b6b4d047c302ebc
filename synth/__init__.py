"""The data engine: true-looking certificates with exact labels, the same bytes for the same seed.

    fields/    fictional values that agree: firms, persons, places, numbers, dates, scopes
    layout/    where each form prints what (data in ``templates/<type>/layouts``), and editions that drift
    render/    a layout and facts to a page, with the box of everything printed
    perturb/   named treatments (scan, copy, photo, screen, hard) that boxes follow
    sample.py  one seed to one document; label.py to one labelled image; dossier.py to a firm's papers
    dataset/   many, by any number of processes, split without leaks, manifest last
    blank.py   one real scan to a reusable blank form; preview.py a contact sheet; writer/ a language model writes the words

Names are loaded on first use: importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certloop.synth.blank import make_blank
    from certloop.synth.config import MakeConfig, WriterConfig
    from certloop.synth.dataset import make
    from certloop.synth.dossier import make_dossier
    from certloop.synth.label import Sample, make_sample
    from certloop.synth.perturb import load_profile
    from certloop.synth.preview import preview
    from certloop.synth.sample import Recipe

__all__ = [
    "MakeConfig",
    "Recipe",
    "Sample",
    "WriterConfig",
    "load_profile",
    "make",
    "make_blank",
    "make_dossier",
    "make_sample",
    "preview",
]

_HOME = {
    "MakeConfig": "config",
    "Recipe": "sample",
    "Sample": "label",
    "WriterConfig": "config",
    "load_profile": "perturb",
    "make": "dataset",
    "make_blank": "blank",
    "make_dossier": "dossier",
    "make_sample": "label",
    "preview": "preview",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
