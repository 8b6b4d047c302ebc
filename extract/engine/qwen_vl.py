"""Qwen3-VL in this process, through transformers: the model of the engine ``qwen-vl``.

Weights are safetensors only, code comes from the installed package only (``trust_remote_code`` stays off). LoRA adapters are
loaded through peft beside the base weights; each row of a batch may be answered by another one, so that a canary needs no
second model.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.extract.config import ModelConfig
from certloop.extract.engine.adapters import check_adapter
from certloop.extract.engine.contract import LEAST_LOGPROB, Finish, ModelAnswer, Question
from certloop.extract.engine.errors import AdapterRefusedError, ModelUnavailableError
from certloop.extract.engine.inputs import model_inputs, view_of
from certloop.extract.engine.sources import is_bare_name, model_folder, why_not
from certloop.extract.engine.view import View

if TYPE_CHECKING:
    import torch

BASE = "__base__"
"""The row of a batch that no adapter answers (peft's own word)."""
BATCH = 16
_LONGEST_CHARACTER = 8  # tokens after which a broken character is taken for what it is


class QwenVlModel:
    """A loaded model with its processor and adapters. Not thread-safe."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.name = Path(config.model).name
        self._processor, self._model = _load(config)
        self._view = view_of(self._processor, config.max_pixels)
        self._adapters: dict[str, bool] = {}  # name: whether it changes the vision tower
        self._default = BASE
        if config.adapter:
            self._default = Path(config.adapter).name
            self.load_adapter(self._default, Path(config.adapter))

    @property
    def view(self) -> View:
        return self._view

    @property
    def processor(self) -> Any:
        return self._processor

    @property
    def adapters(self) -> tuple[str, ...]:
        return tuple(self._adapters)

    def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter beside the base weights. Raises AdapterRefusedError for another base model's, and for a name in use."""
        from peft import LoraConfig, PeftModel

        if name in self._adapters or name == BASE:
            raise AdapterRefusedError(f"an adapter named {name!r} is loaded already; adapters are never replaced under one name")
        plain = self._model.get_base_model() if isinstance(self._model, PeftModel) else self._model
        known_as = tuple(n for n in (self.config.model, str(getattr(plain.config, "_name_or_path", "") or "")) if n)
        check_adapter(folder, plain, known_as)
        try:
            if isinstance(self._model, PeftModel):
                self._model.load_adapter(str(folder), adapter_name=name, use_safetensors=True, low_cpu_mem_usage=True)
            else:
                self._model = PeftModel.from_pretrained(plain, str(folder), adapter_name=name, use_safetensors=True).eval()
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise AdapterRefusedError(f"the adapter {folder.name} cannot be loaded: {type(error).__name__}") from error
        spec = self._model.peft_config[name]
        assert isinstance(spec, LoraConfig)
        self._adapters[name] = any("visual" in key for key, _ in self._model.named_parameters() if f".{name}." in key)

    def unload_adapter(self, name: str) -> None:
        """Free an adapter; unknown names are refused like a wrong adapter."""
        if self._adapters.pop(name, None) is None:
            raise AdapterRefusedError(f"no adapter {name!r} is loaded")
        self._model.delete_adapter(name)

    def answer(self, questions: Sequence[Question]) -> list[ModelAnswer]:
        """Answer in batches of 16. Rows of different adapters share a batch, unless one of them changes the vision tower."""
        names = [q.adapter or self._default for q in questions]
        if unknown := sorted({n for n in names if n != BASE} - set(self._adapters)):
            raise AdapterRefusedError(f"no adapter {unknown[0]!r} is loaded; loaded: {', '.join(self._adapters) or 'none'}")
        answers: dict[int, ModelAnswer] = {}
        for group in _groups(names, apart={n for n, sees in self._adapters.items() if sees}):
            for start in range(0, len(group), BATCH):
                rows = group[start : start + BATCH]
                answers |= zip(rows, self._batch([questions[i] for i in rows], [names[i] for i in rows]), strict=True)
        return [answers[i] for i in range(len(questions))]

    def close(self) -> None:
        """Memory goes with the object."""

    def _batch(self, questions: Sequence[Question], names: Sequence[str]) -> list[ModelAnswer]:
        import torch

        inputs = model_inputs(self._processor, questions).to(self._model.device)
        if "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"].to(self._model.dtype)
        taken = _SampledLogprobs(self.config.temperature)
        watch = _LoopStop(len(questions), inputs["input_ids"].shape[1], self._end_ids())
        devices = [self._model.device] if self._model.device.type == "cuda" else []
        try:
            with torch.inference_mode(), torch.random.fork_rng(devices=devices), self._chosen(names) as extra:
                torch.manual_seed(self.config.seed)
                ids_BT = self._model.generate(
                    **inputs,
                    **extra,
                    generation_config=self._generation_config(),
                    logits_processor=[taken],
                    stopping_criteria=[watch],
                )
        except (RuntimeError, ValueError) as error:  # out of memory; a prompt longer than the context
            raise ModelUnavailableError(f"the model {self.name} failed while it answered: {type(error).__name__}") from error
        logprobs_BN = taken.finished(ids_BT)
        first = inputs["input_ids"].shape[1]
        rows = []
        for row, name in enumerate(names):
            prompt = inputs["input_ids"][row][inputs["attention_mask"][row].bool()].tolist()
            sampled = ids_BT[row, first:].tolist()
            rows.append(self._answer(prompt, sampled, logprobs_BN[row], name, looped=row in watch.looped))
        return rows

    def _answer(self, prompt: list[int], ids: list[int], logprobs: list[float], name: str, *, looped: bool) -> ModelAnswer:
        ends = self._end_ids()
        stop = next((n for n, token in enumerate(ids) if token in ends), None)
        kept = ids if stop is None else ids[: stop + 1]
        text, offsets = spoken(self._processor.tokenizer, kept)
        return ModelAnswer(
            text=text,
            finish=Finish.STOP if stop is not None else Finish.LOOP if looped else Finish.LENGTH,
            model=self.name,
            adapter=None if name == BASE else name,
            prompt_ids=tuple(prompt),
            token_ids=tuple(kept),
            logprobs=tuple(logprobs[: len(kept)]),
            offsets=offsets,
            temperature=self.config.temperature,
            usage={"prompt_tokens": len(prompt), "completion_tokens": len(kept)},
        )

    def _chosen(self, names: Sequence[str]) -> AbstractContextManager[dict[str, Any]]:
        """The adapters of a batch's rows, as peft wants them said."""
        from contextlib import contextmanager

        @contextmanager
        def chosen() -> Any:
            wanted = set(names)
            if not self._adapters:
                yield {}
            elif wanted == {BASE}:
                with self._model.disable_adapter():
                    yield {}
            elif len(wanted) == 1:
                self._model.set_adapter(names[0])
                self._model.requires_grad_(False)
                yield {}
            else:
                yield {"adapter_names": list(names)}

        return chosen()

    def _generation_config(self) -> Any:
        """Nothing of the model's own defaults (top-k, repetition penalties): what is stored is what was sampled from."""
        import transformers

        kind: Any = transformers.GenerationConfig
        hot = self.config.temperature > 0
        heat: dict[str, Any] = {"temperature": self.config.temperature, "top_k": 0, "top_p": 1.0} if hot else {}
        return kind(
            max_new_tokens=self.config.max_tokens,
            do_sample=hot,
            eos_token_id=sorted(self._end_ids()),
            pad_token_id=self._processor.tokenizer.pad_token_id,
            **heat,
        )

    def _end_ids(self) -> frozenset[int]:
        own = self._model.generation_config.eos_token_id
        ids = own if isinstance(own, list) else [own if own is not None else self._processor.tokenizer.eos_token_id]
        return frozenset(int(i) for i in ids)


