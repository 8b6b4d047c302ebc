"""Regenerates the committed example certificates from ``examples/examples.toml``: every one is fictional and follows from its
seed."""

from __future__ import annotations

import io
import json
import tomllib
from pathlib import Path
from typing import Any

import cv2
from PIL import Image

from certloop.synth.dossier import make_dossier
from certloop.synth.errors import OutputError
from certloop.synth.files import write_file
from certloop.synth.label import Sample, make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe

_KEPT = (
    "file",
    "doc_type",
    "fields",
    "uncertain",
    "absent_fields",
    "traps",
    "rotate_cw_after_exif",
    "type_id",
    "layout",
    "seed",
    "profile",
)


def write_examples(folder: Path) -> list[Path]:
    """Write the images, the PDF and ``labels.jsonl`` that ``examples.toml`` lists; return the paths.

    Raises OutputError (code output_failed).
    """
    listing = folder / "examples.toml"
    try:
        entries = tomllib.loads(listing.read_text(encoding="utf-8"))["examples"]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError) as error:
        raise OutputError(f"{listing}: cannot be read as a list of examples: {error}") from error
    rows, paths = [], []
    for entry in entries:
        path = folder / entry["file"]
        if path.suffix == ".pdf":
            samples = make_dossier(
                entry["seed"], load_profile(entry["profile"]), papers=tuple(entry["papers"]), width_px=entry["width_px"]
            )
            write_file(path, _pdf(samples, entry.get("quality", 70)))
            rows.append(_pdf_label(entry, samples))
        else:
            recipe = Recipe(entry["type"], entry["seed"], entry["width_px"], layouts=(entry["layout"],))
            sample = make_sample(recipe, load_profile(entry["profile"]))
            write_file(path, _encoded(sample, path.suffix, entry.get("quality")))
            rows.append({k: (path.name if k == "file" else sample.label[k]) for k in _KEPT})
        paths.append(path)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_file(folder / "labels.jsonl", text.encode())
    return [*paths, folder / "labels.jsonl"]


def _encoded(sample: Sample, suffix: str, quality: int | None) -> bytes:
    bgr = cv2.cvtColor(sample.image, cv2.COLOR_RGB2BGR)
    arguments = (
        [cv2.IMWRITE_JPEG_QUALITY, quality or sample.jpeg_quality or 85] if suffix == ".jpg" else [cv2.IMWRITE_PNG_COMPRESSION, 9]
    )
    return bytes(cv2.imencode(suffix, bgr, arguments)[1])


def _pdf(samples: list[Sample], quality: int) -> bytes:
    """A PDF with one picture a page and no dates in it."""
    pages = [Image.fromarray(s.image) for s in samples]
    out = io.BytesIO()
    pages[0].save(
        out, "PDF", save_all=True, append_images=pages[1:], quality=quality, creationDate=None, modDate=None, resolution=120
    )
    return out.getvalue()


def _pdf_label(entry: dict[str, Any], samples: list[Sample]) -> dict[str, Any]:
    documents = [
        {
            "doc_type": s.label["doc_type"],
            "fields": s.label["fields"],
            "uncertain": [],
            "absent_fields": s.label["absent_fields"],
            "page": i + 1,
        }
        for i, s in enumerate(samples)
    ]
    return {
        "file": entry["file"],
        "doc_type": "+".join(d["doc_type"] for d in documents),
        "fields": {},
        "uncertain": [],
        "traps": ["multi_doc", "pdf"],
        "rotate_cw_after_exif": 0,
        "documents": documents,
        "seed": entry["seed"],
        "profile": entry["profile"],
    }
