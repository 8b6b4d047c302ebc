"""Nano's tokeniser, processor and model: Qwen3-VL's classes, loaded by the Auto classes, with prompts that are serving's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from certloop.extract.engine.prompt import prompt_text
from certloop.train.errors import ModelLoadError
from certloop.train.nano import NanoConfig, build_nano, load_nano, messages_of, nano_pages, save_nano, user_text
from certloop.train.nano.batch import Collator, patches, slot_targets
from certloop.train.nano.fast import FastVision, read_batch
from certloop.train.nano.tokenizer import SPECIAL, build_tokenizer, vocabulary
from certloop.train.nano.vocabulary import nano_type, page_glyphs, words


@pytest.fixture(scope="module")
def nano() -> tuple[Any, Any]:
    return build_nano(NanoConfig.tiny())


def test_text_comes_back_as_it_was_and_a_key_is_one_token() -> None:
    tokenizer = build_tokenizer()
    for page in nano_pages(21, 30, layouts="all"):
        ids = tokenizer(page.answer)["input_ids"]
        assert tokenizer.decode(ids) == page.answer and tokenizer.unk_token_id not in ids
        values = sum(len(value) for value in page.fields.values())
        assert len(ids) == values + 3 * len(page.fields) + 1  # {"  KEY  ": "  value  ", "  ...  "}
    reasoning = f"先列出字段：{words().reasoning}\n<guidance>\n住所：1号\n</guidance>"
    assert tokenizer.decode(tokenizer(reasoning)["input_ids"]) == reasoning
    assert tokenizer.unk_token_id in tokenizer("龘")["input_ids"]


def test_tokens_are_unique_and_special_ones_cannot_be_typed_by_values() -> None:
    tokens = vocabulary()
    assert len(set(tokens)) == len(tokens) and set(page_glyphs()) <= set(tokens)
    assert [spec.label for spec in nano_type().fields.values()] == [
        t for t in tokens if t in ("统一社会信用代码", "名称", "类型", "法定代表人", "成立日期", "住所")
    ]
    tokenizer = build_tokenizer()
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL)) == list(range(len(SPECIAL)))


def test_the_prompt_is_the_types_prompt_and_guidance_a_block_after_it() -> None:
    generic = nano_type().prompt
    assert user_text() == generic and user_text("") == generic
    assert user_text("住所：1号") == user_text(["住所：1号"]) == prompt_text(generic, ["住所：1号"])
    assert user_text("住所：1号") == generic + "<guidance>\n住所：1号\n</guidance>\n"


def test_training_ids_equal_those_of_the_chat_template(nano: tuple[Any, Any]) -> None:
    model, processor = nano
    collator = Collator(model, processor)
    for page, lines in zip(nano_pages(22, 3), ((), ("住所：1号",), ("名称可能是南昌", "住所：2号")), strict=True):
        conversation = processor.apply_chat_template(messages_of(page.image, lines, page.answer), tokenize=True, return_dict=True)
        prompt = processor.apply_chat_template(
            messages_of(page.image, lines), tokenize=True, return_dict=True, add_generation_prompt=True
        )
        ids, written = collator.ids(user_text(lines), page.answer, 96)
        whole = conversation["input_ids"][0]
        assert whole[: len(ids)] == ids  # the template's last line break is not trained on
        assert processor.tokenizer.decode(whole[len(ids) :]) == "\n"
        assert prompt["input_ids"][0] == ids[:-written]


def test_patches_places_and_loss_equal_the_models_own(nano: tuple[Any, Any]) -> None:
    import torch

    model, processor = nano
    pages = nano_pages(23, 3)
    pixels = np.stack([page.pixels for page in pages])
    notes: list[tuple[str, ...]] = [(), ("住所：1号",), ()]
    own = processor.apply_chat_template(
        [messages_of(p.image, g, p.answer) for p, g in zip(pages, notes, strict=True)],
        tokenize=True, return_dict=True, return_tensors="pt", processor_kwargs={"padding": True, "padding_side": "right"},
    )  # fmt: skip
    twice = own["pixel_values"].view(-1, 3, 2, 256)
    assert torch.equal(twice[:, :, 0], twice[:, :, 1])
    assert np.allclose(twice[:, :, 0].reshape(-1, 768).numpy(), patches(pixels), atol=1e-5)
    batch = Collator(model, processor).batch(
        pixels, [user_text(g) for g in notes], [p.answer for p in pages], [p.chars for p in pages], [p.centres for p in pages]
    )
    length = batch.input_ids.shape[1]
    kinds = (batch.input_ids == model.config.image_token_id).int()
    places, _ = model.model.get_rope_index(
        batch.input_ids, mm_token_type_ids=kinds, image_grid_thw=batch.image_grid_thw, attention_mask=batch.attention_mask
    )
    assert int(((places - batch.position_ids).abs() * batch.attention_mask).max()) == 0
    with torch.no_grad():
        fast, features = read_batch(model, FastVision(model), batch)
        slow = model.model.visual(own["pixel_values"], own["image_grid_thw"]).pooler_output
        inputs = {k: v if k in ("pixel_values", "image_grid_thw") else v[:, :length] for k, v in own.items()}
        chances = model(**inputs).logits.log_softmax(-1)[:, :-1].gather(-1, batch.input_ids[:, 1:, None])[..., 0]
        expected = -(chances * batch.answer_weights[:, 1:]).sum() / batch.answer_weights.sum()
    assert torch.allclose(features, slow, atol=1e-4)
    assert float(fast) == pytest.approx(float(expected), rel=1e-4)


def test_every_field_weighs_alike_within_bounds(nano: tuple[Any, Any]) -> None:
    collator = Collator(*nano)
    answer = '{"名称": "南昌恒达食品商行", "法定代表人": "王强"}'
    ids, written = collator.ids(user_text(), answer, 96)
    expected = [0.3] * 3 + [9 / 8] * 8 + [0.3] * 3 + [3.0] * 2 + [0.3] * 2  # 9 / 2 is above the bound of 3
    assert collator._weights(ids[-written:]) == pytest.approx(expected)
    ids, written = collator.ids(user_text(), '{"统一社会信用代码": "913701036273034431"}', 96)
    assert collator._weights(ids[-written:]) == pytest.approx([0.3] * 3 + [2.0] * 18 + [0.3] * 2)


def test_a_slot_holds_the_glyph_whose_middle_lies_in_it() -> None:
    found = slot_targets(["91"], [np.array([[3.0, 3.0], [60.0, 20.0]], np.float32)], 32, 64)
    order = page_glyphs()
    expected = np.zeros((2, 8), np.int64)
    expected[0, 0] = order.index("9") + 1  # first cell, first column of the upper row
    expected[1, 7] = order.index("1") + 1  # second cell, last column of the lower row
    assert np.array_equal(found, expected)


def test_a_folder_is_loaded_by_the_auto_classes_and_holds_no_pickle(nano: tuple[Any, Any], tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

    model, processor = nano
    save_nano(model, processor, tmp_path / "half")
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path / "half", dtype=torch.float32)
    assert isinstance(loaded, Qwen3VLForConditionalGeneration)
    assert isinstance(AutoProcessor.from_pretrained(tmp_path / "half"), Qwen3VLProcessor)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(loaded.state_dict()[name], tensor, atol=1e-3), name
    assert {p.suffix for p in (tmp_path / "half").iterdir()} <= {".json", ".safetensors", ".jinja"}
    assert "auto_map" not in json.loads((tmp_path / "half" / "config.json").read_text())
    again, its_processor = load_nano(tmp_path / "half")
    assert next(again.parameters()).dtype is torch.float32 and not again.training
    assert its_processor.tokenizer.get_vocab() == processor.tokenizer.get_vocab()


def test_a_seed_gives_the_same_model_and_leaves_the_global_generator_alone() -> None:
    import torch

    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = build_nano(NanoConfig.tiny())[0], build_nano(NanoConfig.tiny())[0]
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="holds no config"):
        load_nano(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl"}')
    with pytest.raises(ModelLoadError, match="no model that can be loaded"):
        load_nano(tmp_path)
