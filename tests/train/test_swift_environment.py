"""ms-swift itself: an environment with it is built, and it runs the script that the backend wrote. Downloads about 400 MB.

``CERTLOOP_SWIFT_PYTHON`` names the interpreter of an environment that is there already (requirements-swift.lock says how one is
made). The model is the nano one that comes with certloop: of the same classes as the real ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.backend import RunState
from certloop.train.backends import make_spec
from certloop.train.backends.swift import SwiftBackend
from certloop.train.config import parse_config

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-swift.lock"
NANO_IDS = """
from swift.template.templates.qwen import Qwen2VLTemplate
Qwen2VLTemplate.image_token_id = {image}  # ms-swift knows the number of Qwen's vocabulary by heart; nano has its own
"""
PARSE = """
import json, shlex, sys
from swift.arguments import RLHFArguments
from swift.utils import parse_args
command = next(line for line in open(sys.argv[1]).read().splitlines() if line.startswith("swift rlhf"))
args, rest = parse_args(RLHFArguments, shlex.split(command)[2:])
json.dump([rest, {name: getattr(args, name) for name in sys.argv[3:]}], open(sys.argv[2], "w"))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def swift_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    given = os.environ.get("CERTLOOP_SWIFT_PYTHON")
    if given:
        return given
    folder = tmp_path_factory.mktemp("swift") / "environment"
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = ["-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps", "--requirement", str(LOCK)]
    subprocess.run([python, *install], check=True)
    # behind its own packages those of this environment: torch, and certloop for the reward
    here = [sysconfig.get_paths()["purelib"], str(ROOT)]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "behind.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
    return python


def _environment(python: str) -> dict[str, str]:
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("CERTLOOP_", "PYTEST_"))}
    path = f"{Path(python).parent}{os.pathsep}{keep['PATH']}"
    return keep | {"PATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def _config(rows: Path, *stages: dict[str, Any], **changes: Any) -> Any:
    run = {
        "name": "swift",
        "backend": "swift",
        "student": {"path": "nano:early", "dtype": "float32"},
        "data": {"train": str(rows), "max_length": 1024},
        "hardware": {"device": "cpu"},
        "checkpoint_every": 1,
        "stages": list(stages),
    }
    return parse_config(run | changes)


def test_ms_swift_runs_what_the_backend_wrote(swift_python: str, rows_folder: Path, tmp_path: Path) -> None:
    """SFT, then GSPO with certloop's reward, to a candidate that certloop loads and reads a page with."""
    from certloop.train.nano import nano_folder

    image = json.loads((nano_folder("early") / "config.json").read_text(encoding="utf-8"))["image_token_id"]
    plugin = tmp_path / "nano_ids.py"
    plugin.write_text(NANO_IDS.format(image=image), encoding="utf-8")
    sft = {"kind": "sft", "batch_size": 2, "steps": 2, "learning_rate": 1e-4}
    gspo = {
        "kind": "gspo",
        "batch_size": 4,
        "group_size": 4,
        "updates_per_generation": 1,
        "steps": 1,
        "learning_rate": 5e-5,
        "max_completion_length": 120,
    }
    config = _config(rows_folder, sft, gspo, swift={"options": {"external_plugins": str(plugin)}})
    backend = SwiftBackend(tmp_path / "runs")
    run_id = backend.submit(make_spec(config))
    folder = backend.root / run_id
    with (folder / "reward.py").open("a", encoding="utf-8") as file:
        file.write(NANO_IDS.format(image=image))
    ran = subprocess.run(
        [str(folder / "run.sh")], env=_environment(swift_python), capture_output=True, text=True, check=False, timeout=900
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    status = backend.status(run_id)
    assert (status.state, status.stage, status.error) == (RunState.DONE, "gspo", None)
    first = [json.loads(line) for line in next((folder / "01-sft").glob("*/logging.jsonl")).read_text().splitlines()]
    assert float(first[0]["token_acc"]) > 0.8  # the prompt it builds is the one the model was trained with
    last = [json.loads(line) for line in next((folder / "02-gspo").glob("*/logging.jsonl")).read_text().splitlines()]
    rewards = [float(line["reward"]) for line in last if "reward" in line]
    assert rewards
    assert 0.05 < rewards[0] <= 1.0  # answers are JSON, and certloop's reward saw their fields
    candidate = backend.fetch(run_id)
    assert candidate.run_id == run_id
    assert list(Path(candidate.where).glob("*.safetensors"))


def test_ms_swift_understands_every_option_of_distillation(swift_python: str, rows_folder: Path, tmp_path: Path) -> None:
    """Its teacher's server needs vLLM and a GPU; its parser does not."""
    stage = {
        "kind": "distill",
        "batch_size": 2,
        "steps": 2,
        "learning_rate": 1e-4,
        "divergence": 0.5,
        "on_policy": 0.25,
        "ce_weight": 0.1,
        "max_completion_length": 120,
    }
    backend = SwiftBackend(tmp_path / "runs")
    config = _config(rows_folder, stage, teacher={"path": "nano:teacher", "dtype": "float32"})
    script = backend.root / backend.submit(make_spec(config)) / "run.sh"
    wanted = {
        "rlhf_type": "gkd",
        "teacher_model_server": "http://127.0.0.1:8000",
        "gkd_logits_topk": 64,
        "beta": 0.5,
        "lmbda": 0.25,
        "sft_alpha": 0.1,
        "max_completion_length": 120,
    }
    parsed = tmp_path / "parsed.json"
    subprocess.run(
        [swift_python, "-c", PARSE, str(script), str(parsed), *wanted],
        env=_environment(swift_python),
        check=True,
        capture_output=True,
        timeout=300,
    )
    rest, values = json.loads(parsed.read_text(encoding="utf-8"))
    assert rest == []
    assert values == wanted
