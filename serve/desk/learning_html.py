"""The learning tab's pages: numbers in, HTML and inline SVG out, every word of them escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from certloop.serve.desk import charts
from certloop.serve.desk.learned import SOURCES, FieldRate, Signals
from certloop.serve.desk.parts import STYLE, Markup, empty, table
from certloop.serve.desk.said import in_words

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
SHAPES = {
    "uscc": ("统一社会信用代码", "a unified social credit code"),
    "regno15": ("15 位注册号", "a registration number of 15 digits"),
    "id_number": ("身份证号", "an identity number"),
}  # fmt: skip
FIELDS_SHOWN, ROWS_SHOWN = 24, 60
CERTIFICATE = re.compile(r"doc_[0-9a-f]{32}\.[0-9]{1,4}")


def percent(share: float | None, places: int = 1) -> str:
    return "–" if share is None else f"{100 * share:.{places}f} %"


def overview(
    desk: Desk,
    signals: Signals,
    confidence: Mapping[str, Any],
    rates: Sequence[FieldRate],
    synthetic: Mapping[str, Any],
    seen: Mapping[str, Any],
    people: Mapping[str, str],
) -> str:
    """Cards, signals, exact rates, synthetic against real, and who answers. ``people``: what to call actors by id."""
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
        _releases(desk, seen, people),
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
    colours = {source: COLOURS[source] for source in used}
    names = {source: say(*NAMES[source]) for source in used}
    note = say(
        f"最近 {signals.events} 条事件中的 {signals.total} 条信号",
        f"{signals.total} signals among the last {signals.events} events",
    )
    return f"<div>{keys}</div>{charts.columns(signals.days, colours, names)}<p>{note}</p>"


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
    title = _titles(desk)
    wrong = [rate for rate in rates if rate.exact < rate.audited]
    cells = [
        f'<div class="cl-field" data-rate="{escape(rate.field)}"><span>{escape(f"{rate.label} · {title(rate.doc_type)}")}</span>'
        f"<b>{percent(rate.exact / rate.audited, 0)}</b>{charts.line(rate.days)}</div>"
        for rate in wrong[:FIELDS_SHOWN]
    ]
    drawn = f'<div class="cl-fields">{"".join(cells)}</div>'
    if not wrong:
        drawn = f"<p>{say('审核过的字段全部一次读对。', 'Every audited field was read right.')}</p>"
    rest = [rate for rate in rates if rate not in wrong[:FIELDS_SHOWN]]
    if not rest:
        return f"<p>{note}</p>{drawn}"
    head = (say("证照", "certificate"), say("字段", "field"), say("读对", "right"), say("份数", "audited"))
    rows = [(title(r.doc_type), r.label, percent(r.exact / r.audited, 0), f"{r.exact}/{r.audited}") for r in rest]
    shown = say(f"其余 {len(rest)} 个字段（多数全部读对）", f"The other {len(rest)} fields, most of them all right")
    return f"<p>{note}</p>{drawn}<details><summary>{shown}</summary>{table(head, rows, 'rates')}</details>"


def _titles(desk: Desk) -> Callable[[str], str]:
    types = desk.service.registry.types
    return lambda kind: desk.say(types[kind].title, types[kind].title_en) if kind in types else kind


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


def _releases(desk: Desk, seen: Mapping[str, Any], people: Mapping[str, str]) -> str:
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
            in_words(desk, r["notes"]),
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
        (
            m["at"][:19].replace("T", " "),
            say(*MOVES.get(m["move"], (m["move"], m["move"]))),
            m["release"],
            _called(desk, m["by"], people),
            in_words(desk, m["reason"]),
        )
        for m in seen["history"][:ROWS_SHOWN]
    ]
    past = (say("时间 (UTC)", "when (UTC)"), say("动作", "move"), say("版本", "release"), say("谁", "by"), say("理由", "reason"))
    return (
        f"<p>{escape(lead)}</p>{table(head, shown, 'releases')}<h3>{say('历史', 'History')}</h3>{table(past, moves, 'history')}"
    )


def _called(desk: Desk, actor: str, people: Mapping[str, str]) -> str:
    """A login or a key's name; the loop itself is the system."""
    if actor in people:
        return people[actor]
    return desk.say("系统", "the system") if actor.partition(":")[0] in ("serve", "loop", "train") else actor


def rule_words(desk: Desk, item: Item) -> str:
    """A rule in a line: what for, which field, and what it says."""
    kind = desk.service.registry.types.get(item.key)
    field = str(item.body.get("field", ""))
    label = kind.fields[field].label if kind is not None and field in kind.fields else field
    says = str(item.body.get("label", "")), str(item.body.get("pattern", ""))
    if item.kind == "label":
        said = desk.say(f"也印作「{says[0]}」", f"also printed as {says[0]}")
    elif item.kind == "shape":
        shape = desk.say(*SHAPES.get(says[1], (says[1], says[1])))
        said = desk.say(f"在版面的固定位置，形如{shape}", f"stands in its place on the form, shaped like {shape}")
    else:
        said = ", ".join(f"{k}={v}" for k, v in item.body.items() if k != "field")
    title = desk.say(kind.title, kind.title_en) if kind else item.key
    return f"{title} · {label} · {said}"[:160]


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
            _evidence(desk, item.evidence),
            item.at[:19].replace("T", " "),
            "" if item.in_use else in_words(desk, item.reason),
        )
        for item in reversed(items[-ROWS_SHOWN:])
    ]
    return f'<div class="cl">{title}{table(head, rows, "rules")}</div>{STYLE}'


def _evidence(desk: Desk, evidence: Sequence[str]) -> Markup:
    """How many certificates taught it, and a link to the first three of them."""
    links = " ".join(
        f'<a href="#{escape(name)}">{number}</a>' if CERTIFICATE.fullmatch(name) else escape(name)
        for number, name in enumerate(evidence[:3], 1)
    )
    return Markup(f"{desk.say(f'{len(evidence)} 份', str(len(evidence)))} {links}")


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
    head, kind, types = [say(*name) for name in names], _titles(desk), desk.service.registry.types

    def label(group: str, part: str) -> str:
        return types[group].fields[part].label if group in types and part in types[group].fields else part

    rows = [
        (
            kind(row["group"]), label(row["group"], row["part"]),
            say("真实", "real") if row["origin"] == "real" else say("合成", "synthetic"),
            row["change"]["n"],
            f"{row['before']:.3f}", f"{row['after']:.3f}",
            f"{row['change']['mean']:+.3f} [{row['change']['lower']:+.3f}, {row['change']['upper']:+.3f}]",
        )
        for row in found["forgetting"][:ROWS_SHOWN]
    ]  # fmt: skip
    reasons = "".join(f"<li>{escape(in_words(desk, str(reason)))}</li>" for reason in found["reasons"])
    title = f"{release_id} / {found['baseline']}: {say(*VERDICTS.get(verdict, (verdict, verdict)))}"
    return (
        f'<div class="cl" data-test="gate"><h3>{escape(title)}</h3><ul>{reasons}</ul>'
        f"<h3>{say('遗忘表', 'Forgetting')}</h3>{table(head, rows, 'forgetting')}</div>{STYLE}"
    )
