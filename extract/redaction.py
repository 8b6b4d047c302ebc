"""Redaction for certificates: what ``agentrl.store.redact`` needs to know of names, firms, addresses and numbers of this domain.

The patterns are data (``redaction.toml``). They lower a risk and prove nothing: to share a document, have it pseudonymised and
drawn anew (``synth.pseudonymise``).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from certloop.agentrl.signals.schema import Signal
from certloop.agentrl.store.redact import MASK, Pattern, PatternRedactor, own_values
from certloop.agentrl.trajectory import Trajectory
from certloop.templates import Registry, load_types, squash

PART = 4
"""So many characters in a row of a name, firm or address give it away."""
MAX_PARTED = 60
_HAN = r"[\u4e00-\u9fff]"


def certificate_redactor(
    trajectory: Trajectory | None = None,
    signals: Iterable[Signal] = (),
    registry: Registry | None = None,
    *,
    whole_answer: bool = False,
) -> PatternRedactor:
    """The redactor of everything that leaves to judges, coaches, shared memory and logs.

    With a trajectory (and what was said about it) its own values are known and go as well, the long ones in parts too: what is
    left of a name after a misreading must not stay either. ``registry`` names the document types whose labels announce a value.
    With ``whole_answer`` every value of its answer goes, one of a single character (the sex of a person) too.
    """
    types = registry if registry is not None else _builtin()
    own = sorted(own_values(trajectory, signals), key=lambda v: (-len(v), v)) if trajectory is not None else []
    whole = [Pattern("value", re.compile("|".join(map(re.escape, own))))] if own else []
    pieces = [piece for value in own if PART <= len(value) <= MAX_PARTED for piece in _pieces(value)]
    parts = [Pattern("value", re.compile("|".join(pieces)))] if pieces else []
    keys = private_keys(types) | (_keys(trajectory.final_json) if trajectory is not None and whole_answer else set())
    return PatternRedactor(patterns=[*whole, *certificate_patterns(types), *parts], fields=keys)


def _keys(answer: str | None) -> set[str]:
    try:
        said = json.loads(answer or "null")
    except (ValueError, RecursionError):
        return set()
    return set(said) if isinstance(said, dict) else set()


def _pieces(value: str) -> list[str]:
    """Expressions for any ``PART`` or more characters of a value in a row, one for each place where they may begin."""
    out = []
    for start in range(len(value) - PART + 1):
        rest = ""
        for char in reversed(value[start + PART :]):
            rest = f"(?:{re.escape(char)}{rest})?"
        out.append(re.escape(value[start : start + PART]) + rest)
    return out


def certificate_patterns(registry: Registry) -> tuple[Pattern, ...]:
    """The patterns of ``redaction.toml`` with the labels of these document types."""
    labels = {kind: _labels(registry, ids) for kind, ids in _data()["fields"].items()}
    return _compiled(tuple((kind, tuple(sorted(words))) for kind, words in labels.items()), tuple(sorted(_all_labels(registry))))


def private_keys(registry: Registry) -> frozenset[str]:
    """Keys of JSON whose values are personal whatever they are: ids and labels of such fields, and what tools saw."""
    ids = {name for names in _data()["fields"].values() for name in names}
    return frozenset(ids | _labels(registry, ids) | set(_data()["keys"]["private"]))


def _labels(registry: Registry, ids: Iterable[str]) -> set[str]:
    wanted = set(ids)
    return {label for t in registry for spec in t.fields.values() if spec.id in wanted for label in spec.labels}


def _all_labels(registry: Registry) -> set[str]:
    return {squash(label) for t in registry for spec in t.fields.values() for label in spec.labels} | {
        squash(title) for t in registry for title in (*t.titles, *t.stop_labels)
    }


@lru_cache(maxsize=8)
def _compiled(labels: tuple[tuple[str, tuple[str, ...]], ...], known: tuple[str, ...]) -> tuple[Pattern, ...]:
    data = _data()
    words = data["words"]
    surname = f"(?:{_any(words['compound_surnames'])}|[{''.join(words['surnames'])}])"
    verb = f"(?:{_any(words['link'])})"
    signs = r"(?:\s|[:：=\"'“「『‘])"
    names: dict[str, str] = {
        "han": _HAN,
        "letter": f"[\u4e00-\u9fff{MASK}]",
        "surname": surname,
        "verb": verb,
        "verb2": f"(?:{_any(w for w in words['link'] if len(w) > 1)})",
        "link": rf"{signs}{{0,6}}(?:(?:上|处|栏|一栏)?{verb})?{signs}{{0,6}}",
        "linked": rf"(?:{signs}{{1,6}}(?:(?:上|处|栏|一栏)?{verb})?|(?:上|处|栏|一栏)?{verb}){signs}{{0,6}}",
        "known": f"(?:{_any(w for w in known if len(w) > 1)})",
    }
    names |= {f"labels:{kind}": _any(found) for kind, found in labels}
    names |= {f"begin:{kind}": _begin([*found, *words["link"]]) for kind, found in labels}
    return tuple(Pattern(p["word"], re.compile(_filled(p["regex"], names))) for p in data["patterns"])


def _filled(regex: str, names: Mapping[str, str]) -> str:
    for name, stands_for in names.items():
        regex = regex.replace("{" + name + "}", stands_for)
    return regex


def _begin(words: Iterable[str]) -> str:
    """A place with no letter or digit before it, or with one of these words."""
    before = "|".join(f"(?<={re.escape(word)})" for word in sorted(set(words)))
    return f"(?:(?<![\\u4e00-\\u9fffA-Za-z0-9{MASK}])|{before})"


def _any(words: Iterable[str]) -> str:
    """One of these words, the longest first, whatever white space stands between characters."""
    return "|".join(r"\s*".join(map(re.escape, word)) for word in sorted(set(words), key=lambda w: (-len(w), w)))


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "redaction.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _builtin() -> Registry:
    return load_types(())
