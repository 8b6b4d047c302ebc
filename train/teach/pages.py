"""Labelled pages: what annotation and packing work on, from a data set of ours or from anybody's labelled pictures.

A labels file has one JSON object a line: ``file``, ``doc_type`` (or ``type_id``), ``fields`` (label to printed value, null
where blank or illegible). What ``certloop synth make`` adds is used where it is there: boxes, layout, split, the quarter turn
of the page.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.train.errors import TrainDataError

if TYPE_CHECKING:
    from certloop.extract.engine.contract import Image
    from certloop.extract.engine.view import View
    from certloop.extract.ingest import Decoder
    from certloop.templates import DocumentType, Registry

Box = tuple[float, float, float, float]
"""(left, top, right, bottom) in [0, 1] of the upright page."""


@dataclass(frozen=True, slots=True)
class LabelledPage:
    """One picture of one certificate with its true fields by canonical label, in the order of the document type.

    ``boxes`` and ``printed`` (the label as printed) are there where the label says them; ``quarter_turns`` turn the picture
    upright, clockwise. ``id`` is unique in a data set; ``layout`` and ``split`` are empty where nobody said.
    """

    id: str
    image: Path
    doc_type: DocumentType
    fields: Mapping[str, str | None]
    layout: str = ""
    split: str = ""
    boxes: Mapping[str, Box] = field(default_factory=dict)
    printed: Mapping[str, str] = field(default_factory=dict)
    quarter_turns: int = 0

    def view(self, decoder: Decoder, view: View) -> Image:
        """The page as serving would show it to a model: decoded, upright, of a size that fits. Raises IngestError, ViewError."""
        from certloop.extract.engine.view import page_view
        from certloop.extract.ingest import IngestLimits, ingest

        (page, *_) = ingest(self.image, IngestLimits(), decoder=decoder).pages
        return page_view(page.image, view, quarter_turns=self.quarter_turns)


def load_pages(folder: Path, labels: Path, registry: Registry) -> list[LabelledPage]:
    """Read a labels file whose pictures stand in ``folder``.

    Left out are pages of unknown types (traps), of several certificates, and those not fully transcribed: every field of the
    type must stand in ``fields`` (null where nothing can be read) or in ``absent_fields``, and none be uncertain. Raises
    TrainDataError for a line that is no label, a label without its picture, and a file without any page.
    """
    pages = []
    try:
        lines = labels.read_text(encoding="utf-8-sig").split("\n")  # values may hold a U+2028 or U+0085
    except (OSError, UnicodeDecodeError) as error:
        raise TrainDataError(f"the labels {labels.name} cannot be read: {type(error).__name__}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{labels.name}, line {number}"
        try:
            data = json.loads(line)
            page = _page(folder, data, registry, where)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            if isinstance(error, TrainDataError):
                raise
            raise TrainDataError(f"{where}: not a label ({type(error).__name__})") from None
        if page is not None:
            pages.append(page)
    if not pages:
        raise TrainDataError(
            f"{labels.name} holds no page to train on: a known type, every field of it in fields or absent_fields"
        )
    return pages


def _page(folder: Path, data: Mapping[str, Any], registry: Registry, where: str) -> LabelledPage | None:
    if data.get("documents"):
        return None
    doc_type = _type_of(data, registry)
    if doc_type is None:
        return None
    file = str(data["file"])
    image = (folder / file).resolve()
    if not image.is_relative_to(folder.resolve()):
        raise TrainDataError(f"{where}: 'file' leads out of the folder")
    if not image.is_file():
        raise TrainDataError(f"{where}: a label without an image: {Path(file).name} is not there")
    order = {spec.label: n for n, spec in enumerate(doc_type.fields.values())}
    canonical = doc_type.canonical_labels()
    fields = _canonical(data["fields"], canonical, where)
    absent = set(_canonical(dict.fromkeys(data.get("absent_fields") or []), canonical, where))
    if set(order) - set(fields) - absent:
        return None  # not fully transcribed: a model would learn to leave out what is printed
    uncertain = set(_canonical(dict.fromkeys(data.get("uncertain") or []), canonical, where))
    if uncertain & set(fields):
        return None  # a page that is not fully known cannot be a target
    width, height = data.get("image_size") or (0, 0)
    turns = round(float(data.get("rotate_cw_after_exif") or 0) / 90) % 4
    boxes = {}
    for label, entry in (data.get("boxes") or {}).items():
        if width and height and label in fields and entry.get("lines"):
            boxes[label] = _box(entry["lines"], width, height, turns)
    printed = {label: str(entry.get("label") or "") for label, entry in (data.get("boxes") or {}).items()}
    return LabelledPage(
        id=file,
        image=image,
        doc_type=doc_type,
        fields={label: fields[label] for label in sorted(fields, key=lambda name: order[name])},
        layout=str(data.get("layout") or ""),
        split=str(data.get("split") or ""),
        boxes=boxes,
        printed=printed,
        quarter_turns=turns,
    )


def _type_of(data: Mapping[str, Any], registry: Registry) -> DocumentType | None:
    from certloop.extract.evaluation import schema_from_registry

    name = data.get("type_id")
    if name is None:
        found = schema_from_registry(registry).find(data.get("doc_type"))
        name = found.id if found is not None else None
    return registry.types.get(str(name)) if name else None


def _canonical(fields: Mapping[str, str | None], canonical: Mapping[str, str], where: str) -> dict[str, str | None]:
    from certloop.templates import squash

    out: dict[str, str | None] = {}
    for label, value in fields.items():
        known = canonical.get(squash(label))
        if known is None:
            continue
        if value is not None and not isinstance(value, str):
            raise TrainDataError(f"{where}: 'fields' must map labels to text or null")
        out[known] = value
    return out


def _box(lines: Sequence[Sequence[Sequence[float]]], width: float, height: float, turns: int) -> Box:
    """The box around all lines, in shares of the page after its quarter turns."""
    points = [(x / width, y / height) for line in lines for x, y in line]
    for _ in range(turns):
        points = [(1 - y, x) for x, y in points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)


def nano_labelled(
    folder: Path, seed: int, n: int, *, layouts: str = "seen", split: str = "train", worn: float = 0.0
) -> list[LabelledPage]:
    """Nano's pages as labelled pages, their pictures written into ``folder``."""
    from certloop.train.nano import nano_pages
    from certloop.train.nano.vocabulary import nano_type

    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for page in nano_pages(seed, n, layouts=layouts, worn=worn):
        path = folder / f"{split}-{seed}-{page.index}.png"
        page.image.save(path)
        height, width = page.pixels.shape[:2]
        scale = (width, height, width, height)
        boxes: dict[str, Box] = {
            label: (box[0] / scale[0], box[1] / scale[1], box[2] / scale[2], box[3] / scale[3])
            for label, box in page.boxes.items()
        }
        name = f"{split}-{seed}-{page.index}"
        out.append(LabelledPage(name, path, nano_type(), dict(page.fields), page.layout, split, boxes, dict(page.printed)))
    return out


def write_labels(path: Path, pages: Sequence[LabelledPage]) -> None:
    """The pages' labels as ``certloop evaluate`` and ``load_pages`` read them; pictures are named relative to the file's
    folder."""
    lines = []
    for page in pages:
        absent = [spec.label for spec in page.doc_type.fields.values() if spec.label not in page.fields]
        label = {
            "file": page.image.relative_to(path.parent).as_posix(),
            "doc_type": page.doc_type.id,
            "fields": dict(page.fields),
            "absent_fields": absent,
            "layout": page.layout,
            "split": page.split,
        }
        lines.append(json.dumps(label, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def image_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
