"""What the system learned, for engineers: charts and tables made here, moves through the same functions as the API's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gradio as gr

from certloop.agentrl.errors import CertloopError
from certloop.serve.confidence.report import report
from certloop.serve.desk import learned, learning_html, people
from certloop.serve.desk.context import Desk
from certloop.serve.desk.parts import alert, only_for, reason_of, words
from certloop.serve.errors import RequestError
from certloop.serve.loop import releases
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.people.actor import Actor

TITLE = ("学习", "Learning")
RULE = re.compile(r"[0-9a-f]{32}")


def build(desk: Desk) -> None:
    tab = only_for(desk, Permission.LEARNING_READ)
    say = desk.say
    with gr.Row(elem_classes="certloop-row"):
        refresh = gr.Button(say("刷新", "Refresh"), size="sm", scale=0, elem_id="learning-refresh")
    said = gr.HTML("", elem_id="learning-said", padding=False)
    overview = gr.HTML(f"<p>{say('正在载入…', 'Loading…')}</p>", elem_id="learning-overview", padding=False)
    with gr.Row(visible=False) as going_back:
        reason = gr.Textbox(
            label=say("回退理由（必填）", "Why roll back (required)"), max_length=200, elem_id="rollback-reason", scale=3
        )
        back = gr.Button(say("回退版本", "Roll back"), variant="stop", elem_id="rollback", scale=1)
    gate = gr.Dropdown(label=say("查看门禁报告", "Gate report of"), choices=[], elem_id="gate-choice", visible=False)
    report_box = gr.HTML("", elem_id="learning-gate", padding=False)
    rules = gr.HTML("", elem_id="learning-rules", padding=False)
    with gr.Row(visible=False) as taking_out:
        rule = gr.Dropdown(label=say("在用的规则", "Rules in use"), choices=[], elem_id="rule-choice", scale=2)
        why = gr.Textbox(label=say("停用理由（必填）", "Why remove (required)"), max_length=200, elem_id="rule-reason", scale=2)
        remove = gr.Button(say("停用规则", "Remove rule"), variant="stop", elem_id="rule-remove", scale=1)
    shown = [said, overview, gate, rules, rule, reason, why, going_back, taking_out]

    def show(request: gr.Request) -> list[Any]:
        return _guarded(lambda: _page(desk, desk.actor(request), ""), desk)

    def roll_back(text: str, request: gr.Request) -> list[Any]:
        def move() -> list[Any]:
            actor = desk.actor(request)
            pointer = releases.roll_back(desk.service, actor, reason_of(desk, text))
            return _page(
                desk,
                actor,
                alert(say(f"已回退，现在由 {pointer['active']} 应答。", f"Rolled back: {pointer['active']} answers.")),
            )

        return _guarded(move, desk)

    def take_out(item_id: str | None, text: str, request: gr.Request) -> list[Any]:
        def move() -> list[Any]:
            actor = desk.actor(request)
            actor.require(Permission.RELEASES_MANAGE)
            if not item_id or not RULE.fullmatch(item_id):
                raise RequestError(say("请先选择一条规则。", "choose a rule first"))
            desk.service.loop.remove_rule(actor, item_id, reason_of(desk, text))
            return _page(desk, actor, alert(say("规则已停用，从下一份文件起生效。", "Removed, from the next document on.")))

        return _guarded(move, desk)

    def show_gate(release_id: str | None, request: gr.Request) -> str:
        try:
            actor = desk.actor(request)
            found = learned.gate_report(desk.service, actor, release_id) if release_id else None
            return learning_html.gate(desk, release_id or "", found) if release_id else ""
        except CertloopError as error:
            return alert(words(desk, error), bad=True)

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal"}
    tab.select(show, outputs=shown, **(quiet | {"show_progress": "hidden"}))
    refresh.click(show, outputs=shown, **quiet)
    back.click(roll_back, [reason], shown, **quiet)
    remove.click(take_out, [rule, why], shown, **quiet)
    gate.change(show_gate, [gate], [report_box], **quiet)


def _guarded(move: Callable[[], list[Any]], desk: Desk) -> list[Any]:
    """What ``move`` shows, or why not, with the rest of the page as it was."""
    try:
        return move()
    except CertloopError as error:
        return [alert(words(desk, error), bad=True), *[gr.skip()] * 8]


def _page(desk: Desk, actor: Actor, said: str) -> list[Any]:
    """The tab as it stands. Raises ForbiddenError before anything is looked up."""
    actor.require(Permission.LEARNING_READ)
    service = desk.service
    seen = releases.overview(service, actor)
    items = service.loop.rules(actor)
    overview = learning_html.overview(
        desk,
        learned.signals_by_day(service, actor),
        report(service, actor),
        learned.exact_rates(service, actor),
        learned.synthetic_scores(actor),
        seen,
        people.names(service, actor),
    )
    with_gate = [(row["id"], row["id"]) for row in seen["releases"] if row["artefacts"].get("gate")]
    in_use = [(learning_html.rule_words(desk, item), item.item_id) for item in items if item.in_use]
    return [
        said,
        overview,
        gr.Dropdown(choices=with_gate, value=None, visible=bool(with_gate)),
        learning_html.rules(desk, items),
        gr.Dropdown(choices=in_use, value=None),
        *["" if said else gr.skip()] * 2,  # what was typed stays until it was done
        gr.Row(visible=bool(seen["pointer"]["candidate"] or seen["pointer"]["previous"])),
        gr.Row(visible=bool(in_use)),
    ]
