"""What tabs made of Gradio components share: who sees a tab, errors in words, notes, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.context import Context

from certloop.agentrl.errors import CertloopError
from certloop.serve.errors import RequestError

if TYPE_CHECKING:
    from certloop.serve.desk.context import Desk
    from certloop.serve.people.roles import Permission

STYLE = f"<style>{(Path(__file__).parent / 'static' / 'tabs.css').read_text(encoding='utf-8')}</style>"
_PLAIN = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_WORDS = {
    "unauthenticated": ("登录已失效，请重新登录。", "The session is over; log in again."),
    "forbidden": ("您的角色没有这项权限。", "Your role may not do this."),
    "request_invalid": ("填写的内容不合要求：", "What was entered is not well formed: "),
    "conflict": ("已有任务在运行，请等它结束。", "A run is going on already; wait for its end."),
    "release_invalid": ("没有可以回退的版本。", "There is no release to go back to."),
    "blank_failed": ("这张图做不成模板：", "This scan cannot become a template: "),
}
_WITH_DETAIL = {"request_invalid", "blank_failed"}


def only_for(desk: Desk, permission: Permission) -> gr.Tab:
    """Hide the tab that is being built, which is returned, until the page knows that its visitor has ``permission``.

    This is for the eye alone; every handler authorises itself.
    """
    tab, page = Context.block, Context.root_block
    assert isinstance(tab, gr.Tab) and page is not None
    tab.visible = False

    def show(request: gr.Request) -> Any:
        try:
            return gr.update(visible=desk.actor(request).may(permission))
        except CertloopError:
            return gr.update(visible=False)

    page.load(show, outputs=[tab], api_visibility="private", show_progress="hidden")
    return tab


def reason_of(desk: Desk, text: str | None) -> str:
    """Raises RequestError for an empty or unprintable reason."""
    found = (text or "").strip()
    if not _PLAIN.fullmatch(found):
        raise RequestError(desk.say("请写一句理由（最多 200 字）。", "give a reason of up to 200 characters"))
    return found


def words(desk: Desk, error: CertloopError) -> str:
    """An error in the page's language; never a trace, and the error's own words only where they help."""
    known = _WORDS.get(error.code)
    if known is None:
        return desk.say(f"没有完成（{error.code}）：{error.message}", f"It was not done ({error.code}): {error.message}")
    return desk.say(*known) + (error.message if error.code in _WITH_DETAIL else "")


def alert(text: str, *, bad: bool = False) -> str:
    return (
        f'<div class="cl-say {"cl-bad" if bad else "cl-good"}" role="{"alert" if bad else "status"}">{escape(text)}</div>{STYLE}'
    )


def empty(text: str) -> str:
    return f'<p class="cl-empty">{escape(text)}</p>'


class Markup(str):
    """A cell that was escaped already."""

    __slots__ = ()


def table(head: Sequence[str], rows: Iterable[Sequence[object]], name: str = "") -> str:
    """A table that scrolls by itself on a phone; every cell is escaped."""
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    inner = f'<table data-table="{escape(name)}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="cl-scroll" tabindex="0">{inner}</div>'


def _cell(cell: object) -> str:
    return cell if isinstance(cell, Markup) else escape(str(cell))
