"""The learning tab's pages: numbers in, HTML and inline SVG out, every word of them escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from certloop.serve.desk.learned import SOURCES, FieldRate, Signals
from certloop.serve.desk.parts import STYLE, empty, table

if TYPE_CHECKING:
    from certloop.agentrl.memory import Item
    from certloop.serve.desk.context import Desk

COLOURS = dict(zip(SOURCES, ("#0f766e", "#b45309", "#4f6bd8", "#9333a8", "#5b6b73"), strict=True))
NAMES = {
    "validator": ("校验规则", "checks"), "auditor": ("审核员", "auditors"), "implicit": ("重传等行为", "behaviour"),
    "judge": ("评判", "judge"), "business": ("业务结果", "business"),
}  # fmt: skip
STATES = {
    "trial": ("试用", "on trial"),
    "active": ("在用", "active"),
    "archived": ("已归档", "archived"),
    "removed": ("已停用", "removed"),
}
MOVES = {
    "adopted": ("启用", "adopted"), "staged": ("灰度", "staged"), "widened": ("扩大", "widened"),
    "promoted": ("转正", "promoted"), "rolled_back": ("回退", "rolled back"), "quarantined": ("隔离", "quarantined"),
}  # fmt: skip
VERDICTS = {
    "promote": ("通过", "promote"),
    "reject": ("不通过", "reject"),
    "insufficient_evidence": ("证据不足", "too little evidence"),
}
FIELDS_SHOWN, ROWS_SHOWN = 24, 60


def percent(share: float | None, places: int = 1) -> str:
    return "–" if share is None else f"{100 * share:.{places}f} %"


def overview(
    desk: Desk,
    signals: Signals,
    confidence: Mapping[str, Any],
    rates: Sequence[FieldRate],
    synthetic: Mapping[str, Any],
    seen: Mapping[str, Any],
) -> str:
    """Cards, signals, exact rates, synthetic against real, and who answers."""
    say = desk.say
    parts = [
        _cards(desk, confidence, seen["pointer"]),
        f"<h2>{say('反馈信号', 'Signals by day and source')}</h2>",
        _signals(desk, signals),
        f"<h2>{say('各字段一次读对的比例', 'Exact as read, by field')}</h2>",
        _rates(desk, rates),
        f"<h2>{say('合成与真实对照', 'Synthetic against real')}</h2>",
        _both(desk, confidence, synthetic),
        f"<h2>{say('版本', 'Releases')}</h2>",
        _releases(desk, seen),
    ]
    return f'<div class="cl">{"".join(parts)}</div>{STYLE}'


def _cards(desk: Desk, confidence: Mapping[str, Any], pointer: Mapping[str, Any]) -> str:
    say = desk.say
    accepted = confidence["accepted_error"]
    now = next(row for row in confidence["straight_through"] if row["accepted_error"] == accepted)
    reviewed = confidence["reviewed"]
    trial = f"{pointer['candidate']} · {percent(pointer['share'], 0)}" if pointer["candidate"] else say("无", "none")
    before, after, n = _ece(reviewed["ece_before"]), _ece(reviewed["ece_after"]), reviewed["fields"]
    last, error = confidence["certificates"], percent(accepted)
    cards = [
        (percent(now["rate"]),
         say(f"直通率 · 近 {last} 份 · 允许差错 {error}", f"straight through · last {last} · accepted error {error}")),
        (after,
         say(f"校准误差 ECE · 校准前 {before} · {n} 个已审字段", f"ECE, calibration error · before {before} · {n} fields")),
        (pointer["active"], say("现在应答的版本", "the release that answers")),
        (trial, say("灰度版本与份额", "candidate and its share")),
    ]  # fmt: skip
    body = "".join(f'<div class="cl-card"><b>{escape(str(big))}</b><span>{escape(small)}</span></div>' for big, small in cards)
    note = say(
        "直通率为“–”：还没有读过证照。ECE 为“–”：还没有审核过的字段。",
        "“–” means that nothing was read, or nothing audited, yet.",
    )
    missing = now["rate"] is None or reviewed["ece_after"] is None
    return f'<div class="cl-cards" data-test="cards">{body}</div>' + (f"<p>{note}</p>" if missing else "")


def _ece(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _signals(desk: Desk, signals: Signals) -> str:
    say = desk.say
    if not signals.days:
        return empty(
            say(
                "还没有信号。校验规则、审核员的修改与通过、业务结果都会变成信号；处理第一份证照后这里就有内容。",
                "No signals yet. Checks, corrections and business outcomes become signals; the first certificate brings some.",
            )
        )
    used = [source for source in SOURCES if any(day[1].get(source) for day in signals.days)]
    keys = "".join(
        f'<span class="cl-key"><i style="background:{COLOURS[s]}"></i>{escape(say(*NAMES[s]))}'
        f" {sum(day[1].get(s, 0) for day in signals.days)}</span>"
        for s in used
    )
    note = say(
        f"最近 {signals.events} 条事件中的 {signals.total} 条信号",
        f"{signals.total} signals among the last {signals.events} events",
    )
    return f"<div>{keys}</div>{_bars(signals)}<p>{note}</p>"


def _bars(signals: Signals) -> str:
    """Stacked columns, one a day."""
    width, height, step = 56 * len(signals.days) + 40, 170, 56
    most = max(sum(day[1].values()) for day in signals.days) or 1
    out = [f'<text x="0" y="12">{most}</text><line x1="34" y1="140" x2="{width}" y2="140" stroke="#9aa8af"/>']
    for place, (day, counts) in enumerate(signals.days):
        x, y = 40 + place * step, 140.0
        for source in SOURCES:
            tall = 132 * counts.get(source, 0) / most
            if tall:
                y -= tall
                title = f"{day} {source}: {counts[source]}"
                out.append(
                    f'<rect x="{x}" y="{y:.1f}" width="34" height="{tall:.1f}" fill="{COLOURS[source]}">'
                    f"<title>{escape(title)}</title></rect>"
                )
        out.append(f'<text x="{x}" y="158">{escape(day[5:])}</text>')
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<div class="cl-scroll"><svg role="img" {box}>{"".join(out)}</svg></div>'


def _rates(desk: Desk, rates: Sequence[FieldRate]) -> str:
    say = desk.say
    if not rates:
        return empty(
            say(
                "还没有审核通过的证照。审核员每通过一份，这里就比较各字段“读出的”与“通过的”是否一致。",
                "No approved certificates yet. Each approval compares every field as read with what the auditor left.",
            )
        )
    note = say(
        "只算审核过的证照：它们多因存疑而送审，所以比全部证照更难。最不准的在前。",
        "Audited certificates only: most were unsure, so they are harder than the rest. Least exact first.",
    )
    many = len({rate.doc_type for rate in rates}) > 1
    cells = []
    for rate in rates[:FIELDS_SHOWN]:
        name = f"{rate.label} · {rate.doc_type}" if many else rate.label
        cells.append(
            f'<div class="cl-field" data-rate="{escape(rate.field)}"><span>{escape(name)}</span>'
            f"<b>{percent(rate.exact / rate.audited, 0)}</b>{_spark(rate)}</div>"
        )
    more = len(rates) - FIELDS_SHOWN
    rest = f"<p>{say(f'另有 {more} 个字段更准，未列出。', f'{more} more fields are more exact.')}</p>" if more > 0 else ""
    return f'<p>{note}</p><div class="cl-fields">{"".join(cells)}</div>{rest}'


def _spark(rate: FieldRate) -> str:
    """A line over days, from 0 at the bottom to 100 % at the top, each day a point with its counts."""
    step = 200 / max(1, len(rate.days) - 1)
    points = [(10 + step * i if len(rate.days) > 1 else 110, 36 - 30 * exact / n) for i, (_, exact, n) in enumerate(rate.days)]
    line = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
    dots = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.1f}" r="3.5" fill="#0f766e"><title>{escape(day)}: {exact}/{n}</title></circle>'
        for (x, y), (day, exact, n) in zip(points, rate.days, strict=True)
    )
    first, last = rate.days[0][0][5:], rate.days[-1][0][5:]
    days = first if first == last else f"{first} – {last}"
    return (
        '<svg role="img" width="230" height="56" viewBox="0 0 230 56"><line x1="4" y1="6" x2="226" y2="6" stroke="#dde4e7"/>'
        f'<line x1="4" y1="36" x2="226" y2="36" stroke="#9aa8af"/><polyline points="{line}" fill="none" stroke="#0f766e"/>'
        f'{dots}<text x="4" y="52">{escape(days)}</text><text x="226" y="52" text-anchor="end">'
        f"{rate.exact}/{rate.audited}</text></svg>"
    )


def _both(desk: Desk, confidence: Mapping[str, Any], synthetic: Mapping[str, Any]) -> str:
    say = desk.say
    real = confidence["reviewed"]
    head = (
        say("来源", "From"),
        say("字段数", "fields"),
        say("读对", "right"),
        say("ECE 校准前", "ECE before"),
        say("ECE 校准后", "ECE after"),
    )
    share = percent(real["right"] / real["fields"] if real["fields"] else None)
    fields, right = int(synthetic["held_out_fields"]), int(synthetic["held_out_right"])
    rows = [
        (say("合成（内置校准的留出集）", "synthetic (held out, built-in)"), fields, percent(right / fields),
         _ece(synthetic["ece_before"]), _ece(synthetic["ece_after"])),
        (say("真实（本租户已审）", "real (audited here)"), real["fields"], share,
         _ece(real["ece_before"]), _ece(real["ece_after"])),
    ]  # fmt: skip
    note = say(
        "合成页的分数会误导：决定以真实的为准。真实一行在审核之后才有数。",
        "Scores on synthetic pages mislead; decide on the real ones, which come with auditing.",
    )
    return f"<p>{note}</p>{table(head, rows, 'both')}"


def _releases(desk: Desk, seen: Mapping[str, Any]) -> str:
    say, pointer = desk.say, seen["pointer"]
    if not pointer["candidate"] and not pointer["previous"]:
        lead = say("只有一个版本，没有可以回退的。学到的规则攒成版本、通过门禁后会先灰度。",
                   "One release, nothing to go back to. Learned rules become releases after a gate and a trial.")  # fmt: skip
    elif pointer["candidate"]:
        lead = say(
            f"{pointer['candidate']} 正在灰度；回退会撤下它。", f"{pointer['candidate']} is on trial; rolling back takes it off."
        )
    else:
        lead = say(f"回退会回到 {pointer['previous']}。", f"Rolling back returns to {pointer['previous']}.")
    role = {
        pointer["previous"]: say("上一个", "previous"),
        pointer["candidate"]: say(f"灰度 {percent(pointer['share'], 0)}", f"candidate {percent(pointer['share'], 0)}"),
        pointer["active"]: say("应答中", "answers"),
    }
    shown = [
        (
            r["id"],
            role.get(r["id"], ""),
            r["engine"],
            r["parent"],
            say("有", "yes") if r["artefacts"].get("gate") else "–",
            r["notes"],
        )
        for r in reversed(seen["releases"])
    ]
    head = (
        say("版本", "release"),
        say("状态", "role"),
        say("引擎", "engine"),
        say("来自", "parent"),
        say("门禁报告", "gate"),
        say("说明", "notes"),
    )
    moves = [
        (m["at"][:19].replace("T", " "), say(*MOVES.get(m["move"], (m["move"], m["move"]))), m["release"], m["by"], m["reason"])
        for m in seen["history"][:ROWS_SHOWN]
    ]
    past = (say("时间 (UTC)", "when (UTC)"), say("动作", "move"), say("版本", "release"), say("谁", "by"), say("理由", "reason"))
    return (
        f"<p>{escape(lead)}</p>{table(head, shown, 'releases')}<h3>{say('历史', 'History')}</h3>{table(past, moves, 'history')}"
    )


def rule_words(desk: Desk, item: Item) -> str:
    """A rule in a line: what for, which field, and what it says."""
    kind = desk.service.registry.types.get(item.key)
    field = str(item.body.get("field", ""))
    label = kind.fields[field].label if kind is not None and field in kind.fields else field
    said = ", ".join(f"{k}={v}" for k, v in item.body.items() if k != "field")
    return f"{kind.title if kind else item.key} · {label} · {said if item.kind in item.body else f'{item.kind} {said}'}"[:160]


def rules(desk: Desk, items: Sequence[Item]) -> str:
    """Every rule that was learned, the latest first, with evidence and record."""
    say = desk.say
    title = f"<h2>{say('学到的规则', 'Rules learned')}</h2>"
    if not items:
        nothing = say(
            "还没有规则。审核员改正一个字段并通过后，系统会找出以后怎样读对它，在旧证照上回放无误才启用。",
            "No rules yet. A corrected and approved field teaches one, replayed on earlier certificates before use.",
        )
        return f'<div class="cl">{title}{empty(nothing)}</div>{STYLE}'
    names = (
        ("规则", "rule"), ("状态", "state"), ("对/错", "right/wrong"), ("依据", "evidence"), ("学于 (UTC)", "learned (UTC)"),
        ("停用理由", "removed because"),
    )  # fmt: skip
    head = [say(*name) for name in names]
    rows = [
        (
            rule_words(desk, item),
            say(*STATES.get(str(item.state), (str(item.state), str(item.state)))),
            f"{item.passed}/{item.failed}",
            "、".join(item.evidence[:3]) + (" …" if len(item.evidence) > 3 else ""),
            item.at[:19].replace("T", " "),
            "" if item.in_use else item.reason,
        )
        for item in reversed(items[-ROWS_SHOWN:])
    ]
    return f'<div class="cl">{title}{table(head, rows, "rules")}</div>{STYLE}'


def gate(desk: Desk, release_id: str, found: Mapping[str, Any] | None) -> str:
    """Verdict, reasons and the forgetting table of a release."""
    say = desk.say
    if found is None:
        return f'<div class="cl">{empty(say("这个版本没有门禁报告。", "This release came without a gate report."))}</div>{STYLE}'
    verdict = str(found["verdict"])
    names = (
        ("类型", "type"), ("字段", "field"), ("来源", "from"), ("份数", "items"), ("之前", "before"), ("之后", "after"),
        ("变化 [下界, 上界]", "change [bounds]"),
    )  # fmt: skip
    head = [say(*name) for name in names]
    rows = [
        (
            row["group"], row["part"], say("真实", "real") if row["origin"] == "real" else say("合成", "synthetic"),
            row["change"]["n"],
            f"{row['before']:.3f}", f"{row['after']:.3f}",
            f"{row['change']['mean']:+.3f} [{row['change']['lower']:+.3f}, {row['change']['upper']:+.3f}]",
        )
        for row in found["forgetting"][:ROWS_SHOWN]
    ]  # fmt: skip
    reasons = "".join(f"<li>{escape(str(reason))}</li>" for reason in found["reasons"])
    title = f"{release_id} / {found['baseline']}: {say(*VERDICTS.get(verdict, (verdict, verdict)))}"
    return (
        f'<div class="cl" data-test="gate"><h3>{escape(title)}</h3><ul>{reasons}</ul>'
        f"<h3>{say('遗忘表', 'Forgetting')}</h3>{table(head, rows, 'forgetting')}</div>{STYLE}"
    )
