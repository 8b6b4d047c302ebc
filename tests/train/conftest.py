"""Tiny Qwen3-VL models of the real classes, a few drawn pages, and runs over them: enough to exercise every path in seconds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

from certloop.train.config import RunConfig, parse_config
from certloop.train.rows import Row


@pytest.fixture(scope="session", autouse=True)
def one_thread_of_torch() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of a student and of a teacher with other weights: 0.1 million parameters each, one vocabulary."""
    from certloop.train.nano import NanoConfig, build_nano, save_nano

    root = tmp_path_factory.mktemp("models")
    for name, seed in (("student", 0), ("teacher", 1)):
        model, processor = build_nano(NanoConfig.tiny(seed=seed))
        save_nano(model, processor, root / name, half=False)
    return root / "student", root / "teacher"


@pytest.fixture(scope="session")
def rows_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen packed pages with labels and, as the teacher's prompt, a hint."""
    from certloop.train.nano_data import nano_rows

    folder = tmp_path_factory.mktemp("rows")
    nano_rows(folder, 1, 16, hint=lambda page: f"名称是{page.fields['名称']}")
    return folder


@pytest.fixture(scope="session")
def rows(rows_folder: Path) -> list[Row]:
    from certloop.train.rows import read_rows

    return read_rows(rows_folder)


class Tiny:
    """Fresh models of the tiny folders and configurations of runs over them."""

    def __init__(self, folders: tuple[Path, Path], rows_folder: Path) -> None:
        self.student_folder, self.teacher_folder = folders
        self.rows_folder = rows_folder

    def config(self, *stages: dict[str, Any], lora: bool = False, **changes: Any) -> RunConfig:
        student: dict[str, Any] = {"path": str(self.student_folder), "dtype": "float32"}
        if lora:
            student["lora"] = {"rank": 4, "alpha": 8}
        data: dict[str, Any] = {
            "name": "tiny",
            "student": student,
            "teacher": {"path": str(self.teacher_folder), "dtype": "float32"},
            "data": {"train": str(self.rows_folder), "max_length": 1024},
            "hardware": {"device": "cpu"},
            "checkpoint_every": 2,
            "stages": [{"learning_rate": 1e-3, "batch_size": 4} | ({} if "epochs" in s else {"steps": 2}) | s for s in stages],
        }
        return parse_config(data | changes)

    def student(self) -> Any:
        from certloop.train.models import load_base

        return load_base(self.config({"kind": "sft"}).student)

    def teacher(self) -> Any:
        from certloop.train.models import load_base

        return load_base(self.config({"kind": "sft"}).teacher, frozen=True)  # type: ignore[arg-type]

    def processor(self) -> Any:
        from certloop.train.models import load_processor

        return load_processor(self.config({"kind": "sft"}).student)


@pytest.fixture(scope="session")
def tiny(tiny_folders: tuple[Path, Path], rows_folder: Path) -> Tiny:
    return Tiny(tiny_folders, rows_folder)
