"""One suite for every backend: local (a worker process), swift (a cluster that runs our script), tinker (the service's double).

The stand-ins are at the far end only: a program named ``swift`` that leaves what ms-swift leaves, and an object with the verbs of
the tinker service whose policy really learns from the updates it gets.
"""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from certloop.agentrl.backend import RunState, TrainBackend, TrainSpec
from certloop.train.backends import make_backend, make_spec
from certloop.train.backends.local import LocalBackend
from certloop.train.backends.swift import SwiftBackend, row_schema, swift_rows
from certloop.train.backends.tinker import Datum, Sample, TinkerBackend
from certloop.train.config import load_config
from certloop.train.errors import BackendError, TrainConfigError, TrainDataError
from certloop.train.rows import Row, read_rows

SWIFT = """#!/usr/bin/env python3
import sys, pathlib
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
assert pathlib.Path(options["--dataset"]).is_file(), options
folder = pathlib.Path(options["--output_dir"]) / "v0" / "checkpoint-2"
folder.mkdir(parents=True)
(folder / "adapter_model.safetensors").write_bytes(b"weights")
(folder / "adapter_config.json").write_text("{}")
(folder.parent / "logging.jsonl").write_text('{"loss": 0.5, "global_step": 2}\\n')
sys.exit(int(options.get("--fail", 0)))
"""


class Service:
    """The far end of tinker: a policy over two answers, one right and one empty, that moves with the advantages it is given."""

    def __init__(self, truth: dict[str, str | None], fails: bool = False) -> None:
        self.answers = (json.dumps(truth, ensure_ascii=False), "{}")
        self.logit = 0.0
        self.rng = random.Random(0)
        self.fails = fails
        self.updates: list[list[Datum]] = []
        self.rates: list[float] = []
        self.loaded: list[str] = []

    def refresh(self, name: str) -> None:
        if self.fails:
            raise ConnectionError("key=secret")

    def prompt(self, row: Row) -> list[dict[str, Any]]:
        return [{"type": "encoded_text", "tokens": [1, 2]}, {"type": "image", "data": b"x", "format": "png"}]

    def sample(self, prompt: Any, n: int, *, max_tokens: int, temperature: float, top_p: float) -> list[Sample]:
        right = 1 / (1 + 2.718281828 ** (-self.logit))
        chosen = [0 if self.rng.random() < right else 1 for _ in range(n)]
        return [Sample((10 + c, 3), (-0.7, -0.1), self.answers[c]) for c in chosen]

    def update(self, data: Any, *, loss: str, clip: tuple[float, float], adam: dict[str, float]) -> float:
        assert loss == "gspo"
        assert clip == (1 - 3e-4, 1 + 4e-4)
        self.updates.append(list(data))
        self.rates.append(adam["learning_rate"])
        self.logit += adam["learning_rate"] * sum(d.advantage * (1 if d.sample.tokens[0] == 10 else -1) for d in data)
        return 0.0

    def save(self, name: str) -> str:
        return f"tinker://run/{name}"

    def load(self, where: str) -> None:
        self.loaded.append(where)


