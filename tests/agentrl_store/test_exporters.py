"""The shape of every row that leaves to a trainer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.signals.emit import Origin, rejection_signal, review_signals, withdrawal_signals
from certloop.agentrl.store import BlobMissingError, ExportError, TenantStore
from certloop.agentrl.store.exporters import (
    approved_answer,
    fused_reward,
    swift_row,
    tinker_rl_datum,
    tinker_sft_datum,
    trl_messages_row,
    trl_prompt_completion_row,
    trl_prompt_row,
    write_images,
)
from certloop.agentrl.trajectory import Trajectory

Make = Callable[..., Trajectory]
IMAGE, ANSWER = {"type": "image"}, '{"part": "A-17"}'


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def origin(actor: str = "auditor-7", day: int = 2) -> Origin:
    return Origin("t-1", actor, f"2026-03-0{day}T08:00:00+00:00")


def test_trl_messages(make_trajectory: Make) -> None:
    row = trl_messages_row(make_trajectory(), "读", ANSWER, ["a.png", "b.png"])
    assert row == {
        "messages": [
            {"role": "user", "content": [IMAGE, IMAGE, text("读")]},
            {"role": "assistant", "content": [text(ANSWER)]},
        ],
        "images": ["a.png", "b.png"],
    }


def test_trl_messages_with_the_models_own_steps(make_trajectory: Make) -> None:
    messages = trl_messages_row(make_trajectory(), "读", ANSWER, [], with_steps=True)["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"] == [{"type": "function", "function": {"name": "look", "arguments": {"page": 0}}}]
    assert messages[2]["content"] == [text('{"lines": 2}')]


def test_trl_prompt_and_completion() -> None:
    assert trl_prompt_completion_row("读", ANSWER, ["a.png"]) == {
        "prompt": [{"role": "user", "content": [IMAGE, text("读")]}],
        "completion": [{"role": "assistant", "content": [text(ANSWER)]}],
        "images": ["a.png"],
    }


@pytest.mark.slow
def test_trl_itself_takes_the_rows(make_trajectory: Make, tmp_path: Path, root: Path) -> None:
    """Its own collator, as SFTTrainer calls it: the page becomes pixels, the answer is trained on, a pair's prompt not."""
    from datasets import load_dataset
    from PIL import Image
    from transformers import AutoProcessor
    from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

    page = str(tmp_path / "page.png")
    Image.new("RGB", (64, 64), "white").save(page)
    processor = AutoProcessor.from_pretrained(root / "train" / "nano" / "weights" / "teacher")
    rows = [trl_messages_row(make_trajectory(), "读", ANSWER, [page]), trl_prompt_completion_row("读", ANSWER, [page])]
    for number, row in enumerate(rows):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
        data = load_dataset(
            "json", data_files=str(tmp_path / f"{number}.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
        )
        pairs = "prompt" in row
        batch = DataCollatorForVisionLanguageModeling(processor, max_length=None, completion_only_loss=pairs)([data[0]])
        trained = batch["labels"][0]
        assert batch["pixel_values"].shape[0] > 0
        assert ANSWER in processor.tokenizer.decode(trained[trained != -100])
        assert bool((trained == -100).any()) == pairs


def test_trl_on_policy_rows_need_a_ground_truth() -> None:
    row = trl_prompt_row("读", ANSWER, ["a.png"], doc_type="x")
    assert set(row) == {"prompt", "images", "ground_truth", "doc_type"}
    with pytest.raises(ExportError):
        trl_prompt_row("读", None, [])


def test_swift_rows() -> None:
    assert swift_row("读", ANSWER, ["a.png", "b.png"], teacher_prompt="看右下角") == {
        "messages": [{"role": "user", "content": "<image><image>读"}, {"role": "assistant", "content": ANSWER}],
        "images": ["a.png", "b.png"],
        "teacher_prompt": "<image><image>看右下角",
    }
    assert [m["role"] for m in swift_row("读", None, ["a.png"])["messages"]] == ["user"]
    with pytest.raises(ExportError):
        swift_row("a prompt that says <image>", ANSWER, [])


def test_tinker_data_are_shifted_by_one(make_trajectory: Make) -> None:
    trajectory = make_trajectory()
    datum = tinker_sft_datum(trajectory)
    assert datum["model_input"] == {"chunks": [{"type": "encoded_text", "tokens": list(range(100, 130))}]}
    inputs = datum["loss_fn_inputs"]
    assert inputs["target_tokens"] == {"data": list(range(101, 131)), "dtype": "int64", "shape": [30]}
    assert sum(inputs["weights"]["data"]) == 13  # METHODS §1.2
    assert inputs["weights"]["data"][8] == 1.0  # position 8 predicts token 9, the assistant's first

    rl = tinker_rl_datum(trajectory, -0.5)["loss_fn_inputs"]
    assert set(rl) == {"target_tokens", "logprobs", "advantages"}
    assert sum(rl["advantages"]["data"]) == -6.5
    assert rl["logprobs"]["data"][8] == pytest.approx(-1.0)  # token 9 was sampled at -0.1 * 10
    assert rl["logprobs"]["data"][0] == 0.0
    json.dumps(rl, allow_nan=False)


def test_tinker_image_tokens_become_chunks(make_trajectory: Make) -> None:
    tokens = (100, 7, 7, 7, 104, *range(105, 131))
    datum = tinker_sft_datum(make_trajectory(token_ids=tokens), image_token_id=7, images=[(b"png", "png")])
    chunks = datum["model_input"]["chunks"]
    assert chunks[1] == {"type": "image", "data": base64.b64encode(b"png").decode(), "format": "png", "expected_tokens": 3}
    assert [c["type"] for c in chunks] == ["encoded_text", "image", "encoded_text"]
    for images in ([], [(b"1", "png"), (b"2", "png")]):
        with pytest.raises(ExportError):
            tinker_sft_datum(make_trajectory(token_ids=tokens), image_token_id=7, images=images)


def test_tinker_needs_tokens_and_a_finite_advantage(make_trajectory: Make) -> None:
    empty: dict[str, Any] = {"token_ids": (), "logprobs": (), "loss_mask": (), "segments": (), "steps": ()}
    with pytest.raises(ExportError):
        tinker_sft_datum(make_trajectory(**empty))
    with pytest.raises(ExportError):
        tinker_rl_datum(make_trajectory(), float("nan"))


def test_an_approved_answer_has_the_auditors_edits(make_trajectory: Make) -> None:
    trajectory = make_trajectory()
    assert approved_answer(trajectory, ()) is None
    kept = review_signals(origin(), {"owner": "张样本", "part": "A-17"}, {"owner": "张样本", "part": "A-17"})
    assert approved_answer(trajectory, kept) == trajectory.final_json
    assert fused_reward(trajectory, kept) == 1.0
    edited = review_signals(origin(), {"owner": "张样本", "part": "A-17"}, {"owner": "张样", "part": None})
    assert approved_answer(trajectory, edited) == '{"owner": "张样"}'
    assert approved_answer(trajectory, [*edited, rejection_signal(origin(day=3))]) is None
    assert approved_answer(make_trajectory(final_json="not JSON"), edited) is None
    refused = replace(rejection_signal(origin(day=3)), supersedes=edited[-1].signal_id)
    said = [*edited, refused]
    assert approved_answer(trajectory, said) is None
    said += withdrawal_signals(origin(day=4), [refused])  # what was taken back has replaced nothing
    assert approved_answer(trajectory, said) == '{"owner": "张样"}'


def test_images_are_written_under_their_hash(acme: TenantStore, make_trajectory: Make, tmp_path: Path) -> None:
    pages = [acme.put_blob(b"\x89PNG 1"), acme.put_blob(b"\xff\xd8\xff 2")]
    with acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory(image_sha256=tuple(pages)))
    paths = write_images(acme, pages, tmp_path / "images")
    assert [Path(p).name for p in paths] == [f"{pages[0]}.png", f"{pages[1]}.jpg"]
    assert write_images(acme, pages, tmp_path / "images") == paths
    acme.blobs.delete("acme", pages[0])
    with pytest.raises(BlobMissingError):
        write_images(acme, pages, tmp_path / "elsewhere")
