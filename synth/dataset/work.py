"""One chunk of a dataset, in any process: images first, then the chunk's rows, so that a rows file means a finished chunk."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from certloop.synth.config import MakeConfig
from certloop.synth.dataset.plan import Assignment, Plan, make_plan
from certloop.synth.errors import DatasetError, TextFitError
from certloop.synth.label import Sample, make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe
from certloop.synth.seeds import stream_seed

PARTS = "parts"
_REDRAWS = 3


@dataclass(frozen=True, slots=True)
class Chunk:
    number: int
    first: int
    last: int

    def path(self, out: Path) -> Path:
        return out / PARTS / f"{self.number:06d}.jsonl"


def chunks(config: MakeConfig) -> list[Chunk]:
    starts = range(0, config.count, config.chunk)
    return [Chunk(n, first, min(config.count, first + config.chunk)) for n, first in enumerate(starts)]


def write_chunk(config: MakeConfig, chunk: Chunk) -> int:
    """Make and write one chunk; return its number of samples. Raises DatasetError when the disk refuses."""
    plan = _plan(config)
    lines = []
    for index in range(chunk.first, chunk.last):
        assignment = plan.assign(index)
        sample = build(assignment, config)
        data = sample.encoded()
        name = f"images/{index // 1000:04d}/{index:07d}.{sample.suffix}"
        write_atomically(config.out / name, data)
        row = {
            **sample.label,
            "file": name,
            "index": index,
            "split": assignment.split,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_atomically(chunk.path(config.out), "".join(lines).encode())
    return len(lines)


def build(assignment: Assignment, config: MakeConfig, redrawn: int = 0) -> Sample:
    """The sample of one assignment. Values that do not fit their form (a few in ten thousand) are drawn again from a further
    seed; the label counts it as ``redrawn``. Raises TextFitError when that does not help: the layout is too small."""
    recipe = Recipe(
        assignment.type_id, assignment.seed, config.width_px, layouts=assignment.layouts, misprint_rate=config.misprint_rate,
        search_path=config.search_path, domain=assignment.domain, writer=config.writer,
    )  # fmt: skip
    try:
        sample = make_sample(recipe, load_profile(assignment.profile))
    except TextFitError:
        if redrawn == _REDRAWS:
            raise
        return build(replace(assignment, seed=stream_seed(assignment.seed, "again")), config, redrawn + 1)
    sample.label["redrawn"] = redrawn
    return sample


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside and rename: a file that is there is whole. Raises DatasetError naming what the system said."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        reason = error.strerror or str(error)
        raise DatasetError(
            f"cannot write {path}: {reason}; the dataset is incomplete (no manifest): free space and run again"
        ) from error


_PLANS: dict[str, Plan] = {}


def _plan(config: MakeConfig) -> Plan:
    key = config.fingerprint()
    if key not in _PLANS:
        _PLANS.clear()
        _PLANS[key] = make_plan(config)
    return _PLANS[key]
