"""Rows of a snapshot to Parquet parts and back, a few hundred rows in memory at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.agentrl.store.blobs import sync_folder
from certloop.agentrl.store.errors import SnapshotError

if TYPE_CHECKING:
    import pyarrow

PART_ROWS = 20_000
GROUP_ROWS = 500


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    rows: int
    n_bytes: int
    sha256: str


def schema() -> pyarrow.Schema:
    """The columns. Token columns are lists as long as each other; ``ground_truth`` is the approved answer; ``trajectory`` and
    ``signals`` are JSON texts."""
    import pyarrow as pa

    text, words = pa.string(), pa.list_(pa.string())
    columns = {
        "event_id": text, "event_ids": words, "document_id": text, "traj_id": text, "doc_type": text, "created_at": text,
        "outcome": text, "consent": text, "purpose": text, "policy_version": text, "prompt_version": text,
        "harness_version": text, "memory_snapshot_id": text, "group_id": text, "image_sha256": words, "n_steps": pa.int32(),
        "final_json": text, "ground_truth": text, "reward": pa.float64(),
        "token_ids": pa.list_(pa.int64()), "logprobs": pa.list_(pa.float64()),
        "loss_mask": pa.list_(pa.int8()), "trajectory": text, "signals": text,
    }  # fmt: skip
    return pa.schema(list(columns.items()))


def write_parts(folder: Path, rows: Iterable[dict[str, Any]], part_rows: int = PART_ROWS) -> list[Part]:
    """Write ``part-00000.parquet`` and so on; each is synced and renamed when it is whole."""
    parts: list[Part] = []
    stream = iter(rows)
    while (first := next(stream, None)) is not None:
        parts.append(_write_part(folder, f"part-{len(parts):05d}.parquet", first, islice(stream, part_rows - 1)))
    return parts


def _write_part(folder: Path, name: str, first: dict[str, Any], rest: Iterator[dict[str, Any]]) -> Part:
    import pyarrow as pa
    import pyarrow.parquet as pq

    aside, columns, count = folder / f"{name}.partial", schema(), 0
    with aside.open("wb") as file:
        with pq.ParquetWriter(file, columns, compression="zstd") as writer:
            rows = chain([first], rest)
            while group := list(islice(rows, GROUP_ROWS)):
                writer.write_table(pa.Table.from_pylist(group, columns))
                count += len(group)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(folder / name)
    sync_folder(folder)
    with (folder / name).open("rb") as written:
        sha256 = hashlib.file_digest(written, "sha256").hexdigest()
    return Part(name, count, (folder / name).stat().st_size, sha256)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a part. Raises SnapshotError for a damaged one."""
    for batch in _batches(path):
        yield from batch.to_pylist()


def document_ids(path: Path) -> Iterator[list[str]]:
    """The documents of a part, in pieces. Raises SnapshotError for a damaged one."""
    for batch in _batches(path, ["document_id"]):
        yield batch.column(0).to_pylist()


def _batches(path: Path, columns: list[str] | None = None) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=GROUP_ROWS, columns=columns)
    except (pa.ArrowException, OSError):
        raise SnapshotError(f"{path.name} of this snapshot is damaged or cannot be read; make a new one") from None
