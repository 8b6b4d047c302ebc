"""Rows of a dataset: our label, and the same sample as TRL and as ms-swift read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from certloop.templates import load_types

_OTHER = '请判断图片中的文件类型，不是已知证照时输出 {"doc_type": "unknown"}。'


def answer_text(label: Mapping[str, Any]) -> str:
    """The JSON a model should answer: printed fields only, null where a value is blank or unreadable."""
    if not label["type_id"]:
        return json.dumps({"doc_type": "unknown"}, ensure_ascii=False)
    return json.dumps(label["fields"], ensure_ascii=False)


def trl_row(label: Mapping[str, Any], search_path: tuple[str, ...] = ()) -> dict[str, Any]:
    """A conversational prompt-completion row with images by path, as TRL's vision trainers take it."""
    return {
        "images": [label["file"]],
        "prompt": [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": _prompt(label["type_id"], search_path)}]}
        ],
        "completion": [{"role": "assistant", "content": [{"type": "text", "text": answer_text(label)}]}],
    }


def swift_row(label: Mapping[str, Any], search_path: tuple[str, ...] = ()) -> dict[str, Any]:
    """A row as ms-swift reads it: messages with an <image> mark, image paths beside them."""
    return {
        "messages": [
            {"role": "user", "content": "<image>" + _prompt(label["type_id"], search_path)},
            {"role": "assistant", "content": answer_text(label)},
        ],
        "images": [label["file"]],
    }


@lru_cache(maxsize=64)
def _prompt(type_id: str, search_path: tuple[str, ...]) -> str:
    return load_types(search_path).get(type_id).prompt if type_id else _OTHER
