"""Distillation: the divergences of METHODS §4, the cross-entropy beside them, and pairs that cannot be compared."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from trl.trainer.distillation_trainer import _chunked_divergence_loss

from certloop.train.distill import GOLDTrainer, MixedTrainer, OnPolicyTrainer, distill_trainer, labelled_loss
from certloop.train.errors import VocabularyError
from certloop.train.models import check_vocabulary
from certloop.train.rows import Row

SHORT = {"max_completion_length": 8}
PINS = [(0.0, 0.192745), (0.1, 0.017473), (0.5, 0.050672), (0.9, 0.019599), (1.0, 0.223144)]
"""METHODS §4 with P = (.8, .2) the teacher and Q = (.5, .5) the student: KL(P||Q), three JSD, KL(Q||P)."""


@pytest.mark.parametrize(("beta", "value"), PINS)
def test_the_divergence_is_that_of_the_method(beta: float, value: float) -> None:
    """Hidden states whose head gives exactly P and Q, through both trainers' own losses."""
    teacher, student = torch.tensor([[0.8, 0.2]]).log(), torch.tensor([[0.5, 0.5]]).log()
    mixed = GOLDTrainer.generalized_jsd_loss(student[None], teacher[None], labels=torch.tensor([[1]]), beta=beta)
    assert float(mixed) == pytest.approx(value, abs=2e-6)
    eye = torch.eye(2)
    on_policy, _, _ = _chunked_divergence_loss(student[None], teacher[None], eye, eye, torch.ones(1, 1), beta)
    assert float(on_policy) == pytest.approx(value, abs=2e-6)


def trained(tiny: Any, rows: list[Row], folder: Path, **stage: Any) -> Any:
    config = tiny.config({"kind": "distill"} | SHORT | stage, checkpoint_every=100)
    trainer = distill_trainer(config, config.stages[0], tiny.student(), tiny.teacher(), tiny.processor(), rows, folder)
    trainer.train()
    return trainer


def logged(trainer: Any, name: str) -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def test_on_policy_trains_on_the_student_s_own_answers(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    trainer = trained(tiny, rows, tmp_path)
    assert type(trainer) is OnPolicyTrainer
    assert logged(trainer, "completions/mean_length") == [8.0, 8.0]
    assert all(loss > 0 for loss in logged(trainer, "loss"))
    assert all(norm > 0 for norm in logged(trainer, "grad_norm"))


def test_mu_adds_that_share_of_the_cross_entropy(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """Same seed, same samples: the losses of the first step differ by mu times the cross-entropy, nothing else."""
    plain = logged(trained(tiny, rows, tmp_path / "a", steps=1), "loss")[0]
    trainer = trained(tiny, rows, tmp_path / "b", steps=1, ce_weight=0.25)
    ce = logged(trainer, "ce")[0]
    assert logged(trainer, "loss")[0] == pytest.approx(plain + 0.25 * ce, rel=1e-5)
    assert ce == pytest.approx(6.2, abs=0.3)  # an untrained model of about 500 tokens: ln 500 = 6.2


def test_accumulation_does_not_weigh_the_cross_entropy_twice(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    halves = trained(tiny, rows, tmp_path / "a", steps=1, ce_weight=1.0, batch_size=2, accumulation=2)
    assert logged(halves, "loss")[0] == pytest.approx(logged(halves, "ce")[0], abs=0.05)


def test_the_labelled_loss_is_sft_s(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """The cross-entropy under left-padded prompts equals SFTTrainer's loss on the same rows."""
    from certloop.train.sft import sft_trainer

    config = tiny.config({"kind": "distill", "ce_weight": 1.0} | SHORT, {"kind": "sft"})
    processor, model = tiny.processor(), tiny.student()
    trainer = distill_trainer(config, config.stages[0], model, tiny.teacher(), processor, rows, tmp_path / "a")
    model.train()
    with torch.no_grad():
        inputs = trainer._generate_and_score_completions([trainer.train_dataset[i] for i in range(4)])
        ours = float(labelled_loss(model, inputs))
        other = sft_trainer(config, config.stages[1], tiny.student(), processor, rows, tmp_path / "b")
        batch = other.data_collator([other.train_dataset[i] for i in range(4)])
        theirs = float(other.compute_loss(other.model, batch))
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_a_mix_uses_the_labels_too(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    trainer = trained(tiny, rows, tmp_path, on_policy=0.5, steps=6)
    assert type(trainer) is MixedTrainer
    assert logged(trainer, "on_policy_loss")
    assert logged(trainer, "off_policy_loss")


@pytest.mark.parametrize(("on_policy", "accumulation", "added"), [(0.0, 1, 3.1), (0.0, 2, 3.1), (0.999999, 1, 0.0)])
def test_in_a_mix_the_cross_entropy_is_taken_on_labels_only(
    tiny: Any, rows: list[Row], tmp_path: Path, on_policy: float, accumulation: int, added: float
) -> None:
    """Half of about ln 500 on labelled answers, however the batch is split; nothing on the student's own."""
    shape = {"on_policy": on_policy, "accumulation": accumulation, "batch_size": 4 // accumulation, "steps": 1}
    plain = logged(trained(tiny, rows, tmp_path / "a", **shape), "loss")[0]
    with_ce = logged(trained(tiny, rows, tmp_path / "b", **shape, ce_weight=0.5), "loss")[0]
    assert with_ce - plain == pytest.approx(added, abs=0.1 if added else 1e-5)


def test_a_teacher_that_is_the_student_teaches_nothing(tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    config = tiny.config({"kind": "distill", "steps": 1} | SHORT)
    same = tiny.student().requires_grad_(False)
    trainer = distill_trainer(config, config.stages[0], tiny.student(), same, tiny.processor(), rows, tmp_path)
    trainer.train()
    assert logged(trainer, "loss") == [pytest.approx(0.0, abs=1e-6)]


def test_different_vocabularies_are_refused(tiny: Any) -> None:
    ours, theirs = tiny.processor(), tiny.processor()
    check_vocabulary(ours, theirs, (500, 500))
    with pytest.raises(VocabularyError, match="head has 500 rows, the teacher's 512"):
        check_vocabulary(ours, theirs, (500, 512))
    more = copy.deepcopy(theirs)
    more.tokenizer.add_tokens(["新词"])
    with pytest.raises(VocabularyError, match="tokens"):
        check_vocabulary(ours, more)


def test_the_same_number_of_other_tokens_is_refused(tiny: Any) -> None:
    """A vocabulary of the same size in which two tokens changed places."""
    import json

    from tokenizers import Tokenizer

    ours, theirs = tiny.processor(), tiny.processor()
    data = json.loads(theirs.tokenizer.backend_tokenizer.to_str())
    vocabulary = data["model"]["vocab"]
    vocabulary["公"], vocabulary["司"] = vocabulary["司"], vocabulary["公"]
    theirs.tokenizer._tokenizer = Tokenizer.from_str(json.dumps(data))
    with pytest.raises(VocabularyError, match="encode probe text"):
        check_vocabulary(ours, theirs)
