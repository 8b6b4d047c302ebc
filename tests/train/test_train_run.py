"""A run: what its folder holds, that it resumes where it stood, and what stops it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from certloop.train.checkpoints import COMPLETE, is_complete, latest_complete, seal
from certloop.train.config import dump_config, load_config
from certloop.train.errors import (
    AdapterBaseError,
    CheckpointError,
    DeviceMemoryError,
    LossError,
    ModelLoadError,
    TrainConfigError,
    TrainDataError,
    VocabularyError,
)
from certloop.train.rows import data_sha256
from certloop.train.run import run

GSPO = {"kind": "gspo", "batch_size": 8, "group_size": 4, "updates_per_generation": 2, "max_completion_length": 4}


@pytest.fixture(scope="module")
def done(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three stages."""
    folder = tmp_path_factory.mktemp("run") / "r"
    config = tiny.config({"kind": "sft"}, {"kind": "distill", "max_completion_length": 4}, GSPO)
    assert run(config, folder) == folder / "03-gspo" / "model"
    return folder


def test_a_run_folder_says_everything_about_it(done: Path, tiny: Any) -> None:
    assert load_config(done / "run.toml").name == "tiny"
    data = json.loads((done / "data.json").read_text(encoding="utf-8"))
    assert data == {"train": {"rows": 16, "sha256": data_sha256(tiny.rows_folder)}}
    environment = json.loads((done / "environment.json").read_text(encoding="utf-8"))
    assert environment["packages"]["trl"].startswith("1.16")
    assert json.loads((done / "status.json").read_text(encoding="utf-8")) == {"state": "done", "model": "03-gspo/model"}
    for stage in ("01-sft", "02-distill", "03-gspo"):
        lines = [json.loads(line) for line in (done / stage / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [line["step"] for line in lines if "loss" in line] == [1, 2]
        summary = json.loads((done / stage / "stage.json").read_text(encoding="utf-8"))
        assert summary["steps"] == 2


def test_what_a_run_leaves_is_safetensors(done: Path) -> None:
    """Local resume state may be tensors; nothing in a model folder is, and nothing anywhere holds pickled objects."""
    import torch

    for path in done.glob("*/model/*"):
        assert path.suffix in {".safetensors", ".json", ".jinja"}, path
    for path in done.glob("*/checkpoints/*/*"):
        assert path.suffix in {".safetensors", ".json", ".jinja", ".pt", ".pth"}, path
        if path.suffix == ".pt":
            torch.load(path, weights_only=True)


def test_a_finished_run_is_not_trained_again(done: Path, tiny: Any) -> None:
    said: list[str] = []
    before = (done / "03-gspo" / "model" / "model.safetensors").stat().st_mtime_ns
    run(load_config(done / "run.toml"), done, said.append)
    assert said == ["01-sft: done before", "02-distill: done before", "03-gspo: done before"]
    assert (done / "03-gspo" / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_a_gspo_stage_without_any_spread_says_that_it_learned_nothing(tiny: Any, tmp_path: Path, capfd: Any) -> None:
    """An untrained model writes no JSON: every answer earns 0, every group is dropped, and the stage ends well."""
    from transformers.utils import logging

    logging.enable_progress_bar()
    run(tiny.config(GSPO), tmp_path / "r")
    lines = capfd.readouterr().err.splitlines()
    assert (
        "gspo: nothing was learned: in no group did the answers differ in reward, and 0.0% of the answers could be read; "
        "begin with an sft stage" in lines[-1]
    )
    assert not [line for line in lines if "%|" in line], "no progress bars between them"
    summary = json.loads((tmp_path / "r" / "01-gspo" / "stage.json").read_text(encoding="utf-8"))
    assert (summary["groups_kept"], summary["parsed"]) == (0.0, 0.0)


def test_only_a_stage_without_any_spread_is_said_to_learn_nothing() -> None:
    from certloop.train.callbacks import learned_nothing, reward_outcome

    logs = [{"groups_kept": 0.0, "parsed": 1.0}, {"loss": 1.0}, {"groups_kept": 0.25, "parsed": 0.5}]
    assert reward_outcome(logs) == {"groups_kept": 0.125, "parsed": 0.75}
    assert learned_nothing("gspo", reward_outcome(logs)) is None
    assert learned_nothing("sft", reward_outcome([{"loss": 1.0}])) is None
    assert "raise temperature" in (learned_nothing("gspo", reward_outcome(logs[:1])) or "")


def test_another_run_is_not_continued(done: Path, tiny: Any) -> None:
    other = load_config(done / "run.toml").with_(seed=5, keep=1)
    with pytest.raises(TrainConfigError, match=r"holds another run \(run.toml differs in seed, keep\)"):
        run(other, done)


def test_two_processes_do_not_train_in_one_folder(tiny: Any, tmp_path: Path) -> None:
    from certloop.train.run import alone

    (tmp_path / "r").mkdir()
    with alone(tmp_path / "r"), pytest.raises(TrainConfigError, match="another process is training in r"):
        run(tiny.config({"kind": "sft"}), tmp_path / "r")
    with alone(tmp_path / "r"):
        pass


def test_rows_that_changed_under_a_run_are_refused(tiny: Any, tmp_path: Path) -> None:
    from certloop.train.nano_data import nano_rows

    nano_rows(tmp_path / "d", 5, 4)
    config = tiny.config({"kind": "sft", "steps": 1}).with_(data={"train": str(tmp_path / "d"), "max_length": 1024})
    run(config, tmp_path / "r")
    nano_rows(tmp_path / "d", 6, 4)
    with pytest.raises(TrainDataError, match="not those this run began with"):
        run(config, tmp_path / "r")


def test_a_gradient_that_is_not_finite_stops_before_it_spoils_the_weights(tiny: Any, tmp_path: Path) -> None:
    config = tiny.config({"kind": "sft", "learning_rate": 1e30, "steps": 6, "max_grad_norm": 1e30})
    with pytest.raises(LossError, match="is not finite"):
        run(config, tmp_path / "r")
    status = json.loads((tmp_path / "r" / "status.json").read_text(encoding="utf-8"))
    assert (status["state"], status["error"]["code"]) == ("failed", "loss_not_finite")
    assert not (tmp_path / "r" / "01-sft" / "model").exists()


def test_models_without_one_vocabulary_are_refused_before_training(tiny: Any, tmp_path: Path) -> None:
    from certloop.train.nano import NanoConfig, build_nano, save_nano

    model, processor = build_nano(NanoConfig.tiny())
    processor.tokenizer.add_tokens(["新词"])
    model.resize_token_embeddings(len(processor.tokenizer))
    save_nano(model, processor, tmp_path / "other", half=False)
    config = tiny.config({"kind": "distill", "max_completion_length": 4}).with_(
        teacher={"path": str(tmp_path / "other"), "dtype": "float32"}
    )
    with pytest.raises(VocabularyError, match="tokens"):
        run(config, tmp_path / "r")


def test_what_a_later_stage_needs_is_asked_for_before_the_first_one(tiny: Any, tmp_path: Path) -> None:
    """Hours of SFT are not spent before it turns out that distillation or GSPO cannot follow; and nothing claims the folder."""
    from certloop.train.nano import NanoConfig, build_nano, save_nano
    from certloop.train.rows import read_rows, write_rows

    model, processor = build_nano(NanoConfig.tiny())
    processor.tokenizer.add_tokens(["新词"])
    model.resize_token_embeddings(len(processor.tokenizer))
    save_nano(model, processor, tmp_path / "other", half=False)
    model.resize_token_embeddings(len(processor.tokenizer) + 8)
    save_nano(model, tiny.processor(), tmp_path / "padded", half=False)
    shutil.copytree(tiny.rows_folder, tmp_path / "bare")
    bare = read_rows(tmp_path / "bare")
    write_rows(tmp_path / "bare", [*bare[:-1], dataclasses.replace(bare[-1], truth=None, teacher_prompt=None)])
    data = {"train": str(tmp_path / "bare"), "max_length": 1024}
    distill = {"kind": "distill", "max_completion_length": 4}
    for config, error, words in (
        (tiny.config({"kind": "sft"}, distill, teacher={"path": str(tmp_path / "other")}), VocabularyError, "tokens"),
        (tiny.config({"kind": "sft"}, distill, teacher={"path": str(tmp_path / "padded")}), VocabularyError, "head has"),
        (tiny.config({"kind": "sft"}, distill, teacher={"path": str(tmp_path / "none")}), ModelLoadError, "no such folder"),
        (tiny.config({"kind": "sft"}, GSPO).with_(data=data), TrainDataError, f"row {bare[-1].id} has no ground_truth"),
        (tiny.config({"kind": "sft"}, {"kind": "context-distill"}).with_(data=data), TrainDataError, "no teacher_prompt"),
        (tiny.config({"kind": "sft"}, GSPO | {"batch_size": 40}), TrainDataError, "20 pages a generation .* there are 16 rows"),
        (tiny.config({"kind": "sft"}).with_(data={"train": ""}), TrainDataError, "the run names no rows"),
    ):
        said: list[str] = []
        with pytest.raises(error, match=words):
            run(config, tmp_path / "r", said.append)
        assert said == []
        assert not (tmp_path / "r").exists()


def test_a_mistyped_name_of_the_small_model_lists_the_known_ones(tiny: Any, tmp_path: Path) -> None:
    from certloop.train.plan import make_plan

    config = tiny.config({"kind": "sft"}).with_(student={"path": "nano:earl", "dtype": "float32"})
    for asked in (lambda: run(config, tmp_path / "r"), lambda: make_plan(config)):
        with pytest.raises(ModelLoadError, match="no model nano:earl: nano:early and nano:teacher come with certloop"):
            asked()


def test_a_run_refused_for_its_rows_claims_no_folder(tiny: Any, tmp_path: Path) -> None:
    """Mended, the same command may begin in the same folder. Pages packed too large are why rows are too long: told first."""
    shutil.copytree(tiny.rows_folder, tmp_path / "wide")
    manifest = json.loads((tmp_path / "wide" / "manifest.json").read_text(encoding="utf-8"))
    view = {"view": {"min_pixels": 1024, "max_pixels": 9_000_000}}
    (tmp_path / "wide" / "manifest.json").write_text(json.dumps(manifest | view), encoding="utf-8")
    for folder, words in (
        (tmp_path / "wide", "packed for pages of up to 9000000"),
        (tiny.rows_folder, "more than max_length 64"),
    ):
        config = tiny.config({"kind": "sft"}).with_(data={"train": str(folder), "max_length": 64})
        with pytest.raises(TrainDataError, match=words):
            run(config, tmp_path / "r")
        assert not (tmp_path / "r").exists()
    run(tiny.config({"kind": "sft"}), tmp_path / "r")


def test_a_folder_that_is_no_model_is_named(tiny: Any, tmp_path: Path) -> None:
    config = tiny.config({"kind": "sft"}).with_(student={"path": str(tmp_path), "dtype": "float32"})
    with pytest.raises(ModelLoadError, match=tmp_path.name):
        run(config, tmp_path / "r")


def test_an_adapter_goes_on_and_only_on_its_own_base(tiny: Any, tmp_path: Path) -> None:
    from certloop.train.models import load_adapter, load_base

    config = tiny.config({"kind": "sft"}, GSPO, lora=True)
    model = run(config, tmp_path / "r")
    assert {p.name for p in model.glob("*.safetensors")} == {"adapter_model.safetensors"}
    load_adapter(tiny.student(), model)
    with pytest.raises(AdapterBaseError, match="same shape with other weights"):
        load_adapter(tiny.teacher(), model)
    (model / "certloop_base.json").unlink()
    with pytest.raises(AdapterBaseError, match="does not say"):
        load_adapter(load_base(config.student), model)


def test_only_complete_checkpoints_count(tmp_path: Path) -> None:
    for step in (10, 9, 100):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"x" * step)
        (folder / "training_args.bin").write_bytes(b"pickle")
        seal(folder)
        assert not (folder / "training_args.bin").exists()
    assert latest_complete(tmp_path) == tmp_path / "checkpoint-100"
    (tmp_path / "checkpoint-100" / "model.safetensors").write_bytes(b"x" * 99)  # cut short
    assert latest_complete(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-100").exists()
    (tmp_path / "checkpoint-10" / COMPLETE).write_text("{", encoding="utf-8")
    assert not is_complete(tmp_path / "checkpoint-10")
    assert latest_complete(tmp_path) == tmp_path / "checkpoint-9"
    assert latest_complete(tmp_path / "none") is None


def test_older_checkpoints_go_when_the_new_one_is_whole(tiny: Any, rows: list[Any], tmp_path: Path, monkeypatch: Any) -> None:
    """A kill while a checkpoint is written must leave the one before, even where only one is kept."""
    from certloop.train import checkpoints
    from certloop.train.sft import sft_trainer

    config = tiny.config({"kind": "sft", "steps": 4}, keep=1)
    there: list[list[str]] = []

    def watch(folder: Path) -> None:
        there.append(sorted(p.name for p in folder.parent.iterdir() if is_complete(p)))
        seal(folder)

    monkeypatch.setattr(checkpoints, "seal", watch)
    trainer = sft_trainer(config, config.stages[0], tiny.student(), tiny.processor(), rows, tmp_path)
    trainer.train()
    assert there == [[], ["checkpoint-2"]]
    assert [p.name for p in tmp_path.glob("checkpoint-*")] == ["checkpoint-4"]


def test_one_process_of_several_seals_a_checkpoint(tiny: Any, rows: list[Any], tmp_path: Path, monkeypatch: Any) -> None:
    """The others are still writing: who seals first would vouch for half a folder."""
    from certloop.train import checkpoints
    from certloop.train.sft import sft_trainer

    config = tiny.config({"kind": "sft", "steps": 2})
    trainer = sft_trainer(config, config.stages[0], tiny.student(), tiny.processor(), rows, tmp_path)
    order: list[str] = []
    accelerator = type(trainer.accelerator)
    monkeypatch.setattr(accelerator, "wait_for_everyone", lambda self: order.append("wait"))
    monkeypatch.setattr(checkpoints, "seal", lambda folder: order.append("seal"))
    trainer.train()
    assert order[-2:] == ["wait", "seal"]
    order.clear()
    monkeypatch.setattr(accelerator, "is_main_process", False)
    trainer._save_checkpoint(trainer.model, None)
    assert order == ["wait"]


def test_a_model_that_cannot_be_written_is_told_and_saved_by_the_next_run(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from certloop.train import models

    config = tiny.config({"kind": "sft"})
    with monkeypatch.context() as full:

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(models, "save_model", refuse)
        with pytest.raises(CheckpointError, match="the trained model cannot be written"):
            run(config, tmp_path / "r")
    status = json.loads((tmp_path / "r" / "status.json").read_text(encoding="utf-8"))
    assert status["error"]["code"] == "checkpoint_failed"
    run(config, tmp_path / "r")
    assert json.loads((tmp_path / "r" / "01-sft" / "stage.json").read_text(encoding="utf-8"))["resumed_from"] == "checkpoint-2"


def test_a_step_that_does_not_fit_the_device_is_told(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from certloop.train import run as running

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(running, "train_stage", full)
    with pytest.raises(DeviceMemoryError, match="lower batch_size or max_pixels"):
        run(tiny.config({"kind": "sft"}), tmp_path / "r")
    status = json.loads((tmp_path / "r" / "status.json").read_text(encoding="utf-8"))
    assert (status["stage"], status["error"]["code"]) == ("01-sft", "device_memory_full")


def test_devices_that_are_not_here_are_asked_for_in_vain(tiny: Any, tmp_path: Path) -> None:
    import torch

    many = torch.cuda.device_count() + 1
    config = tiny.config({"kind": "sft"}, hardware={"device": "cuda", "count": many})
    with pytest.raises(TrainConfigError, match=f"wants {many} cuda devices, this machine has {many - 1}"):
        run(config, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_picture_that_is_damaged_is_an_error_with_a_name(tiny: Any, tmp_path: Path) -> None:
    from certloop.train.nano_data import nano_rows

    for cut, words in ((40, "01-1.png|image .* cannot be decoded"), (2000, "cannot be decoded")):
        folder = tmp_path / f"d{cut}"
        image = nano_rows(folder, 5, 4)[1].images[0]
        image.write_bytes(image.read_bytes()[:cut])
        config = tiny.config({"kind": "sft"}).with_(data={"train": str(folder), "max_length": 1024})
        with pytest.raises(TrainDataError, match=words):
            run(config, tmp_path / f"r{cut}")


def start(config: Path, out: Path, *, limit: bool = False) -> subprocess.Popen[bytes]:
    """``certloop train run`` in a process of its own; ``limit`` lets no file grow past 200 kB, as a full disk would not."""
    code = "import sys\nfrom certloop.cli import main\n"
    if limit:
        code += "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    code += "main(['train', 'run', sys.argv[1], '--out', sys.argv[2]])"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code, str(config), str(out)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


STAGES: dict[str, dict[str, Any]] = {
    "sft": {"kind": "sft"},
    "distill": {"kind": "distill", "max_completion_length": 4},
    "mixed": {"kind": "distill", "name": "mixed", "max_completion_length": 4, "on_policy": 0.5, "ce_weight": 0.1},
    "gspo": GSPO,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(STAGES))
def test_a_killed_run_resumes_to_the_same_weights(tiny: Any, tmp_path: Path, kind: str) -> None:
    """kill -9 after the first checkpoint; the same command again ends with the bytes of a run that was never killed.

    Answers are sampled with random numbers that a resumed generation draws anew, so of the others only the steps are compared."""
    stage = STAGES[kind] | {"steps": 12}
    config = tiny.config(stage)
    (tmp_path / "c.toml").write_text(dump_config(config), encoding="utf-8")
    whole = run(config, tmp_path / "whole") if kind == "sft" else None
    process = start(tmp_path / "c.toml", tmp_path / "r")
    deadline = time.monotonic() + 240
    while latest_complete_quietly(tmp_path / "r" / f"01-{kind}" / "checkpoints") is None and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "r" / f"01-{kind}" / "stage.json").exists(), "it was done before it could be killed"
    again = start(tmp_path / "c.toml", tmp_path / "r")
    _, errors = again.communicate()
    assert again.returncode == 0, errors.decode()[-2000:]
    summary = json.loads((tmp_path / "r" / f"01-{kind}" / "stage.json").read_text(encoding="utf-8"))
    assert summary["resumed_from"] is not None
    metrics = (tmp_path / "r" / f"01-{kind}" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [line["step"] for line in map(json.loads, metrics) if "loss" in line] == list(range(1, 13))
    if kind == "sft":
        weights = tmp_path / "r" / "01-sft" / "model" / "model.safetensors"
        assert whole is not None and weights.read_bytes() == (whole / "model.safetensors").read_bytes()


def latest_complete_quietly(folder: Path) -> Path | None:
    """Without removing what is still being written."""
    found = [path for path in folder.glob("checkpoint-*") if is_complete(path)]
    return found[0] if found else None


@pytest.mark.slow
def test_a_full_disk_in_a_checkpoint_is_told_and_leaves_no_half(tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(dump_config(tiny.config({"kind": "sft", "steps": 4})), encoding="utf-8")
    process = start(tmp_path / "c.toml", tmp_path / "r", limit=True)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "error[checkpoint_failed]: checkpoint 2 cannot be written" in errors.decode()
    assert not list((tmp_path / "r" / "01-sft" / "checkpoints").glob("checkpoint-*"))
    status = json.loads((tmp_path / "r" / "status.json").read_text(encoding="utf-8"))
    assert status["error"]["code"] == "checkpoint_failed"


@pytest.mark.slow
def test_two_processes_train_one_stage(tiny: Any, tmp_path: Path) -> None:
    """The launcher of several devices, here two processes on the CPU: one model comes out, and both saw other rows."""
    config = tiny.config({"kind": "sft", "batch_size": 2}).with_(hardware={"device": "cpu", "count": 2})
    model = run(config, tmp_path / "r")
    assert (model / "model.safetensors").is_file()
    lines = (tmp_path / "r" / "01-sft" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines if "loss" in json.loads(line)] == [1, 2]


@pytest.mark.slow
def test_what_stops_one_of_several_processes_is_told_as_it_is(tiny: Any, tmp_path: Path) -> None:
    config = tiny.config({"kind": "sft", "batch_size": 2, "learning_rate": 1e30, "steps": 6, "max_grad_norm": 1e30})
    with pytest.raises(LossError, match="is not finite"):
        run(config.with_(hardware={"device": "cpu", "count": 2}), tmp_path / "r")
    status = json.loads((tmp_path / "r" / "status.json").read_text(encoding="utf-8"))
    assert status["error"]["code"] == "loss_not_finite"
