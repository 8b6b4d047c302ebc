"""Charts as inline SVG: columns by day, and a line of one field's exact rate. Days stand where they belong, empty ones, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from html import escape

STEP, TALL, BASE = 56, 124, 140
"""Pixels of a day, of the highest column, and where zero is."""


def columns(days: Sequence[tuple[str, Mapping[str, int]]], colours: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Stacked columns, one for every day from the first to the last, the scale at the right, where the latest stand. ``colours``
    also gives the order within a column."""
    counts = dict(days)
    every = calendar([day for day, _ in days])
    top = _round_up(max(sum(count.values()) for count in counts.values()))
    width, height = STEP * len(every) + 44, BASE + 24
    out = []
    for share in (0.0, 0.5, 1.0):
        y = BASE - TALL * share
        out.append(f'<line x1="0" y1="{y:.0f}" x2="{width - 40}" y2="{y:.0f}" stroke="{"#dde4e7" if share else "#9aa8af"}"/>')
        out.append(f'<text x="{width - 34}" y="{y + 4:.0f}">{top * share:g}</text>')
    for place, day in enumerate(every):
        x, y = 10 + place * STEP, float(BASE)
        for source, colour in colours.items():
            count = counts.get(day, {}).get(source, 0)
            if count:
                tall = TALL * count / top
                y -= tall
                told = escape(f"{day} {names[source]}: {count}")
                out.append(
                    f'<rect x="{x}" y="{y:.1f}" width="36" height="{tall:.1f}" fill="{colour}"><title>{told}</title></rect>'
                )
        out.append(f'<text x="{x + 18}" y="{BASE + 18}" text-anchor="middle">{escape(day[5:])}</text>')
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<div class="cl-scroll cl-latest" tabindex="0"><svg role="img" {box}>{"".join(out)}</svg></div>'


def line(days: Sequence[tuple[str, int, int]]) -> str:
    """Days as (day, exact, audited): 0 at the bottom, 100 % at the top; a point tells its counts."""
    first, last = (date.fromisoformat(day[0]) for day in (days[0], days[-1]))
    span = (last - first).days
    points = [
        (110.0 if not span else 10 + 200 * (date.fromisoformat(day) - first).days / span, 36 - 30 * exact / n)
        for day, exact, n in days
    ]
    path = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
    dots = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.1f}" r="3.5" fill="#0f766e"><title>{escape(day)}: {exact}/{n}</title></circle>'
        for (x, y), (day, exact, n) in zip(points, days, strict=True)
    )
    when = days[0][0][5:] if not span else f"{days[0][0][5:]} – {days[-1][0][5:]}"
    counted = f"{sum(day[1] for day in days)}/{sum(day[2] for day in days)}"
    return (
        '<svg role="img" width="230" height="56" viewBox="0 0 230 56"><line x1="4" y1="6" x2="226" y2="6" stroke="#dde4e7"/>'
        f'<line x1="4" y1="36" x2="226" y2="36" stroke="#9aa8af"/><polyline points="{path}" fill="none" stroke="#0f766e"/>'
        f'{dots}<text x="4" y="52">{escape(when)}</text><text x="226" y="52" text-anchor="end">{counted}</text></svg>'
    )


def calendar(days: Sequence[str]) -> list[str]:
    """Every day from the first of ``days`` to the last."""
    first, last = date.fromisoformat(min(days)), date.fromisoformat(max(days))
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


def _round_up(most: int) -> int:
    """The next of 2, 4, 10, 20, 40, 100, ... so that the middle of the scale is a whole number."""
    unit = 1
    while True:
        for top in (2 * unit, 4 * unit, 10 * unit):
            if most <= top:
                return top
        unit *= 10
