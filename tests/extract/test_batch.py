"""Many files: input order, and a worker that dies takes only its own file with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.errors import CertloopError
from certloop.extract.batch import WorkerStartError, read_many
from certloop.extract.result import FileStatus, Result

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)


def read(sources: Sequence[str | bytes], *, reader: str = "open_toy", config: Any = None, **options: Any) -> Iterator[Result]:
    import batch_readers

    paths = [s if isinstance(s, bytes) else Path(s) for s in sources]
    return read_many(paths, config, open_reader=getattr(batch_readers, reader), **options)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_input_order(workers: int) -> None:
    names = ["slow.jpg", "a.jpg", "b.jpg", "slow2.jpg", "c.jpg"]
    assert [r.file for r in read(names, workers=workers)] == names


def test_two_workers_share_the_files() -> None:
    results = list(read([f"slow{i}.jpg" for i in range(4)], workers=2))
    assert len({r.documents[0].title for r in results}) == 2


@pytest.mark.parametrize(("name", "exit_code"), [("die.jpg", "7"), ("killed.jpg", "-9")])
def test_a_dying_worker_takes_only_its_file(name: str, exit_code: str) -> None:
    results = list(read(["a.jpg", name, "b.jpg", "c.jpg", "d.jpg"], workers=2))
    assert [r.status.value for r in results] == ["ok", "failed", "ok", "ok", "ok"]
    assert results[1].file == name
    assert results[1].error is not None
    assert results[1].error["code"] == "worker_crashed"
    assert exit_code in results[1].error["message"]


def test_every_file_may_kill_its_worker() -> None:
    results = list(read(["die1", "die2", "die3", "die4", "die5"], workers=2))
    assert [r.status for r in results] == [FileStatus.FAILED] * 5


def test_a_worker_that_dies_while_starting_loses_no_file(tmp_path: Path) -> None:
    results = list(read(["a.jpg", "b.jpg", "c.jpg"], reader="open_once", config=tmp_path / "started", workers=2))
    assert [r.status for r in results] == [FileStatus.OK] * 3


def test_workers_that_never_start_stop_the_batch() -> None:
    with pytest.raises(WorkerStartError, match="certloop doctor") as caught:
        list(read(["a.jpg", "b.jpg"], reader="open_never", workers=2))
    assert caught.value.code == "worker_start_failed"


def test_a_typed_error_at_start_reaches_the_caller() -> None:
    with pytest.raises(CertloopError, match="the model is missing"):
        list(read(["a.jpg", "b.jpg"], reader="open_refused", workers=2))


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_counts_every_file(workers: int) -> None:
    seen: list[tuple[int, int]] = []
    list(read(["a", "b", "c"], workers=workers, on_progress=lambda done, total: seen.append((done, total))))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_caller_may_stop_early() -> None:
    import multiprocessing

    results = read([f"slow{i}" for i in range(20)], workers=2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_bytes_are_named_by_a_dash_and_the_type_is_passed_on() -> None:
    (result,) = read([b"a"], workers=1, doc_type="id_card")
    assert (result.file, result.documents[0].doc_type) == ("-", "id_card")


def test_no_files_no_results() -> None:
    assert list(read([], workers=2)) == []


def test_fewer_than_one_worker_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        list(read(["a"], workers=0))


def test_the_parent_imports_no_engine() -> None:
    """The parent only passes paths and results: memory belongs to the workers."""
    import subprocess

    code = "import sys, certloop.extract.batch; print(sorted({'cv2', 'onnxruntime'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