class Far:
    """A backend and what makes its far end work: ``go`` lets a submitted run come to its end."""

    def __init__(self, kind: str, tiny: Any, rows: list[Row], root: Path) -> None:
        self.kind, self.root = kind, root
        self.service = Service(dict(rows[0].truth or {}))
        stage: dict[str, Any] = {"kind": "sft"}
        changes: dict[str, Any] = {"name": kind, "backend": kind}
        if kind == "tinker":
            stage = {
                "kind": "gspo",
                "batch_size": 16,
                "group_size": 4,
                "updates_per_generation": 1,
                "steps": 3,
                "learning_rate": 0.1,
            }
        self.config = tiny.config(stage, lora=kind != "local", **changes)
        self.spec = make_spec(self.config)
        self.backend: TrainBackend = self.make()

    def make(self) -> TrainBackend:
        if self.kind == "tinker":
            return TinkerBackend(self.root, lambda config: self.service)
        return SwiftBackend(self.root) if self.kind == "swift" else LocalBackend(self.root)

    def go(self, run_id: str) -> None:
        if self.kind == "swift":
            tools = self.root / "bin"
            tools.mkdir(exist_ok=True)
            (tools / "swift").write_text(SWIFT, encoding="utf-8")
            (tools / "swift").chmod(0o755)
            script = self.root / run_id / "run.sh"
            assert script.stat().st_mode & stat.S_IXUSR
            subprocess.run([str(script)], check=True, env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"})
        deadline = time.monotonic() + 240
        while self.backend.status(run_id).state is RunState.RUNNING:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture(params=["local", "swift", "tinker"])
def far(request: pytest.FixtureRequest, tiny: Any, rows: list[Row], tmp_path: Path) -> Iterator[Far]:
    yield Far(request.param, tiny, rows, tmp_path / "runs")


def test_a_run_from_plan_to_candidate(far: Far) -> None:
    plan = far.backend.plan(far.spec)
    assert plan.backend == far.kind
    assert [stage.name for stage in plan.stages] == [far.config.stages[0].label]
    assert json.loads(json.dumps(plan.to_json()))["devices"]
    run_id = far.backend.submit(far.spec)
    assert run_id == far.spec.run_id
    assert far.backend.submit(far.spec) == run_id, "the same spec never starts a second run"
    assert far.backend.status(run_id).state in (RunState.WAITING, RunState.RUNNING)
    far.go(run_id)
    status = far.backend.status(run_id)
    assert (status.state, status.error) == (RunState.DONE, None)
    assert status.step > 0
    assert status.metrics
    got = far.backend.fetch(run_id)
    assert (got.run_id, got.data_sha256) == (run_id, far.spec.data_sha256)
    assert got.kind == {"local": "model", "swift": "adapter", "tinker": "remote"}[far.kind]
    if far.kind == "tinker":
        assert got.where.startswith("tinker://")
    else:
        assert len(got.sha256) == 64
        assert list(Path(got.where).glob("*.safetensors"))
    again = far.make()  # another process: what was reached stands in the folder
    assert again.status(run_id).state is RunState.DONE
    assert again.fetch(run_id) == got


def test_an_unknown_run_is_an_error(far: Far) -> None:
    for ask in (far.backend.status, far.backend.fetch):
        with pytest.raises(BackendError, match="no run"):
            ask("other-000000000000")


def test_a_recipe_that_makes_no_sense_is_refused_by_plan_and_submit(far: Far) -> None:
    bad = TrainSpec("bad", dict(far.spec.recipe) | {"stages": []}, far.spec.data, far.spec.data_sha256)
    for act in (far.backend.plan, far.backend.submit):
        with pytest.raises(TrainConfigError, match="stages"):
            act(bad)


def test_rows_that_are_missing_or_changed_are_refused(far: Far, tmp_path: Path) -> None:
    with pytest.raises(TrainDataError):
        far.backend.submit(TrainSpec("x", far.spec.recipe, str(tmp_path / "no"), ""))
    with pytest.raises(TrainDataError, match="changed since"):
        far.backend.submit(TrainSpec("x", far.spec.recipe, far.spec.data, "0" * 64))


def test_nothing_is_fetched_before_the_end(far: Far) -> None:
    if far.kind == "tinker":
        far.service.fails = True
    if far.kind == "local":
        (far.root / far.spec.run_id).mkdir(parents=True)
        (far.root / far.spec.run_id / "data.json").write_text("{}", encoding="utf-8")  # rows of another run
    run_id = far.backend.submit(far.spec)
    far.go(run_id) if far.kind != "swift" else None
    with pytest.raises(BackendError, match="nothing to fetch yet"):
        far.backend.fetch(run_id)
    if far.kind == "swift":
        assert far.backend.status(run_id).state is RunState.WAITING
        return
    status = far.backend.status(run_id)
    assert status.state is RunState.FAILED
    assert status.error is not None
    assert "secret" not in status.error["message"]
    if far.kind == "tinker":  # the service is back: the same spec goes on
        far.service.fails = False
        far.backend.submit(far.spec)
        far.go(run_id)
        assert far.backend.status(run_id).state is RunState.DONE


@pytest.mark.parametrize("name", ["qwen3vl-4b", "swift"])
def test_swift_s_rows_keep_to_the_committed_schema(name: str, rows: list[Row]) -> None:
    check = jsonschema_rs.validator_for(row_schema())
    for stage in [*load_config(name).stages]:
        for row in swift_rows(rows, stage):
            check.validate(row)
    for bad in (
        {"messages": [{"role": "user", "content": "no picture"}], "images": []},
        {"messages": [{"role": "user", "content": "<image>a<image>"}], "images": ["/a.png"]},
        {
            "messages": [{"role": "user", "content": "<image>a"}, {"role": "assistant", "content": "no JSON"}],
            "images": ["/a.png"],
        },
        {"messages": [{"role": "user", "content": "<image>a"}], "images": ["a.png"]},
        {"messages": [{"role": "user", "content": "<image>a"}], "images": ["/a.png"], "helper": "x"},
    ):
        assert not check.is_valid(bad), bad


def test_swift_s_commands_say_what_the_run_says(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    config = load_config("swift").with_(data={"train": str(tiny.rows_folder), "max_length": 1024})
    config = config.with_(student=config.student.model_dump(exclude_none=True) | {"min_pixels": 200704})
    backend = SwiftBackend(tmp_path)
    folder = tmp_path / backend.submit(make_spec(config))
    script = (folder / "run.sh").read_text(encoding="utf-8")
    sft, gkd, gspo = [line for line in script.splitlines() if line.startswith("swift ")]
    assert sft.startswith("swift sft --model Qwen/Qwen3-VL-4B-Instruct")
    assert "export MAX_PIXELS=1310720\nexport MIN_PIXELS=200704\n" in script, "pages as serving shows them"
    assert "--model_type qwen3_vl" in sft
    assert "--truncation_strategy delete --strict true" in sft
    assert "--freeze_vit true" in sft
    assert "--rlhf_type gkd --teacher_model_server http://127.0.0.1:8000 --gkd_logits_topk 64 --beta 0.5 --lmbda 0.5" in gkd
    assert "--sft_alpha 0.1" in gkd
    assert "--adapters" in gkd
    assert "--importance_sampling_level sequence --loss_type grpo --beta 0.0 --epsilon 0.0003 --epsilon_high 0.0004" in gspo
    assert "--steps_per_generation 4" in gspo
    teacher = (folder / "teacher.sh").read_text(encoding="utf-8")
    assert "swift deploy --model Qwen/Qwen3-VL-32B-Instruct --infer_backend vllm --port 8000 --max_logprobs 64" in teacher
    assert subprocess.run(["bash", "-n", str(folder / "run.sh")], check=False).returncode == 0
    compile((folder / "reward.py").read_text(encoding="utf-8"), "reward.py", "exec")
    first = json.loads((folder / "01-sft.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["messages"][1]["content"] == rows[0].completion
    last = json.loads((folder / "03-gspo.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert len(last["messages"]) == 1
    assert json.loads(last["solution"]) == rows[0].truth


def test_swift_refuses_what_it_cannot_train(tiny: Any, tmp_path: Path) -> None:
    config = tiny.config(
        {"kind": "gspo", "group_size": 4, "updates_per_generation": 1, "tools": True}, lora=True, backend="swift"
    )
    with pytest.raises(TrainConfigError, match="without tools"):
        SwiftBackend(tmp_path).submit(make_spec(config))
    for change, words in ({"power": 1.0}, r"F1\^4"), ({"max_kl": 0.3, "kl_every": 1}, "max_kl"):
        stage = {"kind": "gspo", "group_size": 4, "updates_per_generation": 1} | change
        with pytest.raises(TrainConfigError, match=words):
            SwiftBackend(tmp_path).submit(make_spec(tiny.config(stage, lora=True, backend="swift")))


def test_a_script_that_fails_on_the_cluster_is_a_failed_run(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    far = Far("swift", tiny, rows, tmp_path)
    failing = make_spec(far.config.with_(swift={"options": {"fail": "3"}}))
    run_id = far.backend.submit(failing)
    with pytest.raises(subprocess.CalledProcessError):
        far.go(run_id)
    status = far.backend.status(run_id)
    assert status.state is RunState.FAILED
    assert status.error == {"code": "train_backend_failed", "message": "run.sh ended with exit code 3"}


def test_tinker_s_policy_learns_from_what_it_is_given(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """Every page has the same right answer here, so its probability must rise and rewards with it."""
    far = Far("tinker", tiny, rows, tmp_path)
    stage = far.config.stages[0].model_dump(exclude_none=True) | {"steps": 12, "warmup_steps": 4}
    same = tmp_path / "same"
    _same_truth(rows, same)
    config = far.config.with_(stages=[stage], data={"train": str(same), "max_length": 1024})
    run_id = far.backend.submit(make_spec(config))
    far.go(run_id)
    lines = (tmp_path / run_id / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rewards = [json.loads(line)["reward"] for line in lines]
    assert len(rewards) == 12
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2
    assert far.service.rates[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])
    for data in far.service.updates:
        assert abs(sum(d.advantage for d in data)) < 1e-6  # whole groups, centred
        assert all(len(d.sample.tokens) == len(d.sample.logprobs) for d in data)


def test_tinker_s_learning_rate_follows_the_stage_s_schedule() -> None:
    from certloop.train.backends.tinker import _adam
    from certloop.train.config import GspoStage

    def rates(schedule: Any) -> list[float]:
        stage = GspoStage(kind="gspo", learning_rate=8.0, batch_size=8, steps=6, warmup_steps=2, schedule=schedule)
        return [_adam(stage, step)["learning_rate"] for step in range(1, 7)]

    assert rates("linear") == pytest.approx([4, 8, 8, 6, 4, 2])
    assert rates("constant") == pytest.approx([4, 8, 8, 8, 8, 8])
    assert rates("cosine") == pytest.approx([4, 8, 8, 4 + 4 * 0.5**0.5, 4, 4 - 4 * 0.5**0.5])


def test_tinker_resumes_from_its_last_saved_weights(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    far = Far("tinker", tiny, rows, tmp_path)
    far.go(far.backend.submit(far.spec))
    longer = far.config.stages[0].model_dump(exclude_none=True) | {"steps": 5}
    spec = make_spec(far.config.with_(stages=[longer]))
    folder = tmp_path / spec.run_id
    folder.mkdir()
    (folder / "state.json").write_text(
        json.dumps({"state": "failed", "step": 3, "where": "tinker://run/tinker-3"}), encoding="utf-8"
    )
    far.go(far.backend.submit(spec))
    assert far.service.loaded == ["tinker://run/tinker-3"]
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert steps == [4, 5]


def test_tinker_trains_one_stage_of_gspo_only(tiny: Any, tmp_path: Path) -> None:
    for config in (tiny.config({"kind": "sft"}, lora=True), tiny.config({"kind": "gspo", "group_size": 4}, lora=False)):
        with pytest.raises(TrainConfigError, match="tinker backend"):
            TinkerBackend(tmp_path).plan(make_spec(config))


def test_tinker_stops_when_the_answers_scatter_and_says_so_before_it_starts_what_it_cannot(
    tiny: Any, rows: list[Row], tmp_path: Path
) -> None:
    far = Far("tinker", tiny, rows, tmp_path)
    sample = far.service.sample

    def scattering(*args: Any, **kwargs: Any) -> list[Sample]:
        factor = 1.0 + 0.9 * len(far.service.updates)
        return [Sample(s.tokens, tuple(factor * p for p in s.logprobs), s.text) for s in sample(*args, **kwargs)]

    far.service.sample = scattering  # type: ignore[method-assign]
    stage = far.config.stages[0].model_dump(exclude_none=True) | {"steps": 9}
    run_id = far.backend.submit(make_spec(far.config.with_(stages=[stage])))
    far.go(run_id)
    status = far.backend.status(run_id)
    assert status.error == {"code": "run_diverged", "message": "entropy 1.480 at step 4, 0.400 at the start"}
    with pytest.raises(TrainConfigError, match="max_kl"):
        far.backend.submit(make_spec(far.config.with_(stages=[stage | {"kl_every": 1, "max_kl": 0.1}])))
    with pytest.raises(TrainDataError, match="32 pages a generation"):
        far.backend.submit(make_spec(far.config.with_(stages=[stage | {"batch_size": 128}])))


def test_tinker_learns_from_second_reads_where_no_label_is(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    import dataclasses

    from certloop.train.rows import write_rows

    far = Far("tinker", tiny, rows, tmp_path)
    _same_truth(rows, tmp_path / "d")
    kept = read_rows(tmp_path / "d")
    write_rows(tmp_path / "d", [dataclasses.replace(row, truth=None, second_read=row.truth) for row in kept])
    stage = far.config.stages[0].model_dump(exclude_none=True) | {"reward": "agreement"}
    config = far.config.with_(stages=[stage], data={"train": str(tmp_path / "d"), "max_length": 1024})
    run_id = far.backend.submit(make_spec(config))
    far.go(run_id)
    status = far.backend.status(run_id)
    assert status.error is None
    assert 0.05 < status.metrics["reward"] <= 1.0


def test_backends_are_found_by_name(tmp_path: Path) -> None:
    assert [make_backend(kind, tmp_path).name for kind in ("local", "swift", "tinker")] == ["local", "swift", "tinker"]


def _same_truth(rows: list[Row], folder: Path) -> None:
    import dataclasses
    import shutil

    from certloop.train.rows import write_rows

    (folder / "images").mkdir(parents=True)
    made = []
    for row in rows:
        path = folder / "images" / row.images[0].name
        shutil.copy(row.images[0], path)
        made.append(dataclasses.replace(row, images=(path,), truth=rows[0].truth))
    write_rows(folder, made)
