"""Extraction as tasks of ``agentrl.env``, made from a seed: a synthetic page, its truth, and the paths known to be right.

The tools are those of the embedded reader (``extract.environment``); any policy may call them. The truth stays inside the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from certloop.agentrl.env import Task
from certloop.extract import ExtractConfig
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.environment import document_task
from certloop.extract.episode import open_page
from certloop.extract.reader import Reader
from certloop.synth.label import make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe
from certloop.synth.seeds import stream_seed
from certloop.templates import Registry, load_types


@dataclass(frozen=True, slots=True)
class Extraction:
    """One task and the embedded reader's policy for it. Both share the page's state: run one episode, then make the task anew."""

    task: Task
    reader: Reader


@dataclass(slots=True)
class ExtractionTasks:
    """A ``TaskGenerator``: the same seed makes the same pages. ``types`` come in turn; ``profile`` names the treatment."""

    types: Sequence[str] = ("business_licence",)
    profile: str = "photo"
    width_px: int = 1400
    config: ExtractConfig = field(default_factory=ExtractConfig)
    _engine: OcrEngine | None = None

    def __call__(self, seed: int, /) -> Iterator[Task]:
        """Tasks without end."""
        return (extraction.task for extraction in self.extractions(seed))

    def extractions(self, seed: int) -> Iterator[Extraction]:
        """As :meth:`__call__`, with the embedded reader beside each task."""
        number = 0
        while True:
            yield self.extraction(seed, number)
            number += 1

    def extraction(self, seed: int, number: int) -> Extraction:
        """Task ``number`` of a seed, fresh: its tools have seen the page once, as every episode begins."""
        if self._engine is None:
            self._engine = OcrEngine(self.config.ocr)
        search_path = tuple(self.config.template_path)
        registry: Registry = load_types(search_path)
        doc_type = registry.get(self.types[number % len(self.types)])
        recipe = Recipe(doc_type.id, stream_seed(seed, f"task {number}"), self.width_px, search_path=search_path)
        sample = make_sample(recipe, load_profile(self.profile))
        readers, _ = open_page(sample.image, self._engine, registry, self.config, doc_type=doc_type.id)
        reader = readers[0]  # a page of a known type is not split
        task = document_task(
            reader.environment,
            task_id=f"{doc_type.id}/{seed}/{number}",
            doc_type=doc_type,
            truth=sample.label["fields"],
            golden=sample.label["golden_path"],
        )
        return Extraction(task, reader)
