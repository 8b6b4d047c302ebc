"""The in-process model: what it stores is what it sampled, rows of one batch answer independently, loops are stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from nano_models import questions, tiny_adapter, tiny_model

from certloop.extract.config import ModelConfig
from certloop.extract.engine.adapters import BASE_MARK, fingerprint
from certloop.extract.engine.contract import Finish
from certloop.extract.engine.errors import AdapterRefusedError, ModelUnavailableError
from certloop.extract.engine.inputs import model_inputs
from certloop.extract.engine.qwen_vl import BASE, QwenVlModel, spoken


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def adapters(base: Path) -> dict[str, Path]:
    return {name: tiny_adapter(base, base.parent / name, seed=n) for n, name in enumerate(("one", "two"), 1)}


def open_model(base: Path, **changes: Any) -> QwenVlModel:
    return QwenVlModel(replace(ModelConfig(model=str(base), max_tokens=24), **changes))


def recomputed(model: QwenVlModel, question: Any, ids: tuple[int, ...]) -> list[float]:
    """Log-probabilities of ``ids`` after a question, by one forward pass."""
    inputs = model_inputs(model.processor, [question])
    start = inputs["input_ids"].shape[1]
    whole = torch.cat([inputs["input_ids"], torch.tensor([ids])], dim=1)
    extra = {k: v for k, v in inputs.items() if k not in ("input_ids", "attention_mask", "mm_token_type_ids")}
    if "mm_token_type_ids" in inputs:
        extra["mm_token_type_ids"] = torch.cat([inputs["mm_token_type_ids"], torch.zeros(1, len(ids), dtype=torch.long)], dim=1)
    with torch.no_grad():
        logits_TV = model._model(input_ids=whole, attention_mask=torch.ones_like(whole), **extra).logits[0]
    logprobs_TV = logits_TV.float().log_softmax(-1)
    return [float(logprobs_TV[start - 1 + n, token]) for n, token in enumerate(ids)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_stored_logprobs_are_those_of_the_sampled_tokens(base: Path, temperature: float) -> None:
    model = open_model(base, temperature=temperature, seed=4)
    asked = questions(3)
    answers = model.answer(asked)
    for question, answer in zip(asked, answers, strict=True):
        assert answer.logprobs == pytest.approx(recomputed(model, question, answer.token_ids), abs=1e-4)
        assert len(answer.logprobs) == len(answer.token_ids) == len(answer.offsets)
        alone = model_inputs(model.processor, [question])["input_ids"][0].tolist()
        assert list(answer.prompt_ids) == alone, "padding of the batch is not part of the prompt"
        for (start, end), token in zip(answer.offsets, answer.token_ids, strict=True):
            assert answer.text[start:end] == model.processor.tokenizer.decode([token], skip_special_tokens=True)


def test_another_temperature_stores_that_distribution(base: Path) -> None:
    model = open_model(base, temperature=0.5, seed=1)
    (question,) = questions(1)
    (answer,) = model.answer([question])
    inputs = model_inputs(model.processor, [question])
    with torch.no_grad():
        logits_V = model._model(**inputs).logits[0, -1].float()
    assert answer.logprobs[0] == pytest.approx(float((logits_V / 0.5).log_softmax(-1)[answer.token_ids[0]]), abs=1e-4)


def test_a_seed_repeats_an_answer_and_another_changes_it(base: Path) -> None:
    first, again, other = (open_model(base, temperature=1.0, seed=s).answer(questions(1))[0] for s in (1, 1, 2))
    assert first.text == again.text != other.text


def test_rows_of_a_batch_answer_as_if_alone(base: Path) -> None:
    model = open_model(base)
    asked = questions(3)
    assert [a.text for a in model.answer(asked)] == [model.answer([q])[0].text for q in asked]


def test_each_row_of_a_batch_may_have_its_own_adapter(base: Path, adapters: dict[str, Path]) -> None:
    model = open_model(base)
    for name, folder in adapters.items():
        model.load_adapter(name, folder)
    (question,) = questions(1)
    mixed = model.answer([replace(question, adapter=name) for name in (None, "one", "two", "one", BASE)])
    assert [a.adapter for a in mixed] == [None, "one", "two", "one", None]
    alone = {name: open_model(base, adapter=str(folder)).answer([question])[0] for name, folder in adapters.items()}
    plain = open_model(base).answer([question])[0]
    for got, wanted in zip(mixed, [plain, alone["one"], alone["two"], alone["one"], plain], strict=True):
        assert got.token_ids == wanted.token_ids
        assert got.logprobs == pytest.approx(wanted.logprobs, abs=1e-4)
    assert len({a.token_ids for a in mixed}) == 3, "the adapters do change the answer"
    model.unload_adapter("one")
    with pytest.raises(AdapterRefusedError, match="no adapter 'one' is loaded"):
        model.answer([replace(question, adapter="one")])


def test_an_adapter_of_the_vision_tower_has_a_batch_of_its_own(base: Path, tmp_path: Path) -> None:
    eye = tiny_adapter(base, tmp_path / "eye", targets=r".*visual.*\.(qkv|proj)")
    model = open_model(base)
    model.load_adapter("eye", eye)
    (question,) = questions(1)
    plain, seen = model.answer([question, replace(question, adapter="eye")])
    assert plain.token_ids == open_model(base).answer([question])[0].token_ids
    assert seen.logprobs == pytest.approx(open_model(base, adapter=str(eye)).answer([question])[0].logprobs, abs=1e-4)
    assert seen.logprobs != plain.logprobs


def test_an_adapter_of_another_base_is_refused_with_the_reason(base: Path, adapters: dict[str, Path], tmp_path: Path) -> None:
    import json
    import shutil

    other = tiny_model(tmp_path / "other", seed=9)
    wide = tiny_model(tmp_path / "wide", hidden=64)
    deep = tiny_model(tmp_path / "tiny", layers=3)  # of the same name
    marked = tmp_path / "marked"
    shutil.copytree(adapters["one"], marked)
    (marked / BASE_MARK).write_text(json.dumps({"name": "tiny", **fingerprint(open_model(base)._model)}), encoding="utf-8")
    open_model(base, adapter=str(marked))
    for where, adapter, reason in [
        (other, adapters["one"], "was trained on 'tiny', the model here is 'other'"),
        (other, marked, "belongs to tiny, a model of the same shape with other weights"),
        (wide, marked, "belongs to tiny, a model of another shape"),
        (base, tiny_adapter(wide, tmp_path / "fat"), "was trained on 'wide', the model here is 'tiny'"),
        (base, tiny_adapter(deep, tmp_path / "tall"), "changes model.language_model.layers.2.self_attn"),
    ]:
        with pytest.raises(AdapterRefusedError, match=reason):
            open_model(where, adapter=str(adapter))


def test_unsafe_and_damaged_adapters_are_refused(base: Path, adapters: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    for name, spoil, reason in [
        ("pickled", lambda f: (f / "adapter_model.bin").write_bytes(b"x"), "never loaded"),
        ("empty", lambda f: (f / "adapter_model.safetensors").unlink(), "holds no adapter_model.safetensors"),
        ("torn", lambda f: (f / "adapter_model.safetensors").write_bytes(b"\xff" * 40), "no safetensors file"),
        ("blank", lambda f: (f / "adapter_config.json").write_text("[]"), "no adapter"),
        ("ia3", lambda f: (f / "adapter_config.json").write_text('{"peft_type": "IA3"}'), "only LORA"),
    ]:
        folder = tmp_path / name
        shutil.copytree(adapters["one"], folder)
        spoil(folder)
        with pytest.raises(AdapterRefusedError, match=reason):
            open_model(base, adapter=str(folder))
    model = open_model(base, adapter=str(adapters["one"]))
    with pytest.raises(AdapterRefusedError, match="loaded already"):
        model.load_adapter("one", adapters["one"])


def test_models_that_are_not_there_or_not_safe_are_refused(base: Path, tmp_path: Path) -> None:
    import shutil

    pickled = tmp_path / "pickled"
    shutil.copytree(base, pickled)
    for file in pickled.glob("*.safetensors"):
        file.rename(file.with_suffix(".bin"))
    blind = tmp_path / "blind"
    shutil.copytree(base, blind)
    (blind / "chat_template.jinja").unlink()
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(next(base.glob("*.safetensors")), empty)
    for where, reason in [
        ("", "CERTLOOP_MODEL"),
        (str(pickled), "no safetensors"),
        (str(tmp_path / "no/where"), r"where \(CERTLOOP_MODEL\) cannot be loaded: there is no such folder$"),
        ("Nobody/Nothing-4B", "no such folder, and no model of that name was found in the local cache or on the hub$"),
        ("nano", r"nano \(CERTLOOP_MODEL\) cannot be loaded: there is no such folder, and a name on the hub is OWNER/NAME$"),
        (str(base / "config.json"), "it is a file, not a folder$"),
        (str(empty), "the folder lacks config.json$"),
        (str(tiny_adapter(base, tmp_path / "adapter")), "the folder holds an adapter, not a model; give the folder of its base"),
    ]:
        with pytest.raises(ModelUnavailableError, match=reason):
            QwenVlModel(ModelConfig(model=where))
    with pytest.raises(ModelUnavailableError):
        QwenVlModel(ModelConfig(model=str(blind)))


def test_without_the_extra_it_is_said_which_one(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelUnavailableError, match=r"certloop\[train\]"):
        open_model(base)


def test_baseline_and_canary_read_from_one_set_of_weights(base: Path, adapters: dict[str, Path]) -> None:
    from certloop.extract.config import ExtractConfig
    from certloop.extract.engine.model_reader import ModelReader
    from certloop.extract.engine.ocr import OcrEngine
    from certloop.extract.guidance import Guidance
    from certloop.extract.ingest import Page
    from certloop.templates import load_types
    from certloop.train.nano import nano_pages
    from certloop.train.nano.vocabulary import TYPE_ID, TYPES

    model = open_model(base)
    model.load_adapter("canary", adapters["one"])
    pixels = nano_pages(3, 1)[0].pixels
    page = Page(pixels, 0, pixels.shape[1], pixels.shape[0], 1.0, "png")
    baseline = ModelReader(model, OcrEngine(), load_types((str(TYPES),)), ExtractConfig())
    written = [
        reader.read([page], TYPE_ID, Guidance()).documents[0].generations[0]
        for reader in (baseline, baseline.with_adapter("canary"), baseline)
    ]
    assert [g.adapter for g in written] == [None, "canary", None]
    assert written[0] == written[2]
    assert written[0].token_ids != written[1].token_ids and written[0].prompt_ids == written[1].prompt_ids


def test_the_adapter_of_a_release_is_loaded_when_the_first_document_meets_it(base: Path, adapters: dict[str, Path]) -> None:
    """A reading names its release's weights; a process that has them not loads them once, and goes back to the base without."""
    from certloop.extract.config import ExtractConfig
    from certloop.extract.engine.model_reader import ModelReader
    from certloop.extract.engine.ocr import OcrEngine
    from certloop.extract.guidance import Adapter, Guidance
    from certloop.extract.ingest import Page
    from certloop.templates import load_types
    from certloop.train.nano import nano_pages
    from certloop.train.nano.vocabulary import TYPE_ID, TYPES

    model = open_model(base)
    pixels = nano_pages(3, 1)[0].pixels
    page = Page(pixels, 0, pixels.shape[1], pixels.shape[0], 1.0, "png")
    reader = ModelReader(model, OcrEngine(), load_types((str(TYPES),)), ExtractConfig())
    release = Guidance(adapter=Adapter("certloop-v2", str(adapters["one"])))
    written = [
        reader.read([page], TYPE_ID, guidance).documents[0].generations[0]
        for guidance in (Guidance(), release, release, Guidance())
    ]
    assert [g.adapter for g in written] == [None, "certloop-v2", "certloop-v2", None]
    assert model.adapters == ("certloop-v2",)
    assert written[0] == written[3]
    assert written[0].token_ids != written[1].token_ids


def test_a_repetition_loop_is_stopped_and_marked(base: Path) -> None:
    """An untrained head without its temperature says one token for ever."""
    model = open_model(base, max_tokens=400)
    with torch.no_grad():
        head = model._model.get_output_embeddings()
        head.bias = torch.nn.Parameter(torch.zeros(head.weight.shape[0]))
        head.bias[model.processor.tokenizer("名")["input_ids"][0]] = 100.0
    first, second = model.answer(questions(2))
    for answer in (first, second):
        assert answer.finish is Finish.LOOP
        assert set(answer.text) == {"名"}
        assert len(answer.token_ids) == 65, "one period and 64 repeats"


def test_text_and_spans_of_tokens_that_share_a_character() -> None:
    """Byte-level tokenisers split a Chinese character over several tokens; each of them covers the whole character."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({char: n for n, char in enumerate(alphabet)} | {"<end>": len(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
    ids = [*tokenizer("a名b")["input_ids"], tokenizer.eos_token_id]
    text, spans = spoken(tokenizer, ids)
    assert text == "a名b"
    assert spans == ((0, 1), (1, 2), (1, 2), (1, 2), (2, 3), (3, 3))
