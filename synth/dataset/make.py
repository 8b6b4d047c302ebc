"""Makes a dataset: plans it, writes its chunks in any number of processes, and finishes it with a manifest.

Killed and run again with the same configuration it goes on where it stopped and ends with the same bytes.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from certloop.synth.config import MakeConfig
from certloop.synth.dataset.finish import add_parquet, finish
from certloop.synth.dataset.plan import make_plan
from certloop.synth.dataset.work import Chunk, chunks, write_atomically, write_chunk
from certloop.synth.errors import DatasetError
from certloop.synth.perturb import load_profile

Progress = Callable[[int, int], None]


def make(config: MakeConfig, progress: Progress | None = None) -> dict[str, Any]:
    """Write the dataset and return its manifest. ``progress`` hears samples done and samples wanted.

    Raises UnknownTypeError, LayoutError, ProfileError before anything is written; DatasetError for a folder that holds another
    dataset, a full disk, duplicates or leaks.
    """
    try:
        return _make(config, progress)
    except DatasetError:
        raise
    except OSError as error:
        raise DatasetError(f"cannot use {error.filename or config.out}: {error.strerror or error}") from error


def _make(config: MakeConfig, progress: Progress | None) -> dict[str, Any]:
    make_plan(config)
    if config.parquet and find_spec("pyarrow") is None:
        raise DatasetError("Parquet needs the package pyarrow; install it or leave --parquet out")
    for name, _ in config.profiles:
        load_profile(name)
    done = _prepare(config)
    if done is not None:
        return add_parquet(config, done) if config.parquet else done
    todo = [c for c in chunks(config) if not c.path(config.out).exists()]
    finished = config.count - sum(c.last - c.first for c in todo)
    if progress and finished:
        progress(finished, config.count)
    for made in _run(config, todo):
        finished += made
        if progress:
            progress(finished, config.count)
    return finish(config)


def _prepare(config: MakeConfig) -> dict[str, Any] | None:
    """Claim the folder: the manifest of the same finished dataset, or None when there is work to do."""
    manifest, plan = config.out / "manifest.json", config.out / "plan.json"
    if manifest.exists():
        found = _object(manifest)
        if found.get("fingerprint") == config.fingerprint():
            return found
        raise DatasetError(f"{config.out} holds another finished dataset; choose an empty folder")
    if plan.exists():
        if _object(plan).get("fingerprint") != config.fingerprint():
            raise DatasetError(
                f"{config.out} holds an unfinished dataset of another configuration; finish it or choose an empty folder"
            )
        return None
    if config.out.is_dir() and any(config.out.iterdir()):
        raise DatasetError(f"{config.out} is not empty and holds no dataset; choose an empty folder")
    body = {"fingerprint": config.fingerprint(), "recipe": config.recipe()}
    write_atomically(plan, (json.dumps(body, ensure_ascii=False, indent=1) + "\n").encode())
    return None


def _object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise DatasetError(f"{path} is damaged; choose an empty folder")
    return data


def _run(config: MakeConfig, todo: list[Chunk]) -> Iterator[int]:
    """Yield the number of samples of each chunk as it is done."""
    if config.workers <= 1 or len(todo) <= 1:
        for chunk in todo:
            yield write_chunk(config, chunk)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(config.workers, mp_context=context, initializer=_one_thread) as pool:
        waiting: set[Future[int]] = set()
        queue = iter(todo)
        try:
            while True:
                for following in islice(queue, 2 * config.workers - len(waiting)):
                    waiting.add(pool.submit(write_chunk, replace(config, workers=1), following))
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool as error:
            raise DatasetError(
                "a worker process died (killed or out of memory); run again to go on, with fewer workers"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    import cv2

    cv2.setNumThreads(1)
