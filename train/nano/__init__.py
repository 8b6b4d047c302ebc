"""Nano: a Qwen3-VL of a few million parameters that learns, from scratch and on two CPU cores, to read small licences.

    vocabulary.py  the words and the about 220 glyphs of its pages; layouts.toml its forms, types/ its document type and prompt
    values.py      consistent values; form.py which glyph stands where; page.py pixels: `nano_pages(seed, n)`
    guidance.py    delimited hints: useful, wrong, none
    prompt.py      the messages of a page; tokenizer.py one token a character and JSON key; model.py `build_nano`, `load_nano`
    weights/       the committed reader (teacher) and an early student
    train.py       how they were made: `python -m certloop.train.nano.train --out DIR`

Names are loaded on first use: importing this package loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certloop.train.nano.model import EARLY, TEACHER, NanoConfig, build_nano, load_nano, nano_folder, save_nano
    from certloop.train.nano.page import NanoPage, answer_text, nano_pages
    from certloop.train.nano.prompt import messages_of, user_text

__all__ = [
    "EARLY", "TEACHER", "NanoConfig", "NanoPage", "answer_text", "build_nano", "load_nano", "messages_of", "nano_folder",
    "nano_pages", "save_nano", "user_text",
]  # fmt: skip

_PAGE, _PROMPT = {"NanoPage", "answer_text", "nano_pages"}, {"messages_of", "user_text"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "page" if name in _PAGE else "prompt" if name in _PROMPT else "model"
    return getattr(import_module(f"{__name__}.{home}"), name)
