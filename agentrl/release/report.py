"""The gate's report: verdict, reasons, bounds, and the forgetting table, as JSON and as one HTML file without scripts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from certloop.agentrl.release.gate import Bound, Evidence, GateConfig, GateResult, Origin, Pair, bound
from certloop.agentrl.release.schema import canonical, sha256_text

WHOLE = "(whole answer)"


@dataclass(frozen=True, slots=True)
class Forgetting:
    """One line of the forgetting table: a group (type) or one part (field) of it, before, after, and the bounds of the change."""

    group: str
    part: str
    origin: Origin
    before: float
    after: float
    change: Bound


def forgetting_table(pairs: Iterable[Pair], config: GateConfig | None = None) -> tuple[Forgetting, ...]:
    """By group, part and origin; the whole answer first, then the parts that lost most."""
    config = config or GateConfig()
    cells: dict[tuple[str, str, Origin], list[Pair]] = {}
    for pair in pairs:
        cells.setdefault((pair.group, WHOLE, pair.origin), []).append(pair)
        for part, (before, after) in pair.parts.items():
            cells.setdefault((pair.group, part, pair.origin), []).append(
                Pair(pair.item_id, pair.group, before, after, pair.origin)
            )
    rows = [
        Forgetting(group, part, origin, _mean(p.baseline for p in cell), _mean(p.candidate for p in cell), bound(cell, config))
        for (group, part, origin), cell in cells.items()
    ]
    return tuple(sorted(rows, key=lambda r: (r.group, r.origin, r.part != WHOLE, r.change.mean, r.part)))


def report_json(candidate: str, baseline: str, evidence: Evidence, result: GateResult, config: GateConfig) -> dict[str, Any]:
    """Everything that led to the verdict. ``sha256`` is over the rest; a release names it as its gate report."""
    table = forgetting_table([*evidence.target, *evidence.retained], config)
    body: dict[str, Any] = {
        "candidate": candidate,
        "baseline": baseline,
        "verdict": str(result.verdict),
        "reasons": list(result.reasons),
        "target": asdict(result.target),
        "retained": asdict(result.retained),
        "groups": {group: asdict(b) for group, b in result.groups.items()},
        "alarms": list(result.alarms),
        "needed": dict(result.needed),
        "checks": dict(evidence.checks),
        "newly_failing": list(evidence.newly_failing),
        "latency_ratio": evidence.latency_ratio,
        "memory_bytes": evidence.memory_bytes,
        "approval": None if evidence.approval is None else asdict(evidence.approval),
        "config": asdict(config),
        "forgetting": [asdict(row) | {"origin": str(row.origin)} for row in table],
    }
    return body | {"sha256": sha256_text(canonical(body))}


def report_html(report: dict[str, Any]) -> str:
    """The report for a person. Everything from outside is escaped; losses stand out by sign and colour."""
    e = html.escape
    reasons = "".join(f"<li>{e(reason)}</li>" for reason in report["reasons"])
    bounds = [("target", report["target"]), ("retained", report["retained"]), *sorted(report["groups"].items())]
    checks = "".join(f"<tr><td>{e(name)}</td><td>{'holds' if ok else 'fails'}</td></tr>" for name, ok in report["checks"].items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Gate: {e(report["candidate"])}</title>'
        f"<style>{_STYLE}</style>"
        f"<h1>{e(report['candidate'])} against {e(report['baseline'])}: {e(report['verdict'].replace('_', ' '))}</h1>"
        f"<ul>{reasons}</ul>"
        "<h2>Gains</h2>"
        + _table(("", "items", "differ", "gain", "at least", "at most"), (_bound_row(name, b) for name, b in bounds))
        + (f"<h2>Checks</h2><table>{checks}</table>" if checks else "")
        + "<h2>Forgetting</h2><p>Before and after, by type and field; real and synthetic apart. A bold line lost for sure.</p>"
        + _table(_FORGETTING, map(_row, report["forgetting"]))
        + f"<p>sha256 {e(report['sha256'])}</p></html>\n"
    )


_FORGETTING = ("type", "field", "from", "items", "before", "after", "change", "at least", "at most")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1b1f}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child,td:nth-child(2){text-align:left}.lost{font-weight:700;color:#a3120a}.won{color:#0b6b2e}"
)


def _table(head: Sequence[str], rows: Iterable[str]) -> str:
    return "<table><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>" + "".join(rows) + "</table>"


def _bound_row(name: str, b: dict[str, Any]) -> str:
    cells = (html.escape(name), b["n"], b["discordant"], f"{b['mean']:+.4f}", f"{b['lower']:+.4f}", f"{b['upper']:+.4f}")
    return f"<tr{_colour(b)}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _row(row: dict[str, Any]) -> str:
    change = row["change"]
    cells = (
        *(html.escape(str(row[key])) for key in ("group", "part", "origin")),
        change["n"],
        f"{row['before']:.4f}",
        f"{row['after']:.4f}",
        *(f"{change[key]:+.4f}" for key in ("mean", "lower", "upper")),
    )
    return f"<tr{_colour(change)}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _colour(b: dict[str, Any]) -> str:
    if b["upper"] < 0:
        return ' class="lost"'
    return ' class="won"' if b["lower"] > 0 else ""


def _mean(values: Iterable[float]) -> float:
    every = list(values)
    return sum(every) / len(every)
