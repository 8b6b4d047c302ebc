"""Rows without labels: what two reads of one page both see, and no rule contradicts, is the truth of GSPO's reward ``agreement``.

Both reads are the model's own, greedy: of the page, and of the page a sixteenth smaller on its own ground, where slips of the eye
fall otherwise. A field on which they differ, or whose validator fails, gives no information (METHODS §1.5): it is left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.train.errors import TrainDataError
from certloop.train.rows import Row, write_rows

if TYPE_CHECKING:
    from PIL.Image import Image

    from certloop.templates import DocumentType

SHRINK = 15 / 16
SECOND = "second"
ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".heic"})


@dataclass(slots=True)
class SecondRead:
    """``pages`` shown, ``rows`` written, ``fields`` agreed upon; ``failed`` pictures that could not be decoded."""

    pages: int = 0
    rows: int = 0
    fields: int = 0
    failed: int = 0

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def second_read(folder: Path, doc_type: DocumentType, model: Any, processor: Any, out: Path, *, tokens: int = 512) -> SecondRead:
    """Read every picture of ``folder`` (upright, one certificate of ``doc_type`` each) twice and write rows into ``out``.

    Raises TrainDataError when there is no picture, or not one field on which the reads agree.
    """
    counts = SecondRead()
    rows = _rows(folder, doc_type, processor, out, counts)
    kept = agreed_rows(rows, doc_type, model, processor, out, tokens=tokens)
    if not kept:
        raise TrainDataError(f"on none of {len(rows)} pages two reads agree: the model does not read them")
    counts.pages, counts.rows, counts.fields = len(rows), len(kept), sum(len(row.second_read or {}) for row in kept)
    write_rows(out, kept, format="certloop-second-read-1", doc_type=doc_type.id)
    return counts


def agreed_rows(
    rows: Sequence[Row], doc_type: DocumentType, model: Any, processor: Any, out: Path, *, tokens: int = 512
) -> list[Row]:
    """The rows on which two reads agree about a field, with what they agree on. The smaller pages lie in ``out`` meanwhile."""
    from certloop.extract.engine.answer_parser import read_answer
    from certloop.train.evaluate import read_rows_with
    from certloop.train.gspo_reward import agreed_fields

    first, second = (
        [read_answer(text).fields for text in read_rows_with(model, processor, part, max_new_tokens=tokens)]
        for part in (rows, _shrunk(rows, out))
    )
    shutil.rmtree(out / SECOND)
    agreed = [
        agreed_fields(one, other, lambda label, value: _breaks_a_rule(doc_type, label, value))
        for one, other in zip(first, second, strict=True)
    ]
    return [replace(row, second_read=fields) for row, fields in zip(rows, agreed, strict=True) if fields]


def _rows(folder: Path, doc_type: DocumentType, processor: Any, out: Path, counts: SecondRead) -> list[Row]:
    """Each picture as serving would show it, with the type's prompt and no answer."""
    from certloop.extract.engine.inputs import view_of
    from certloop.extract.engine.view import ViewError, png_bytes
    from certloop.extract.ingest import Decoder, IngestError
    from certloop.train.teach.pages import LabelledPage, image_sha256

    view, rows, decoder = view_of(processor), list[Row](), Decoder()
    images = out / "images"
    images.mkdir(parents=True, exist_ok=True)
    try:
        for file in sorted(p for p in folder.iterdir() if p.suffix.lower() in ENDINGS):
            try:
                data = png_bytes(LabelledPage(file.name, file, doc_type, {}).view(decoder, view))
            except (IngestError, ViewError):
                counts.failed += 1
                continue
            path = images / f"{image_sha256(data)}.png"
            path.write_bytes(data)
            rows.append(Row(file.name, doc_type.prompt, (path,)))
    finally:
        decoder.close()
    if not rows:
        raise TrainDataError(f"{folder.name} holds no picture that can be read")
    return rows


def _shrunk(rows: Sequence[Row], out: Path) -> list[Row]:
    from PIL import Image

    folder = out / SECOND
    folder.mkdir(exist_ok=True)
    made = []
    for row in rows:
        path = folder / row.images[0].name
        with Image.open(row.images[0]) as page:
            shrink(page.convert("RGB")).save(path)
        made.append(replace(row, images=(path,)))
    return made


def shrink(page: Image) -> Image:
    """The page a little smaller in the middle of a sheet of its own size and ground."""
    from PIL import Image as Pictures

    small = page.resize((int(page.width * SHRINK), int(page.height * SHRINK)))
    sheet = Pictures.new("RGB", page.size, page.getpixel((1, 1)))
    sheet.paste(small, ((page.width - small.width) // 2, (page.height - small.height) // 2))
    return sheet


def _breaks_a_rule(doc_type: DocumentType, label: str, value: str) -> bool:
    from certloop.validators import validate

    spec = next((spec for spec in doc_type.fields.values() if spec.label == label), None)
    return spec is None or any(verdict.failed for kind in spec.validator_kinds for verdict in validate(kind, value))
