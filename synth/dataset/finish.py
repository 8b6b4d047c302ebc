"""The end of a run: rows into one file a split, the checks that make a dataset trustworthy, the manifest last."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from certloop.synth.config import MakeConfig
from certloop.synth.dataset.leaks import Leaks
from certloop.synth.dataset.parquet import parquet_files, write_parquet
from certloop.synth.dataset.rows import swift_row, trl_row
from certloop.synth.dataset.work import PARTS, chunks, write_atomically
from certloop.synth.errors import DatasetError
from certloop.synth.render.fonts import default_faces


def finish(config: MakeConfig) -> dict[str, Any]:
    """Join the chunks, refuse duplicates and leaks, write ``manifest.json`` and remove the parts. Raises DatasetError."""
    counts: Counter[str] = Counter()
    layouts: dict[str, set[str]] = {}
    leaks = Leaks()
    with ExitStack() as stack:
        files = {name: _open_three(stack, config.out, name) for name, weight in config.splits if weight > 0}
        for row in _rows(config):
            split = row["split"]
            leaks.note(row)
            layouts.setdefault(f"{row['type_id'] or row['title']}/{row['layout']}", set()).add(split)
            for kind, value in (("split", split), ("type", row["type_id"] or row["title"]), ("profile", row["profile"])):
                counts[f"{kind}:{value}"] += 1
            counts["writer_fallback"] += bool(row["writer_fallback"])
            counts["redrawn"] += bool(row["redrawn"])
            counts["unreadable_fields"] += len(row["unreadable"])
            for file, content in zip(
                files[split], (row, trl_row(row, config.search_path), swift_row(row, config.search_path)), strict=True
            ):
                file.write(json.dumps(content, ensure_ascii=False) + "\n")
    leaks.refuse(lambda: _rows(config))
    if shared := sorted(layout for layout, splits in layouts.items() if len(splits) > 1):
        raise DatasetError(f"layouts {', '.join(shared)} stand in several splits; this is a fault of the plan")
    if config.parquet:
        write_parquet(config)
    manifest = _manifest(config, counts, layouts)
    write_atomically(config.out / "manifest.json", (json.dumps(manifest, ensure_ascii=False, indent=1) + "\n").encode())
    shutil.rmtree(config.out / PARTS)
    return manifest


def _rows(config: MakeConfig) -> Iterator[dict[str, Any]]:
    for chunk in chunks(config):
        with chunk.path(config.out).open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def _open_three(stack: ExitStack, out: Path, split: str) -> tuple[IO[str], ...]:
    return tuple(
        stack.enter_context((out / f"{split}{end}").open("w", encoding="utf-8"))
        for end in (".jsonl", ".trl.jsonl", ".swift.jsonl")
    )


def add_parquet(config: MakeConfig, manifest: dict[str, Any]) -> dict[str, Any]:
    """Write the Parquet files of a finished dataset that lacks them, and the manifest that names them."""
    if all(path.exists() for path in parquet_files(config)):
        return manifest
    write_parquet(config)
    manifest = manifest | {"files": _digests(config)}
    write_atomically(config.out / "manifest.json", (json.dumps(manifest, ensure_ascii=False, indent=1) + "\n").encode())
    return manifest


def _manifest(config: MakeConfig, counts: Counter[str], layouts: dict[str, set[str]]) -> dict[str, Any]:
    return {
        "format": "certloop-synth-1",
        "fingerprint": config.fingerprint(),
        "recipe": config.recipe(),
        "count": config.count,
        "counts": dict(sorted(counts.items())),
        "layouts": {k: next(iter(v)) for k, v in sorted(layouts.items())},
        "faces": default_faces().digest(),
        "files": _digests(config),
    }


def _digests(config: MakeConfig) -> dict[str, str]:
    digests = {}
    for path in sorted(config.out.glob("*.jsonl")) + sorted(config.out.glob("*.parquet")):
        with path.open("rb") as file:
            digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
