"""Labelled pages and annotations to training rows: one self-contained folder a split, its manifest written last.

A folder holds ``rows.jsonl`` (what the trainers here read), ``swift.jsonl`` (the same rows as ms-swift reads them),
``images/`` (each page as serving would show it, by its hash) and ``manifest.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.agentrl.store.exporters import swift_row
from certloop.extract.engine.prompt import prompt_version
from certloop.extract.engine.view import View, png_bytes
from certloop.train.errors import TrainDataError
from certloop.train.pack.burn import check_burnt, row_texts
from certloop.train.pack.guidance import Guide
from certloop.train.pack.leaks import LeakWatch
from certloop.train.rows import Row, write_rows
from certloop.train.teach.journal import KEPT, Annotation
from certloop.train.teach.pages import LabelledPage, image_sha256

if TYPE_CHECKING:
    from certloop.extract.ingest import Decoder

SWIFT = "swift.jsonl"


@dataclass(frozen=True, slots=True)
class PackConfig:
    """``view`` bounds a page as serving will (take it from the model's processor: ``engine.inputs.view_of``).

    ``train`` are the splits of which every row needs its answer; rows of other splits keep the label as truth, and an answer
    where one was annotated. ``reasoning`` False packs the label's JSON alone and needs no annotations. ``held_out_forms`` are
    splits that must share no layout with any other. ``guide`` draws the guidance lines of a training page (``pack.guidance``);
    without it every prompt is the generic one.
    """

    view: View = field(default_factory=View)
    train: tuple[str, ...] = ("train",)
    reasoning: bool = True
    held_out_forms: tuple[str, ...] = ()
    guide: Guide | None = None


@dataclass(slots=True)
class Packed:
    """What was packed, by split; ``left_out`` counts training pages without a kept annotation, ``guided`` rows with guidance."""

    rows: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    modes: dict[str, int] = field(default_factory=dict)
    guided: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def pack(config: PackConfig, pages: Sequence[LabelledPage], annotations: Mapping[str, Annotation], out: Path) -> Packed:
    """Write ``out/SPLIT/`` for every split of the pages (one without a name is ``train``).

    Raises TrainDataError for splits that leak, rows in which anything of the helpers stands, a training split without a row,
    and a folder that cannot be written; IngestError and ViewError for a picture that cannot be shown.
    """
    from certloop.extract.ingest import Decoder

    if len({page.id for page in pages}) != len(pages):
        raise TrainDataError("two pages have one id; ids name files of a data set")
    by_split: dict[str, list[LabelledPage]] = {}
    for page in pages:
        by_split.setdefault(page.split or config.train[0], []).append(page)
    watch = LeakWatch(config.held_out_forms)
    packed = Packed()
    decoder = Decoder()
    rows: dict[str, list[Row]] = {}
    try:
        for split, members in by_split.items():
            rows[split] = [
                row for page in members if (row := _row(config, page, split, annotations, out / split, decoder, watch, packed))
            ]
    except OSError as error:
        raise TrainDataError(f"rows cannot be written to {out.name}: {error.strerror or type(error).__name__}") from None
    finally:
        decoder.close()
    watch.refuse()
    for split, made in rows.items():
        if split in config.train and not made:
            raise TrainDataError(f"no row of split {split} can be trained on: no annotation of its pages was kept")
        if made:
            _write(config, out / split, split, made, by_split[split], packed)
    return packed


def _row(
    config: PackConfig,
    page: LabelledPage,
    split: str,
    annotations: Mapping[str, Annotation],
    folder: Path,
    decoder: Decoder,
    watch: LeakWatch,
    packed: Packed,
) -> Row | None:
    """One row with its picture written, or None for a training page without an answer."""
    note = annotations.get(page.id)
    kept = note is not None and note.status == KEPT
    reasoning = "" if not config.reasoning else note.reasoning if note is not None and kept else None
    if reasoning is None and split in config.train:
        packed.left_out += 1
        return None
    pixels = page.view(decoder, config.view)
    watch.add(page, split, image_sha256(pixels.tobytes()))
    data = png_bytes(pixels)
    path = folder / "images" / f"{image_sha256(data)}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if note is not None and kept and config.reasoning:
        packed.modes[note.mode] = packed.modes.get(note.mode, 0) + 1
    guidance = config.guide(page) if config.guide is not None and split in config.train else ()
    packed.guided += bool(guidance)
    prompt, completion = row_texts(page, reasoning, guidance)
    return check_burnt(Row(page.id, prompt, (path,), completion, dict(page.fields), layout=page.layout), page)


def _write(
    config: PackConfig, folder: Path, split: str, rows: Sequence[Row], pages: Sequence[LabelledPage], packed: Packed
) -> None:
    packed.rows[split] = len(rows)
    swift = [swift_row(r.prompt, r.completion, [p.relative_to(folder).as_posix() for p in r.images]) for r in rows]
    try:
        (folder / SWIFT).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in swift), encoding="utf-8")
        write_rows(
            folder,
            rows,
            format="certloop-pack-1",
            split=split,
            view=asdict(config.view),
            reasoning=config.reasoning,
            prompts={p.doc_type.id: prompt_version(p.doc_type.prompt) for p in pages},
            layouts=dict(sorted(Counter(row.layout for row in rows).items())),
        )
    except OSError as error:
        raise TrainDataError(f"rows cannot be written to {folder.name}: {error.strerror or type(error).__name__}") from None
