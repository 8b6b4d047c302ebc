"""Datasets: the same bytes whatever happens, no leak between splits, no half dataset that looks whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from certloop.synth.config import MakeConfig
from certloop.synth.dataset import make
from certloop.synth.dataset.leaks import Leaks
from certloop.synth.dataset.plan import make_plan
from certloop.synth.dataset.work import build
from certloop.synth.errors import DatasetError, ProfileError
from certloop.templates import UnknownTypeError

SMALL = MakeConfig(
    Path(),
    types=("business_licence", "id_card", "food_operation_permit"),
    count=24,
    profiles=(("scan", 1.0), ("clean", 1.0)),
    seed=5,
    width_px=420,
    chunk=4,
    splits=(("train", 0.7), ("validation", 0.15), ("test", 0.15)),
)


def digests(folder: Path) -> dict[str, str]:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "d"
    make(replace(SMALL, out=out))
    return out


def test_rows_images_and_manifest_belong_together(whole: Path) -> None:
    manifest = json.loads((whole / "manifest.json").read_text())
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((whole / name).read_bytes()).hexdigest() == digest
    rows = [row for split in ("train", "validation", "test") for row in rows_of(whole / f"{split}.jsonl")]
    assert len(rows) == 24 == manifest["count"]
    for row in rows:
        assert hashlib.sha256((whole / row["file"]).read_bytes()).hexdigest() == row["sha256"]
        assert row["golden_path"] and row["layout"] and row["boxes"] and "perturbations" in row
    trl = rows_of(whole / "train.trl.jsonl")[0]
    assert trl["prompt"][0]["content"][0]["type"] == "image" and (whole / trl["images"][0]).is_file()
    swift = rows_of(whole / "train.swift.jsonl")[0]
    assert swift["messages"][0]["content"].startswith("<image>")
    assert json.loads(swift["messages"][1]["content"])


def test_splits_share_no_layout_and_no_value(whole: Path) -> None:
    seen: dict[str, set[str]] = {}
    layouts: dict[str, set[str]] = {}
    for split in ("train", "validation", "test"):
        for row in rows_of(whole / f"{split}.jsonl"):
            layouts.setdefault(f"{row['type_id']}/{row['layout']}", set()).add(split)
            for name in ("名称", "住所", "统一社会信用代码", "法定代表人", "公民身份号码", "住址"):
                if value := row["fields"].get(name):
                    seen.setdefault(f"{name}:{value}", set()).add(split)
    assert len(layouts) > 5 and all(len(s) == 1 for s in layouts.values())
    assert all(len(s) == 1 for s in seen.values())


def test_two_workers_write_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    make(replace(SMALL, out=tmp_path / "d", workers=2))
    assert digests(tmp_path / "d") == digests(whole)


def test_killed_and_run_again_it_ends_with_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "d"
    code = (
        "from pathlib import Path; from tests.synth.test_dataset import SMALL; from dataclasses import replace;"
        f"from certloop.synth.dataset import make; make(replace(SMALL, out=Path({str(out)!r})))"
    )
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen([sys.executable, "-c", code], cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    until = time.monotonic() + 30
    while time.monotonic() < until and len(list(out.glob("parts/*.jsonl"))) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "manifest.json").exists()
    assert 2 <= len(list(out.glob("parts/*.jsonl"))) < 6
    heard: list[int] = []
    make(replace(SMALL, out=out), lambda done, wanted: heard.append(done))
    assert heard[0] >= 8 and heard[-1] == 24
    assert digests(out) == digests(whole)


def test_a_finished_dataset_is_not_made_again_and_not_mixed(whole: Path, tmp_path: Path) -> None:
    before = digests(whole)
    assert make(replace(SMALL, out=whole))["count"] == 24
    assert digests(whole) == before
    with pytest.raises(DatasetError, match="another finished dataset"):
        make(replace(SMALL, out=whole, seed=6))
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(DatasetError, match="not empty"):
        make(replace(SMALL, out=tmp_path))


def test_a_full_disk_leaves_no_manifest_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, written = Path.write_bytes, []

    def full(self: Path, data: bytes) -> int:
        if "images" in str(self) and len(written) >= 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(self)
        return real(self, data)

    out = tmp_path / "d"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(DatasetError, match=r"No space left.*run again"):
            make(replace(SMALL, out=out))
    assert not (out / "manifest.json").exists() and not list(out.rglob(".*"))
    assert make(replace(SMALL, out=out))["count"] == 24


def test_a_file_that_cannot_be_finished_leaves_no_manifest(tmp_path: Path) -> None:
    """A real limit of the kernel on file sizes: images and parts fit, the joined rows do not."""
    config = replace(SMALL, types=("business_licence",), count=40, profiles=(("scan", 1.0),))
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "from pathlib import Path; from tests.synth.test_dataset import SMALL; from dataclasses import replace;"
        "from certloop.synth.dataset import make;"
        "make(replace(SMALL, types=('business_licence',), count=40, profiles=(('scan', 1.0),), out=Path(sys.argv[1])))"
    )
    root, out = Path(__file__).resolve().parents[2], tmp_path / "d"
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code, str(out)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert "DatasetError" in done.stderr and "File too large" in done.stderr, done.stderr
    assert not (out / "manifest.json").exists() and len(list(out.glob("parts/*.jsonl"))) == 10
    make(replace(config, out=out))
    make(replace(config, out=tmp_path / "undisturbed"))
    assert digests(out) == digests(tmp_path / "undisturbed")


def test_parquet_holds_images_and_labels(whole: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    manifest = make(replace(SMALL, out=tmp_path / "d", parquet=True))
    read = {split: parquet.read_table(tmp_path / "d" / f"{split}.parquet") for split in ("train", "validation", "test")}
    assert sum(table.num_rows for table in read.values()) == 24
    rows = {row["file"]: row for split in read for row in rows_of(tmp_path / "d" / f"{split}.jsonl")}
    for table in read.values():
        for record in table.to_pylist():
            assert hashlib.sha256(record["image"]["bytes"]).hexdigest() == record["sha256"]
            assert json.loads(record["label"]) == rows[record["image"]["path"]]
        assert json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["image"] == {"_type": "Image"}
    assert hashlib.sha256((tmp_path / "d/test.parquet").read_bytes()).hexdigest() == manifest["files"]["test.parquet"]
    lines = digests(whole)
    assert all(digests(tmp_path / "d")[name] == lines[name] for name in lines if name != "manifest.json")


def test_parquet_may_be_asked_for_later(tmp_path: Path) -> None:
    config = replace(SMALL, out=tmp_path / "d", count=6, types=("id_card",))
    assert "train.parquet" not in make(config)["files"]
    manifest = make(replace(config, parquet=True))
    assert "train.parquet" in manifest["files"] and (tmp_path / "d" / "train.parquet").exists()
    assert json.loads((tmp_path / "d" / "manifest.json").read_text()) == manifest


def row(number: int, split: str, name: str) -> dict[str, Any]:
    return {"file": f"{number}.jpg", "sha256": f"{number:064x}", "split": split, "fields": {"名称": name, "类型": "有限责任公司"}}


def test_what_stands_in_two_splits_is_refused() -> None:
    rows = [
        row(1 << 200, "train", "恒达贸易有限公司"),
        row(2 << 200, "test", "瑞祥商贸有限公司"),
        row(3 << 200, "test", "恒达贸易有限公司"),
    ]
    leaks = Leaks()
    for entry in rows[:2]:
        leaks.note(entry)
    leaks.refuse(lambda: rows[:2])
    leaks.note(rows[2])
    with pytest.raises(DatasetError, match=r"field 名称 .*splits train and test"):
        leaks.refuse(lambda: rows)


def test_the_same_image_twice_is_refused() -> None:
    rows = [row(1 << 200, "train", "恒达贸易有限公司"), row(1 << 200, "train", "瑞祥商贸有限公司") | {"file": "2.jpg"}]
    leaks = Leaks()
    for entry in rows:
        leaks.note(entry)
    with pytest.raises(DatasetError, match=r"2\.jpg stands twice"):
        leaks.refuse(lambda: rows)


def test_bad_requests_fail_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "d"
    for bad, error in (
        ({"types": ("passport",)}, UnknownTypeError),
        ({"profiles": (("dusty", 1.0),)}, ProfileError),
        ({"splits": (("train", 0.0),)}, DatasetError),
        ({"count": 0}, DatasetError),
        *([({"parquet": True}, DatasetError)] if find_spec("pyarrow") is None else []),
    ):
        with pytest.raises(error):
            make(replace(SMALL, out=out, **bad))  # type: ignore[arg-type]
    assert not out.exists()


def test_misprints_come_at_the_rate_asked_for_and_stay_in_the_label() -> None:
    config = replace(SMALL, types=("business_licence",), count=40, misprint_rate=1.0, width_px=1200)
    plan = make_plan(config)
    label = build(plan.assign(1), config).label
    assert "misprinted_code" in label["traps"] and label["misprinted"]
    assert label["fields"][label["misprinted"][0]]


def test_a_users_own_type_is_made_too(tmp_path: Path) -> None:
    folder = tmp_path / "types" / "fire_permit"
    (folder / "layouts").mkdir(parents=True)
    (folder / "type.toml").write_text(
        'id = "fire_permit"\nversion = "1"\ntitle = "消防许可证"\ntitle_en = "Fire permit"\ntitles = ["消防许可证"]\n'
        '[[fields]]\nid = "name"\nlabel = "单位名称"\nkind = "text"\nrequired = true\n'
        '[[fields]]\nid = "issued_on"\nlabel = "发证日期"\nkind = "date"\n',
        encoding="utf-8",
    )
    (folder / "layouts" / "plain.toml").write_text(
        'title = "消防许可证"\nheight = 700\nrows = ['
        '{ field = "name", at = [100, 200], labels = ["单位名称"], width = 600, lines = 2 },'
        ' { field = "issued_on", at = [100, 300], labels = ["发证日期"] }]\n',
        encoding="utf-8",
    )
    out = tmp_path / "d"
    make(replace(SMALL, out=out, types=("fire_permit",), count=6, search_path=(str(tmp_path / "types"),)))
    row = rows_of(out / "train.jsonl")[0]
    assert row["type_id"] == "fire_permit" and set(row["fields"]) == {"单位名称", "发证日期"}
