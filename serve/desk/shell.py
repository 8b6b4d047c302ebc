"""The page around the tabs: header, language switch, theme. One Gradio application a language."""

from __future__ import annotations

import importlib
import importlib.util
from html import escape
from typing import TYPE_CHECKING

from certloop.serve.desk.context import Desk, Language
from certloop.serve.desk.fonts import FAMILY

if TYPE_CHECKING:
    import gradio

TABS = ("upload", "review", "learning", "data_engine")
"""Modules of this package with ``TITLE: tuple[str, str]`` and ``build(desk: Desk) -> None``; those not there yet are left out."""
FONTS = (
    "system-ui",
    "-apple-system",
    "Segoe UI",
    "PingFang SC",
    "Microsoft YaHei",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    FAMILY,
    "sans-serif",
)
QUIET = "#4a5a63"
"""Text beside what matters: 7 to 1 on white."""
EDGE = "#66767f"
"""Around what can be filled in: 3 to 1 at least on white."""
CLEAN = (600, 600)
"""Seconds: how often files of Gradio are looked for that nobody took, and how old they may get."""
FONT = '<link rel="stylesheet" href="/desk/font/rare.css">'
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")


def page(desk: Desk) -> gradio.Blocks:
    import gradio as gr

    blocks: gradio.Blocks
    with gr.Blocks(
        title=desk.say("证照读取台", "Certificate desk"), analytics_enabled=False, fill_width=True, delete_cache=CLEAN
    ) as blocks:
        gr.HTML(_header(desk), padding=False, elem_id="desk-header")
        with gr.Tabs(elem_id="desk-tabs"):
            for name in TABS:
                if importlib.util.find_spec(f"certloop.serve.desk.{name}") is not None:
                    tab = importlib.import_module(f"certloop.serve.desk.{name}")
                    with gr.Tab(desk.say(*tab.TITLE), id=name, elem_id=f"tab-{name.replace('_', '-')}"):
                        tab.build(desk)
    return blocks


def theme() -> gradio.themes.Base:
    """Fonts of the reader's own machine: nothing is fetched from elsewhere. Light always: a page beside a scan of white paper."""
    import gradio as gr

    made = gr.themes.Default(primary_hue="teal", neutral_hue="slate", font=FONTS, font_mono=MONO, radius_size="sm")
    made.set(
        body_text_color_subdued=QUIET, input_placeholder_color=QUIET, block_title_text_color=QUIET, block_info_text_color=QUIET,
        input_border_color=EDGE, input_border_width="1px",
    )  # fmt: skip
    for name in [name for name in vars(made) if name.endswith("_dark")]:
        setattr(made, name, getattr(made, name.removesuffix("_dark"), None))
    return made


def head(desk: Desk) -> str:
    names = ("desk", "viewer", "upload", "review")
    scripts = "".join(f'<script type="module" src="/desk/static/{name}.js"></script>' for name in names)
    return f'<meta name="certloop-language" content="{desk.language.value}"><link rel="icon" href="/favicon.ico">{FONT}{scripts}'


def css() -> str:
    from pathlib import Path

    return (Path(__file__).parent / "static" / "shell.css").read_text(encoding="utf-8")


def _header(desk: Desk) -> str:
    other = Language.EN if desk.language is Language.ZH else Language.ZH
    label = "English" if other is Language.EN else "中文"
    return (
        f'<certloop-header name="{escape(desk.say("证照读取台", "Certificate desk"))}" other="/desk/{other.value}/" '
        f'label="{label}" lang-other="{"en" if other is Language.EN else "zh-CN"}"></certloop-header>'
    )
