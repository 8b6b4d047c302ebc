"""From a configuration to an engine. A model's packages are imported only where a model is asked for."""

from __future__ import annotations

from certloop.extract.config import ExtractConfig
from certloop.extract.engine.contract import AnswerModel, Engine
from certloop.extract.engine.embedded import OcrReader
from certloop.extract.engine.model_reader import ModelReader
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.engine.stock import StockOcrEngine
from certloop.templates import Registry


def open_engine(config: ExtractConfig, registry: Registry) -> Engine:
    """The engine that ``config`` names. Raises ModelError where its model cannot be had."""
    if config.engine in ("ocr", "ocr-stock"):
        ocr = (StockOcrEngine if config.engine == "ocr-stock" else OcrEngine)(config.ocr)
        return OcrReader(ocr, registry, config)
    return ModelReader(open_model(config), OcrEngine(config.ocr), registry, config)


def open_model(config: ExtractConfig) -> AnswerModel:
    """The model of ``qwen-vl`` or ``openai``."""
    if config.engine == "openai":
        from certloop.extract.engine.openai import OpenAiModel

        return OpenAiModel(config.model)
    from certloop.extract.engine.qwen_vl import QwenVlModel

    return QwenVlModel(config.model)
