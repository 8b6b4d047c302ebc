"""How an ``Extractor`` is set up. Frozen and serialisable: it travels to worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from certloop.extract.engine.ocr import OcrConfig
from certloop.extract.guidance import Guidance
from certloop.extract.ingest import IngestLimits

ENGINES = ("ocr", "ocr-stock", "qwen-vl", "openai")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model of the engines ``qwen-vl`` and ``openai``.

    ``model`` is a folder (or hub name) of weights for ``qwen-vl``, the server's name of the model for ``openai``; ``url`` is
    the server's address up to ``/v1``, ``key_file`` holds its key. ``adapter`` is a LoRA folder (for a server: the name under
    which it was loaded). ``max_pixels`` bounds a page (0: what the model's processor says); ``max_tokens`` an answer.
    ``temperature`` 0 takes the likeliest token; otherwise ``seed`` makes an answer repeatable. ``timeout_s`` bounds the wait
    for a server's next words, ``retries`` how often it is asked again. ``constraint`` is auto, grammar (reasoning, then JSON
    by grammar), schema (JSON alone) or none. ``device`` is auto, cpu or cuda; ``dtype`` auto, float32 or bfloat16.
    """

    model: str = ""
    url: str = ""
    key_file: str = ""
    adapter: str = ""
    max_pixels: int = 0
    max_tokens: int = 2048
    temperature: float = 0.0
    seed: int = 0
    timeout_s: float = 120.0
    retries: int = 2
    constraint: str = "auto"
    device: str = "auto"
    dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class ExtractConfig:
    """``engine`` is ``ocr`` (the embedded engine), ``ocr-stock`` (rapidocr with its default settings, for comparison),
    ``qwen-vl`` (a vision-language model in this process) or ``openai`` (one behind an OpenAI-compatible server); ``model``
    sets up these two.

    ``template_path`` are further folders of document types. ``second_reads`` bounds the tool calls that the reader may spend on a
    document after its first pass (0: none). ``release`` names the release in every document.
    """

    engine: str = "ocr"
    ocr: OcrConfig = field(default_factory=OcrConfig)
    limits: IngestLimits = field(default_factory=IngestLimits)
    template_path: tuple[str, ...] = ()
    guidance: Guidance = field(default_factory=Guidance)
    second_reads: int = 16
    release: str = "embedded"
    model: ModelConfig = field(default_factory=ModelConfig)
