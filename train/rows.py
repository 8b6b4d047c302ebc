"""Packed training rows: one folder, one ``rows.jsonl``, its images, a manifest. What packing writes and every stage reads.

A row is ``{"id", "prompt", "completion"?, "images": [path, ...], "truth"?: {label: value}, "teacher_prompt"?, ...}``. Paths are
relative to the folder. ``prompt`` is the one generic user text, byte for byte what serving sends; images stand before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.train.errors import TrainDataError

if TYPE_CHECKING:
    from datasets import Dataset

ROWS = "rows.jsonl"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One page with its question. ``truth`` holds the printed values by label; ``second_read`` what another read saw (for rewards
    without labels)."""

    id: str
    prompt: str
    images: tuple[Path, ...]
    completion: str | None = None
    truth: Mapping[str, str | None] | None = None
    teacher_prompt: str | None = None
    second_read: Mapping[str, str | None] | None = None
    layout: str = ""


def read_rows(folder: Path) -> list[Row]:
    """Read and check every row. Raises TrainDataError with the line of the first one that is incomplete or without its image."""
    path = folder / ROWS
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # splitlines() would part a value at a U+2028 or U+0085
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not text in UTF-8"
        raise TrainDataError(f"no training rows in {folder.name or folder}: {ROWS} cannot be read ({why})") from None
    rows = [_row(folder, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise TrainDataError(f"{folder.name}/{ROWS} holds no row")
    return rows


def write_rows(folder: Path, rows: Iterable[Row], **manifest: Any) -> None:
    """Write ``rows.jsonl`` and, last, the manifest. Images must stand in the folder already."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_to_json(folder, row), ensure_ascii=False) for row in rows]
    (folder / ROWS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    digest = _files_sha256(folder)
    (folder / MANIFEST).write_text(
        json.dumps({"rows": len(lines), "sha256": digest, **manifest}, indent=2) + "\n", encoding="utf-8"
    )


def data_sha256(folder: Path) -> str:
    """The hash of the rows and of every image they name, which a run keeps to prove what it was trained on."""
    return _files_sha256(folder)


def to_dataset(rows: Iterable[Row], *, need: str = "completion") -> Dataset:
    """Rows as TRL takes them: ``prompt`` (one user message, plain text: the trainer puts the images before it), ``images``, and
    the columns that are there (``completion``, ``ground_truth`` and ``second_read`` as JSON text, ``teacher_prompt``).

    ``need`` names the column without which a row makes no sense; raises TrainDataError when one lacks it.
    """
    from datasets import Dataset, Features, Image, List, Value

    records = [_record(row) for row in rows]
    for record in records:
        if record.get(need) is None:
            raise TrainDataError(f"row {record['id']} has no {need}, which this stage needs")
    message = List({"role": Value("string"), "content": Value("string")})
    kinds = {"id": Value("string"), "prompt": message, "completion": message, "images": List(Image()), "teacher_prompt": message}
    kinds |= {"ground_truth": Value("string"), "second_read": Value("string")}
    used = [name for name in kinds if all(record.get(name) is not None for record in records)]
    columns = {name: [record[name] for record in records] for name in used}
    return Dataset.from_dict(columns, features=Features({name: kinds[name] for name in used}))


def _record(row: Row) -> dict[str, Any]:
    def said(role: str, text: str | None) -> list[dict[str, str]] | None:
        return None if text is None else [{"role": role, "content": text}]

    return {
        "id": row.id,
        "prompt": said("user", row.prompt),
        "completion": said("assistant", row.completion),
        "teacher_prompt": said("user", row.teacher_prompt),
        "images": [str(path) for path in row.images],
        "ground_truth": None if row.truth is None else json.dumps(dict(row.truth), ensure_ascii=False),
        "second_read": None if row.second_read is None else json.dumps(dict(row.second_read), ensure_ascii=False),
    }


def _row(folder: Path, number: int, line: str) -> Row:
    where = f"{folder.name}/{ROWS}, line {number}"
    try:
        data = json.loads(line)
        images = tuple(folder / str(path) for path in data["images"])
        row = Row(
            id=str(data.get("id", number)),
            prompt=data["prompt"],
            images=images,
            completion=data.get("completion"),
            truth=data.get("truth"),
            teacher_prompt=data.get("teacher_prompt"),
            second_read=data.get("second_read"),
            layout=str(data.get("layout", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise TrainDataError(f"{where}: not a row with prompt and images") from None
    if not isinstance(row.prompt, str) or not isinstance(row.completion, str | None):
        raise TrainDataError(f"{where}: prompt and completion are texts")
    if not images:
        raise TrainDataError(f"{where}: a label without an image")
    missing = next((path for path in images if not path.is_file()), None)
    if missing is not None:
        raise TrainDataError(f"{where}: the image {missing.name} is not there")
    return row


def _to_json(folder: Path, row: Row) -> dict[str, Any]:
    data: dict[str, Any] = {"id": row.id, "prompt": row.prompt, "completion": row.completion, "layout": row.layout or None}
    data["images"] = [path.relative_to(folder).as_posix() for path in row.images]
    for name in ("truth", "second_read"):
        value = getattr(row, name)
        data[name] = None if value is None else dict(value)
    data["teacher_prompt"] = row.teacher_prompt
    return {key: value for key, value in data.items() if value is not None}


def _files_sha256(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in _named_files(folder):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _named_files(folder: Path) -> Iterator[Path]:
    yield folder / ROWS
    for row in read_rows(folder):
        yield from row.images
