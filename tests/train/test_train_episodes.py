"""Multi-turn episodes: what the trainer sees is what was recorded, and a tool's tokens are never trained."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from certloop.agentrl.trajectory import Outcome, Role, validate
from certloop.train.episodes import ZoomEnvironment, crop, play
from certloop.train.gspo import gspo_trainer
from certloop.train.rows import Row

CALL = '<tool_call>\n{"name": "zoom", "arguments": {"left": 0, "top": 0, "right": 500, "bottom": 500}}\n</tool_call>'
ANSWER = '{"名称": "有限公司"}'


@pytest.fixture(scope="module")
def caller(tiny: Any, rows: list[Row]) -> Any:
    """A tiny model that learned by heart to zoom once and then to answer: real weights that really call the tool."""
    from certloop.train.episodes import _encode

    model, processor = tiny.student(), tiny.processor()
    page = Image.open(rows[0].images[0]).convert("RGB")
    text = processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": rows[0].prompt}]}],
        tools=[ZoomEnvironment().zoom],
        add_generation_prompt=True,
        tokenize=False,
    )
    closer = crop(page, 0, 0, 500, 500)
    shown = "\n<|im_start|>user\n<tool_response>\n<|vision_start|><|image_pad|><|vision_end|>\n</tool_response><|im_end|>\n"
    prompt, observed = _encode(processor, text, [page]), _encode(processor, shown + "<|im_start|>assistant\n", [closer])
    call, answer = (processor.tokenizer(t + "<|im_end|>", add_special_tokens=False)["input_ids"] for t in (CALL, ANSWER))
    ids = torch.tensor([prompt + call + observed + answer])
    labels = torch.tensor([[-100] * len(prompt) + call + [-100] * len(observed) + answer])
    pixels = processor.image_processor(images=[page, closer], return_tensors="pt")
    kinds = (ids == model.config.image_token_id).long()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.train()
    for _ in range(300):
        loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=kinds, labels=labels, **pixels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss < 3e-3:
            break
    return model.eval()


def test_an_episode_is_recorded_with_its_observation_masked(caller: Any, tiny: Any, rows: list[Row]) -> None:
    processor = tiny.processor()
    record = play(caller, processor, rows[0].prompt, Image.open(rows[0].images[0]).convert("RGB"), max_new_tokens=90)
    validate(record)
    assert record.outcome is Outcome.CLEAN
    assert record.path == ("zoom",)
    assert record.final_json == ANSWER
    assert [segment.role for segment in record.segments] == [Role.USER, Role.ASSISTANT, Role.OBSERVATION, Role.ASSISTANT]
    observed = record.segments[2]
    seen = record.token_ids[observed.start : observed.end]
    assert seen.count(caller.config.image_token_id) == (192 * 2 // 32) * (128 * 2 // 32)  # half the page each way, enlarged
    assert not any(record.loss_mask[observed.start : observed.end])
    said = [s for s in record.segments if s.role is Role.ASSISTANT]
    assert all(all(record.loss_mask[s.start : s.end]) for s in said)


def test_the_trainer_s_ids_and_mask_are_the_record_s(caller: Any, tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """GRPOTrainer with the zoom environment, against the same episode played as serving plays it."""
    stage = {"kind": "gspo", "batch_size": 2, "group_size": 2, "updates_per_generation": 1, "tools": True, "top_p": 1e-6}
    config = tiny.config(stage | {"max_completion_length": 400, "steps": 1}, checkpoint_every=100)
    processor = tiny.processor()
    record = play(caller, processor, rows[0].prompt, Image.open(rows[0].images[0]).convert("RGB"), max_new_tokens=90)
    trainer = gspo_trainer(config, config.stages[0], caller, processor, rows, tmp_path)
    trainer.model.train()
    output = trainer._generate_and_score_completions([trainer.train_dataset[0], trainer.train_dataset[0]])
    for n in range(2):
        prompt = output["prompt_ids"][n][output["prompt_mask"][n] == 1].tolist()
        real = output["completion_mask"][n] == 1
        completion = output["completion_ids"][n][real].tolist()
        mask = output["tool_mask"][n][real].tolist()
        assert tuple(prompt + completion) == record.token_ids
        assert tuple([0] * len(prompt) + mask) == record.loss_mask
    assert 0 in output["tool_mask"][0].tolist()


def test_nano_trains_on_episodes_with_the_tool(caller: Any, tiny: Any, rows: list[Row], tmp_path: Path) -> None:
    """A whole run: the tool is called, its answer is masked, and the update moves the weights."""
    from certloop.train.gspo_reward import FieldReward

    stage = {"kind": "gspo", "batch_size": 4, "group_size": 4, "updates_per_generation": 2, "tools": True, "temperature": 0.7}
    config = tiny.config(stage | {"max_completion_length": 400, "steps": 2}, checkpoint_every=100)

    class Spread(FieldReward):
        def __call__(self, completions: Any, **columns: Any) -> list[float]:
            return [r + 0.01 * (n % 4) for n, r in enumerate(super().__call__(completions, **columns))]

    before = [p.detach().clone() for p in caller.parameters()]
    known = [rows[0], dataclasses.replace(rows[0], id="again")]  # the page that it knows by heart
    trainer = gspo_trainer(config, config.stages[0], caller, tiny.processor(), known, tmp_path, reward=Spread())
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "tools/call_frequency" in entry]
    assert logs[0]["tools/call_frequency"] > 0.3
    assert any(not torch.equal(a, b) for a, b in zip(before, caller.parameters(), strict=True))


def test_an_impossible_zoom_is_answered_not_raised(tiny: Any, rows: list[Row]) -> None:
    page = Image.open(rows[0].images[0])
    assert crop(page, 0, 0, 1000, 1000).size == (page.width * 2, page.height * 2)
    for edges in ((5, 0, 5, 10), (0, 0, 1001, 10), (-1, 0, 5, 10), (0, 9, 5, 3)):
        with pytest.raises(ValueError, match="edges lie between"):
            crop(page, *edges)


def test_a_call_that_cannot_be_read_ends_the_episode(tiny: Any) -> None:
    from certloop.train.episodes import _call

    assert _call(CALL) == {"name": "zoom", "arguments": {"left": 0, "top": 0, "right": 500, "bottom": 500}}
    assert _call(json.dumps({"name": "zoom"})) is None
    assert _call('<tool_call>{"name": "zoom", "arguments": 3}</tool_call>') is None
    assert _call("<tool_call>{</tool_call>") is None
