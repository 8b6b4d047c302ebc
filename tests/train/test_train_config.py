"""A run is data: it reads back as it was written, and what makes no sense is refused with the key that is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from certloop.train.config import RunConfig, builtin_configs, dump_config, load_config, parse_config
from certloop.train.errors import TrainConfigError


@pytest.mark.parametrize("name", builtin_configs())
def test_every_built_in_run_reads_back_as_written(name: str) -> None:
    config = load_config(name)
    assert parse_config(tomllib.loads(dump_config(config))) == config


def test_the_built_in_runs_are_those_the_documentation_names() -> None:
    assert builtin_configs() == ["nano", "qwen3vl-4b", "qwen3vl-4b-local", "swift", "tinker"]


def test_gspo_runs_use_the_clipping_of_the_paper() -> None:
    stage = load_config("qwen3vl-4b").stages[-1]
    assert (stage.kind, stage.clip_low, stage.clip_high, stage.updates_per_generation) == ("gspo", 3e-4, 4e-4, 4)


def test_a_run_cannot_be_changed_in_place() -> None:
    config = load_config("nano")
    with pytest.raises(ValidationError):
        config.seed = 3  # type: ignore[misc]
    assert config.with_(seed=3).seed == 3


GOOD = {"name": "x", "student": {"path": "p"}, "stages": [{"kind": "sft", "learning_rate": 1e-4, "batch_size": 1, "steps": 1}]}
STAGE = {"learning_rate": 1e-4, "batch_size": 8, "steps": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lern": 1}, "lern"),
        ({"stages": []}, "stages"),
        ({"stages": [{"kind": "sft", "learning_rate": 1e-4, "batch_size": 1}]}, "steps or epochs"),
        ({"stages": [{"kind": "sft", "learning_rate": 0, "batch_size": 1, "steps": 1}]}, "learning_rate"),
        ({"stages": [STAGE | {"kind": "distill"}]}, "needs a [teacher]"),
        ({"stages": [STAGE | {"kind": "gspo", "group_size": 3}]}, "group_size"),
        ({"stages": [STAGE | {"kind": "gspo", "max_kl": 0.1}]}, "kl_every"),
        ({"stages": [STAGE | {"kind": "gspo", "accumulation": 2}]}, "accumulation"),
        ({"student": {"path": "p", "min_pixels": 9, "max_pixels": 3}}, "min_pixels"),
        ({"stages": [GOOD["stages"][0]] * 2}, "names of their own"),  # type: ignore[index]
        ({"name": "../up"}, "name: String should match"),
        ({"stages": [GOOD["stages"][0] | {"name": "../../up"}]}, "name: String should match"),  # type: ignore[index]
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change: dict[str, object], words: str) -> None:
    with pytest.raises(TrainConfigError, match=words.replace("[", r"\[").replace("]", r"\]")):
        parse_config(GOOD | change)


def test_one_mistake_is_told_once() -> None:
    with pytest.raises(TrainConfigError) as caught:
        parse_config(GOOD | {"stages": [GOOD["stages"][0] | {"stepps": 3}]})  # type: ignore[index]
    assert caught.value.message == "the run is not well formed: stages.0.sft.stepps: there is no such key"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(TrainConfigError, match="qwen3vl-4b-local"):
        load_config("qwen9")


def test_a_folder_named_like_a_built_in_run_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nano").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_config("nano").name == "nano"


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("name =", encoding="utf-8")
    with pytest.raises(TrainConfigError, match="not TOML"):
        load_config(tmp_path / "a.toml")
    with pytest.raises(TrainConfigError, match="cannot be read"):
        load_config(tmp_path / "b.toml")


def test_a_run_is_plain_data() -> None:
    assert isinstance(load_config("nano"), RunConfig)
    assert load_config("nano").to_dict()["student"]["path"] == "nano:early"
