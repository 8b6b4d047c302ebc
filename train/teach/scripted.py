"""The scripted teacher: reasoning from a page's own boxes, by fixed sentences. It is no model, and says so
(``scripted-teacher``).

It stands in where no teacher can run: the nano pipeline and the tests. ``full`` sentences prove every value; ``brief`` ones
say only where it stands, for a model of a few million parameters whose every token counts.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from certloop.extract.engine.openai import data_url
from certloop.extract.engine.prompt import answer_text
from certloop.extract.engine.view import View
from certloop.train.errors import TrainDataError
from certloop.train.teach.helpers import helpers
from certloop.train.teach.local_server import Body, ChatServer, Reply
from certloop.train.teach.pages import Box, LabelledPage

NAME = "scripted-teacher"
Style = Literal["full", "brief"]
_COLUMNS, _ROWS = ("左", "中", "右"), ("上", "中", "下")


def scripted_answer(page: LabelledPage, mode: str, style: Style = "full") -> str:
    """A whole answer in the given mode. Raises TrainDataError for a page whose values have no boxes."""
    return answer_text(page.fields, scripted_reasoning(page, mode, style))


def scripted_reasoning(page: LabelledPage, mode: str, style: Style = "full") -> str:
    """The reasoning alone: fields in the order of the list (declaration) or from top to bottom (discovery)."""
    said = _sentences()[style][mode]
    labels = list(page.fields)
    if missing := [label for label in labels if page.fields[label] is not None and label not in page.boxes]:
        raise TrainDataError(f"the scripted teacher needs boxes: {page.id} has none for {len(missing)} fields")
    if mode == "discovery":
        labels.sort(key=lambda label: (page.boxes[label][1], page.boxes[label][0]) if label in page.boxes else (2.0, 0.0))
    lines = [str(said["list"]).format(labels="、".join(labels))]
    for label in labels:
        value, printed = page.fields[label], page.printed.get(label, "")
        kind = "empty" if value is None else "field" if printed else "unlabelled"
        where = _where(page.boxes[label], style) if label in page.boxes else ""
        lines.append(str(said[kind]).format(label=label, printed=printed, value=value, where=where))
    if style == "brief":
        return "".join(lines).rstrip("，") + "。"
    return "\n".join(lines)


def scripted_server(pages: Iterable[LabelledPage], view: View, style: Style = "full", *, key: str = "") -> ChatServer:
    """The scripted teacher behind the real protocol: it knows a page by its picture, and the mode by the trigger."""
    from certloop.extract.ingest import Decoder

    decoder = Decoder()
    try:
        known = {_digest(data_url(page.view(decoder, view))): page for page in pages}
    finally:
        decoder.close()

    def answer(body: Body) -> Reply:
        parts = [part for message in body["messages"] if message["role"] == "user" for part in message["content"]]
        url = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        page = known.get(_digest(url))
        if page is None:
            return Reply(status=404)
        mode = next(mode for mode, trigger in helpers().triggers.items() if trigger in text)
        return Reply(scripted_answer(page, mode, style))

    return ChatServer(answer, key=key)


def _digest(url: str) -> bytes:
    return hashlib.sha256(url.encode()).digest()


def _where(box: Box, style: Style) -> str:
    left, top, right, bottom = box
    column, row = (min(2, max(0, int(3 * middle))) for middle in ((left + right) / 2, (top + bottom) / 2))
    name = _COLUMNS[column] + _ROWS[row] if (column, row) != (1, 1) else "正中"
    if style == "brief":
        return name.replace("正中", "中")
    return name + "部"


@lru_cache(maxsize=1)
def _sentences() -> dict[str, Any]:
    return tomllib.loads(files("certloop.train.teach").joinpath("prompts", "scripted.toml").read_text(encoding="utf-8"))
