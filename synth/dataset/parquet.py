"""A dataset's splits as Parquet, a few rows at a time: image bytes and label together, as the package datasets reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from certloop.synth.config import MakeConfig

_ROWS_AT_ONCE = 64
_TEXTS = ("file", "type_id", "layout", "profile", "sha256")


def parquet_files(config: MakeConfig) -> list[Path]:
    return [config.out / f"{name}.parquet" for name, weight in config.splits if weight > 0]


def write_parquet(config: MakeConfig) -> None:
    """Write ``<split>.parquet`` beside each ``<split>.jsonl``: columns image {bytes, path}, file, type_id, layout, profile,
    sha256, label (the whole row as JSON). A file that is there is whole."""
    import pyarrow
    from pyarrow import parquet

    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    texts = [(name, pyarrow.string()) for name in (*_TEXTS, "label")]
    schema = pyarrow.schema([("image", image), *texts]).with_metadata({"huggingface": json.dumps(_features())})
    for target in parquet_files(config):
        unfinished = target.with_name(f".{target.name}")
        try:
            with parquet.ParquetWriter(unfinished, schema) as writer:
                rows = _rows(config.out, target.with_suffix(".jsonl"))
                while batch := list(islice(rows, _ROWS_AT_ONCE)):
                    writer.write_table(pyarrow.Table.from_pylist(batch, schema))
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)


def _rows(folder: Path, source: Path) -> Iterator[dict[str, Any]]:
    with source.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            picture = {"bytes": (folder / row["file"]).read_bytes(), "path": row["file"]}
            yield {"image": picture, **{name: row[name] for name in _TEXTS}, "label": line.rstrip("\n")}


def _features() -> dict[str, Any]:
    texts = {name: {"dtype": "string", "_type": "Value"} for name in (*_TEXTS, "label")}
    return {"info": {"features": {"image": {"_type": "Image"}, **texts}}}
