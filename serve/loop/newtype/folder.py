"""The folder of a proposed type, as ``templates/`` has them: type.toml, prompt.txt, a blank form with its layout."""

from __future__ import annotations

import json
import re
from pathlib import Path

from certloop.serve.errors import NewTypeError
from certloop.serve.loop.newtype.propose import Draft, Proposal
from certloop.templates import DocumentType, squash
from certloop.templates.loader import read_type

_ID = re.compile(r"[a-z][a-z0-9_]{1,40}")


def write_folder(draft: Draft, type_id: str, out: Path) -> DocumentType:
    """Write ``out/TYPE_ID`` and read it as the product does. Raises NewTypeError, TemplateError."""
    if not _ID.fullmatch(type_id):
        raise NewTypeError("a type's id has 2 to 41 lower-case letters, digits and underscores, and begins with a letter")
    if not draft.title:
        raise NewTypeError("no title was found on the scans; give it with --title")
    folder = out / type_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "type.toml").write_text(_type_toml(draft, type_id), "utf-8")
    (folder / "prompt.txt").write_text(_prompt(draft), "utf-8")
    return read_type(folder)


def _type_toml(draft: Draft, type_id: str) -> str:
    head = [
        f"# A draft from {draft.scans} scans by `certloop types new`. Check titles, ids, kinds, and what is required.",
        *(f"# {note}" for note in draft.notes),
        f"id = {_q(type_id)}", 'version = "1"', f"title = {_q(draft.title)}",
        f"title_en = {_q(type_id.replace('_', ' ').capitalize())}", f"titles = [{_q(squash(draft.title))}]",
    ]  # fmt: skip
    return "\n".join([*head, *(_field(one, draft.scans) for one in draft.fields)]) + "\n"


def _field(one: Proposal, scans: int) -> str:
    lines = ["", f"# on {one.seen} of {scans} scans" + (f"; as in {one.known}" if one.known else ""), "[[fields]]"]
    lines += [f"id = {_q(one.id)}", f"label = {_q(one.label)}", f"kind = {_q(one.kind.value)}"]
    lines += ["required = true"] if scans > 1 and one.seen == scans and not one.same else []
    lines += [f"aliases = {_list(one.aliases)}"] if one.aliases else []
    lines += [f"validators = {_list(one.validators)}"] if one.validators else []
    return "\n".join(lines)


def _prompt(draft: Draft) -> str:
    labels = "、".join(one.label for one in draft.fields)
    return (
        f"请从图片中的{draft.title}提取全部字段，只抄写印在纸上的内容，不要改正、补全或猜测。\n字段：{labels}。\n"
        "没有印出的字段不要输出，印有字段名但内容空白或无法辨认时值为 null。\n"
        "先写出观察和判断，最后只输出一个 JSON 对象，键为字段名，值为印刷内容。\n"
    )


def _q(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_q, texts))}]"
