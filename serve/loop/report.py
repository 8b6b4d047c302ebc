"""What a simulated life shows: rates by system and day, gains with intervals, recovery from each drift, every decision."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from certloop.serve.loop.simulate import SYSTEMS, Life, Scored

RECOVERED = 0.05
"""A drift is over when the rate of the next 20 documents is this close to the one before it."""
_WINDOW = 20


def summary(life: Life, *, draws: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Rates of strictly right fields on documents as they arrived, overall, after the first drift and in the last third."""
    first_drift = min(life.config.stream.drift_days)
    last = life.config.stream.days * 2 // 3
    parts: dict[str, Callable[[Scored], bool]] = {
        "all": lambda s: True,
        "before_drift": lambda s: s.day < first_drift,
        "after_drift": lambda s: s.day >= first_drift,
        "last_third": lambda s: s.day >= last,
        "drifted_forms": lambda s: s.drifted,
    }
    return {
        "seed": life.config.stream.seed,
        "documents": len(life.scored),
        "answered": life.answered,
        "rules_learned": len(life.rules),
        "control_rules": life.control_rules,
        "rates": {name: rates([s for s in life.scored if chosen(s)]) for name, chosen in parts.items()},
        "gain": gain([s for s in life.scored if s.day >= first_drift], "learning", draws=draws, seed=seed),
        "control_gain": gain([s for s in life.scored if s.day >= first_drift], "control", draws=draws, seed=seed),
        "recovery_documents": [recovery(life, day) for day in life.config.stream.drift_days if day < life.config.stream.days],
    }


def rates(scored: Sequence[Scored]) -> dict[str, float | int]:
    fields = sum(s.fields for s in scored)
    return {"fields": fields} | {name: sum(s.right[name] for s in scored) / max(1, fields) for name in SYSTEMS}


def gain(scored: Sequence[Scored], system: str, *, draws: int, seed: int) -> dict[str, float]:
    """Gain of a system over the frozen one in strict rate, with a 95 % interval by bootstrap over documents."""
    if not scored:
        return {"mean": 0.0, "low": 0.0, "high": 0.0}
    gained = np.array([s.right[system] - s.right["frozen"] for s in scored], dtype=np.float64)
    fields = np.array([s.fields for s in scored], dtype=np.float64)
    chosen_DN = np.random.default_rng(seed).integers(0, len(scored), size=(draws, len(scored)))
    drawn_D = gained[chosen_DN].sum(axis=1) / fields[chosen_DN].sum(axis=1)
    low, high = np.quantile(drawn_D, (0.025, 0.975))
    return {"mean": float(gained.sum() / fields.sum()), "low": float(low), "high": float(high)}


def recovery(life: Life, drift_day: int) -> int | None:
    """Documents that arrived after a drift until the learning system is back where it was before (within ``RECOVERED``, over the
    next documents); None when it is not before the next drift or the end."""
    later = [day for day in life.config.stream.drift_days if day > drift_day]
    end = min(later) if later else life.config.stream.days
    before = [s for s in life.scored if s.day < min(life.config.stream.drift_days)]
    level = rates(before)["learning"] - RECOVERED
    after = [s for s in life.scored if drift_day <= s.day < end]
    first = drift_day * life.config.stream.per_day
    for at in range(len(after)):
        window = after[at : at + _WINDOW]
        if len(window) >= _WINDOW // 2 and rates(window)["learning"] >= level:
            return after[at].number - first
    return None


def page(life: Life) -> str:
    """The life as one HTML file without scripts: curves, decisions, rules."""
    e, said = html.escape, summary(life)
    decisions = "".join(
        f"<tr><td>{d.day}</td><td>{e(d.what)}</td><td>{e('; '.join(d.reasons))}</td></tr>" for d in life.decisions
    )
    rules = "".join(
        f"<tr><td>{e(r['type'])}</td><td>{e(r['field'])}</td><td>{e(str(r.get('label') or r.get('pattern')))}</td>"
        f"<td>{e(r['state'])}</td><td>{r['passed']}</td><td>{r['failed']}</td></tr>"
        for r in life.rules
    )
    gained = said["gain"]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>A simulated month</title><style>'
        "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1b1f}"
        "table{border-collapse:collapse;width:100%}"
        "td,th{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:left}</style>"
        f"<h1>{said['documents']} documents, {said['answered']} answered by auditors</h1>"
        f"<p>After the first drift the learning system reads {gained['mean']:+.1%} more fields right than the frozen one "
        f"[{gained['low']:+.1%}, {gained['high']:+.1%}]; "
        f"with answers dealt to other documents {said['control_gain']['mean']:+.1%}."
        f" Documents until recovery, drift by drift: {e(str(said['recovery_documents']))}.</p>"
        + _chart(life)
        + f"<h2>Decisions</h2><table><tr><th>day</th><th>what</th><th>why</th></tr>{decisions}</table>"
        + "<h2>Rules</h2><table><tr><th>type</th><th>field</th><th>rule</th><th>state</th><th>right</th><th>wrong</th></tr>"
        + rules
        + "</table></html>\n"
    )


_COLOURS = {"frozen": "#8a8a8f", "learning": "#0b6b2e", "control": "#b0620a"}


def _chart(life: Life) -> str:
    """Strict rate a day, a line for each system; drifts are dashed."""
    width, height, days = 900, 260, life.config.stream.days

    def x(day: float) -> float:
        return 40 + day * (width - 60) / max(1, days - 1)

    def y(share: float) -> float:
        return height - 30 - share * (height - 50)

    lines = "".join(
        f'<text x="4" y="{y(share) + 4:.1f}" font-size="12">{share:.0%}</text>'
        f'<line x1="40" x2="{width - 20}" y1="{y(share):.1f}" y2="{y(share):.1f}" stroke="#eee"/>'
        for share in (0.0, 0.5, 1.0)
    )
    lines += "".join(
        f'<line x1="{x(day):.1f}" x2="{x(day):.1f}" y1="20" y2="{height - 30}" stroke="#444" stroke-dasharray="4 4"/>'
        for day in life.config.stream.drift_days
    )
    for system in SYSTEMS:
        windows = [(day, [s for s in life.scored if day - 1 <= s.day <= day + 1]) for day in range(days)]
        points = " ".join(f"{x(day):.1f},{y(rates(window)[system]):.1f}" for day, window in windows if window)
        lines += f'<polyline fill="none" stroke="{_COLOURS[system]}" stroke-width="2" points="{points}"/>'
    legend = " ".join(f'<span style="color:{_COLOURS[s]}">&#9632; {s}</span>' for s in SYSTEMS)
    return f'<p>{legend}, three-day mean; dashed: forms drift</p><svg viewBox="0 0 {width} {height}" role="img">{lines}</svg>'
