"""Nano's pages as packed rows: what the demonstration pipeline, the studies and the tests train on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from certloop.train.rows import Row, write_rows

if TYPE_CHECKING:
    from certloop.train.nano import NanoPage


def nano_rows(
    folder: Path,
    seed: int,
    n: int,
    *,
    layouts: str = "seen",
    worn: float = 0.0,
    start: int = 0,
    hint: Callable[[NanoPage], str] | None = None,
) -> list[Row]:
    """Draw ``n`` pages into ``folder`` (PNG images, ``rows.jsonl``, manifest) and return them as rows with labels.

    ``hint`` writes a guidance block for the teacher's prompt of each page (context distillation).
    """
    from certloop.train.nano import nano_pages, user_text

    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    rows = []
    for page in nano_pages(seed, n, layouts=layouts, worn=worn, start=start):
        path = images / f"{page.seed}-{page.index}.png"
        page.image.save(path)
        rows.append(
            Row(
                id=f"{page.seed}-{page.index}",
                prompt=user_text(),
                images=(path,),
                completion=page.answer,
                truth=dict(page.fields),
                teacher_prompt=user_text(hint(page)) if hint is not None else None,
                layout=page.layout,
            )
        )
    write_rows(folder, rows, source="nano", seed=seed)
    return rows