class _SampledLogprobs:
    """A logits processor that changes nothing and keeps the log-probability of every token that was then taken.

    With sampling, transformers divides by the temperature after it; here the same is done to a copy, so that what is kept is the
    distribution that was sampled from (at temperature 0: that of temperature 1).
    """

    def __init__(self, temperature: float) -> None:
        self._heat = temperature or 1.0
        self._before: torch.Tensor | None = None
        self._taken: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._take(input_ids)
        self._before = (scores.float() / self._heat).log_softmax(dim=-1)
        return scores

    def _take(self, ids_BT: torch.Tensor) -> None:
        if self._before is not None:
            self._taken.append(self._before.gather(1, ids_BT[:, -1:]).squeeze(1))
            self._before = None

    def finished(self, ids_BT: torch.Tensor) -> list[list[float]]:
        """The log-probabilities of every row's new tokens (padding included), once generation has ended."""
        import torch

        self._take(ids_BT)
        if not self._taken:
            return [[] for _ in range(ids_BT.shape[0])]
        rows: list[list[float]] = torch.stack(self._taken, dim=1).clamp(LEAST_LOGPROB, 0.0).tolist()
        return rows


class _LoopStop:
    """A stopping criterion: a row that repeats itself is stopped, and remembered."""

    def __init__(self, rows: int, prompt: int, ends: frozenset[int]) -> None:
        from certloop.extract.engine.loops import LoopWatch

        self.looped: set[int] = set()
        self._done: set[int] = set()
        self._watches = [LoopWatch() for _ in range(rows)]
        self._seen, self._ends = prompt, ends

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        import torch

        for position in range(self._seen, input_ids.shape[1]):
            for row, token in enumerate(input_ids[:, position].tolist()):
                if row in self._done:
                    continue
                if token in self._ends:
                    self._done.add(row)
                elif self._watches[row].push(token):
                    self._done.add(row)
                    self.looped.add(row)
        self._seen = input_ids.shape[1]
        return torch.tensor([row in self.looped for row in range(input_ids.shape[0])], device=input_ids.device)


