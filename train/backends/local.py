"""Training on this machine with TRL: each run is a worker process that outlives whoever started it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from certloop.agentrl.backend import Candidate, Plan, RunState, Status, TrainSpec
from certloop.train.backends import recipe_of
from certloop.train.backends.folder import candidate, keep_spec, last_metrics, need_done, read_spec
from certloop.train.config import dump_config, parse_config
from certloop.train.plan import make_plan
from certloop.train.run import STATUS, stage_folder

WORKER, LOG = "worker.json", "worker.log"


class LocalBackend:
    """Runs in folders below ``root``. A worker that was killed is started again by the next ``submit`` of the same spec and goes
    on from its last complete checkpoint."""

    name = "local"

    def __init__(self, root: Path) -> None:
        self.root = root

    def plan(self, spec: TrainSpec) -> Plan:
        return make_plan(parse_config(dict(spec.recipe)))

    def submit(self, spec: TrainSpec) -> str:
        config = recipe_of(spec)
        folder = self.root / spec.run_id
        keep_spec(folder, spec)
        (folder / "recipe.toml").write_text(dump_config(config), encoding="utf-8")
        if self.status(spec.run_id).state in (RunState.WAITING, RunState.FAILED):
            self._start(folder)
        return spec.run_id

    def status(self, run_id: str) -> Status:
        folder = self.root / run_id
        spec = read_spec(folder)
        state = _json(folder / STATUS)
        stage = str(state.get("stage", ""))
        metrics = last_metrics(folder / stage / "metrics.jsonl") if stage else {}
        step = int(metrics.get("step", 0))
        if state.get("state") == "done":
            stages = parse_config(dict(spec.recipe)).stages
            metrics = last_metrics(stage_folder(folder, len(stages), stages[-1]) / "metrics.jsonl")
            return Status(run_id, RunState.DONE, stages[-1].label, int(metrics.get("step", 0)), metrics)
        if state.get("state") == "failed":
            return Status(run_id, RunState.FAILED, stage, step, metrics, state["error"])
        if self._alive(folder):
            return Status(run_id, RunState.RUNNING, stage, step, metrics)
        if not (folder / WORKER).exists():
            return Status(run_id, RunState.WAITING)
        error = {
            "code": "train_backend_failed",
            "message": f"the worker ended without a word; see {LOG}; submit it again to resume",
        }
        return Status(run_id, RunState.FAILED, stage, step, metrics, error)

    def fetch(self, run_id: str) -> Candidate:
        folder = self.root / run_id
        spec = read_spec(folder)
        status = self.status(run_id)
        need_done(status)
        config = parse_config(dict(spec.recipe))
        model = folder / _json(folder / STATUS)["model"]
        return candidate(spec, run_id, model, config.student.path, dict(status.metrics))

    def discard(self, run_id: str) -> None:
        """End the worker and remove everything the run made. Harmless for a run that is not there."""
        folder = self.root / run_id
        if self._alive(folder):
            os.killpg(int(_json(folder / WORKER)["pid"]), signal.SIGKILL)  # its own session: nobody else is in it
        shutil.rmtree(folder, ignore_errors=True)

    def _start(self, folder: Path) -> None:
        (folder / STATUS).unlink(missing_ok=True)
        command = [sys.executable, "-m", "certloop.train.worker", str(folder)]
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
        (folder / WORKER).write_text(json.dumps({"pid": process.pid, "started": _started(process.pid)}) + "\n", encoding="utf-8")
        self._children = [*getattr(self, "_children", []), process]  # reaped when they end, so that they do not look alive

    def _alive(self, folder: Path) -> bool:
        """Whether the worker runs: its process number alone could be somebody else's by now, so its start time counts too."""
        for child in getattr(self, "_children", []):
            child.poll()
        worker = _json(folder / WORKER)
        return bool(worker) and worker.get("started") is not None and _started(int(worker["pid"])) == worker["started"]


def _started(pid: int) -> str | None:
    """When a living process started, as the system tells it; None for one that is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        pass
    try:  # systems without /proc
        os.kill(pid, 0)
    except OSError:
        return None
    return "alive"


def _json(path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data
