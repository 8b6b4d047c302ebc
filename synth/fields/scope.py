"""Business scopes: a small grammar over the industry vocabulary of ``words.toml`` and the phrases of ``scopes.toml``."""

from __future__ import annotations

from random import Random
from typing import Any

from certloop.synth.fields.vocabulary import read_data


def industries() -> list[dict[str, Any]]:
    return list(read_data("words")["industries"])


def make_scope(rng: Random, industry: dict[str, Any], year: int, *, longest: int = 420) -> str:
    """A 经营范围 of 10 to ``longest`` characters as it was written in ``year`` (许可项目/一般项目 since 2020). One firm in four
    also lists what other trades do, up to the whole length."""
    phrases = read_data("scopes")["licence"]
    if rng.random() < 0.06:
        return str(rng.choice(phrases["short"]))
    stop = rng.choice(["；", "；", "；", "、", "，"])
    general = rng.sample(industry["general"], rng.randint(2, min(len(industry["general"]), 3 + max(1, longest // 40))))
    if rng.random() < 0.25:
        others = [phrase for other in industries() if other["key"] != industry["key"] for phrase in other["general"]]
        general = list(dict.fromkeys([*general, *rng.sample(others, min(len(others), rng.randint(1, max(2, longest // 9))))]))
    permitted = rng.sample(industry["permitted"], rng.randint(1, 2))
    if year >= 2020 and rng.random() < 0.75:
        return _two_part_scope(rng, phrases, general, permitted if rng.random() < 0.7 else [], longest)
    lead = rng.choice(["", "", "销售：", "许可经营项目：无 一般经营项目：" if year < 2015 else ""])
    tail = rng.choice(phrases["tails_old" if year < 2015 else "tails_new"])
    while len(general) > 2 and len(lead) + len(stop.join(general)) + len(tail) + 2 > longest:
        general.pop()
    return str(lead + stop.join(general) + rng.choice(["。", "", "。"]) + tail)


def _two_part_scope(rng: Random, phrases: dict[str, Any], general: list[str], permitted: list[str], longest: int) -> str:
    """许可项目：…一般项目：… as written since 2020; items are left out until it fits."""
    between = rng.choice([" ", "", "\n"])
    while True:
        parts = ["许可项目：" + "；".join(permitted) + phrases["tail_permitted"]] if permitted else []
        text = between.join([*parts, "一般项目：" + "；".join(general) + phrases["tail_general"]])
        if len(text) <= longest or len(general) == 1:
            return text
        if len(general) > 2:
            general = general[:-1]
        elif permitted:
            permitted = []
        else:
            general = general[:1]


def make_items(rng: Random, group: str, key: str, low: int, high: int, *, stop: str | None = None) -> str:
    """Some items of ``scopes.toml`` [group] key, joined the way permits join them."""
    items = read_data("scopes")[group][key]
    chosen = rng.sample(items, rng.randint(low, min(high, len(items))))
    tail: str = rng.choice(read_data("scopes")[group].get("tail", [""]))
    return (stop or rng.choice(["，", "、", "；", ","])).join(chosen) + tail