def spoken(tokenizer: Any, ids: Sequence[int]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text of sampled tokens and the characters each covers. Tokens that share a character (parts of its bytes) share its
    span; a special token covers nothing."""
    special = set(tokenizer.all_special_ids)
    text = ""
    spans: list[tuple[int, int]] = []
    waiting: list[int] = []
    for position, token in enumerate(ids):
        if token not in special:
            waiting.append(token)
        piece = tokenizer.decode(waiting, skip_special_tokens=True, clean_up_tokenization_spaces=False) if waiting else ""
        whole = not piece.endswith("\ufffd") or len(waiting) >= _LONGEST_CHARACTER
        if whole or token in special or position == len(ids) - 1:
            spans += [(len(text), len(text) + len(piece))] * len(waiting)
            text += piece
            waiting.clear()
        if token in special:
            spans.append((len(text), len(text)))
    return text, tuple(spans)


def _groups(names: Sequence[str], *, apart: set[str]) -> list[list[int]]:
    """Rows that may share a batch: an adapter that changes the vision tower has its own, because there a row is a patch, not
    a page."""
    if not set(names) & apart:
        return [list(range(len(names)))] if names else []
    return [[i for i, n in enumerate(names) if n == name] for name in dict.fromkeys(names)]


def _load(config: ModelConfig) -> tuple[Any, Any]:
    if not config.model:
        raise ModelUnavailableError("the engine qwen-vl needs a model: set CERTLOOP_MODEL to a folder of weights or a hub name")
    source = model_folder(config.model)
    folder = Path(source) if Path(source).is_dir() else None
    if is_bare_name(source):
        raise ModelUnavailableError(f"the model {source} (CERTLOOP_MODEL) cannot be loaded: {why_not(source, OSError())}")
    if folder is not None and not any(folder.glob("*.safetensors")):
        raise ModelUnavailableError(f"{folder.name} holds no safetensors weights; no other kind is loaded")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ModelUnavailableError("the engine qwen-vl needs the extra train: pip install 'certloop[train]'") from error
    device = config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(
        config.dtype, torch.bfloat16 if device == "cuda" else torch.float32
    )
    where: Any = folder or source
    processors: Any = transformers.AutoProcessor
    models: Any = transformers.AutoModelForImageTextToText
    try:
        processor = processors.from_pretrained(where, trust_remote_code=False)
        model = models.from_pretrained(where, dtype=dtype, use_safetensors=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise ModelUnavailableError(
            f"the model {Path(config.model).name} (CERTLOOP_MODEL) cannot be loaded: {why_not(source, error)}"
        ) from error
    if getattr(processor, "image_processor", None) is None or not getattr(processor, "chat_template", None):
        raise ModelUnavailableError(
            f"{Path(config.model).name} is no vision-language chat model: it lacks an image processor or a chat template"
        )
    return processor, model.to(device).eval()
