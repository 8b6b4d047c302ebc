"""The end of a run: rows into one file a split, the checks that make a dataset trustworthy, the manifest last."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from certloop.synth.config import MakeConfig
from certloop.synth.dataset.rows import swift_row, trl_row
from certloop.synth.dataset.work import PARTS, chunks, write_atomically
from certloop.synth.errors import DatasetError
from certloop.synth.render.fonts import default_faces

_IDENTIFYING = {
    "统一社会信用代码",
    "社会信用代码",
    "注册号",
    "名称",
    "经营者名称",
    "生产者名称",
    "企业名称",
    "公司名称",
    "业户名称",
    "住所",
    "经营场所",
    "生产地址",
    "注册地址",
    "地址",
    "住址",
    "公民身份号码",
    "委托人",
    "受托人身份证号",
    "账号",
}


def finish(config: MakeConfig) -> dict[str, Any]:
    """Join the chunks, refuse duplicates and leaks, write ``manifest.json`` and remove the parts. Raises DatasetError."""
    counts: Counter[str] = Counter()
    layouts: dict[str, set[str]] = {}
    images: set[bytes] = set()
    owners: dict[bytes, str] = {}
    with ExitStack() as stack:
        files = {name: _open_three(stack, config.out, name) for name, weight in config.splits if weight > 0}
        for row in _rows(config):
            split = row["split"]
            _refuse_leaks(row, images, owners)
            layouts.setdefault(f"{row['type_id'] or row['title']}/{row['layout']}", set()).add(split)
            for kind, value in (("split", split), ("type", row["type_id"] or row["title"]), ("profile", row["profile"])):
                counts[f"{kind}:{value}"] += 1
            counts["writer_fallback"] += bool(row["writer_fallback"])
            counts["unreadable_fields"] += len(row["unreadable"])
            for file, content in zip(
                files[split], (row, trl_row(row, config.search_path), swift_row(row, config.search_path)), strict=True
            ):
                file.write(json.dumps(content, ensure_ascii=False) + "\n")
    if shared := sorted(layout for layout, splits in layouts.items() if len(splits) > 1):
        raise DatasetError(f"layouts {', '.join(shared)} stand in several splits; this is a fault of the plan")
    if config.parquet:
        _write_parquet(config)
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


def _refuse_leaks(row: dict[str, Any], images: set[bytes], owners: dict[bytes, str]) -> None:
    digest = bytes.fromhex(row["sha256"])[:12]
    if digest in images:
        raise DatasetError(f"image {row['file']} stands twice in the dataset; use another seed")
    images.add(digest)
    for name, value in row["fields"].items():
        if name not in _IDENTIFYING or not value or len(value) < 6:
            continue
        key = hashlib.blake2b(value.encode(), digest_size=10).digest()
        if owners.setdefault(key, row["split"]) != row["split"]:
            raise DatasetError(f"a value of field {name} of {row['file']} stands in splits {owners[key]} and {row['split']}")


def _write_parquet(config: MakeConfig) -> None:
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    for name, weight in config.splits:
        if weight > 0:
            with (config.out / f"{name}.jsonl").open(encoding="utf-8") as file:
                rows = [
                    {"file": r["file"], "type_id": r["type_id"], "layout": r["layout"], "label": line}
                    for line in file
                    for r in [json.loads(line)]
                ]
            parquet.write_table(pyarrow.Table.from_pylist(rows), config.out / f"{name}.parquet")


def _manifest(config: MakeConfig, counts: Counter[str], layouts: dict[str, set[str]]) -> dict[str, Any]:
    files = {}
    for path in sorted(config.out.glob("*.jsonl")) + sorted(config.out.glob("*.parquet")):
        with path.open("rb") as file:
            files[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "format": "certloop-synth-1",
        "fingerprint": config.fingerprint(),
        "recipe": config.recipe(),
        "count": config.count,
        "counts": dict(sorted(counts.items())),
        "layouts": {k: next(iter(v)) for k, v in sorted(layouts.items())},
        "faces": default_faces().digest(),
        "files": files,
    }
