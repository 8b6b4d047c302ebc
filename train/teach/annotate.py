"""Annotation: a teacher writes reasoning for labelled pages, and only what agrees with the label is kept.

Pages are asked in two alternating modes, several at a time. A wrong answer is asked for again with another seed, then dropped; a
teacher that is down costs only the pages it was asked about, until it fails many times in a row. Everything is in an append-only
journal: the same command again goes on where the last one stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from certloop.extract.engine.chat_client import ChatClient, Completion, Endpoint
from certloop.extract.engine.errors import ModelError
from certloop.extract.engine.openai import data_url, read_key
from certloop.extract.engine.prompt import prompt_version
from certloop.extract.engine.view import View, ViewError
from certloop.extract.ingest import IngestError
from certloop.train.errors import TeacherError, TrainConfigError
from certloop.train.teach.check import judge
from certloop.train.teach.helpers import MODES, helpers, teacher_messages
from certloop.train.teach.journal import DROPPED, FAILED, KEPT, Annotation, Journal, Tally, read_annotations
from certloop.train.teach.pages import LabelledPage
from certloop.train.teach.scripted import NAME, Style, scripted_answer

JOURNAL, RECORD = "annotations.jsonl", "teach.json"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TeachConfig:
    """How a teacher is asked.

    ``model`` is the server's name of it, ``url`` its address up to ``/v1``, ``key_file`` its key. ``concurrency`` pages are
    asked at a time, each at most ``attempts`` times. ``min_quoted`` is the share of short values that the reasoning must
    name. ``give_up`` failures in a row end the run (what is done is kept). Prices are for a million tokens; once a run has
    cost ``budget`` (0: no bound) no further page is asked, and those under way still come in and count.
    """

    model: str
    url: str = ""
    key_file: str = ""
    concurrency: int = 8
    attempts: int = 3
    temperature: float = 0.7
    max_tokens: int = 2048
    seed: int = 0
    timeout_s: float = 300.0
    retries: int = 4
    min_quoted: float = 0.5
    max_chars: int = 4000
    give_up: int = 20
    price_prompt: float = 0.0
    price_completion: float = 0.0
    budget: float = 0.0
    view: View = field(default_factory=View)

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.attempts < 1 or self.give_up < 1:
            raise TrainConfigError("concurrency, attempts and give_up must be at least 1")

    def fingerprint(self) -> str:
        """What makes annotations of one kind: teacher, prompts, checks; not how fast or how dear it is asked."""
        known = helpers()
        kept = ("model", "temperature", "max_tokens", "seed", "min_quoted", "max_chars")
        parts = [{name: getattr(self, name) for name in kept}, asdict(self.view), known.helper, dict(known.triggers)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class Teacher(Protocol):
    """Whoever answers. ``ask`` may be called from several threads. Raises ModelError."""

    name: str

    def ask(self, page: LabelledPage, mode: str, attempt: int, image_url: str) -> Completion: ...


class ServerTeacher:
    """A model behind an OpenAI-compatible server."""

    def __init__(self, config: TeachConfig) -> None:
        self.name, self._config = config.model, config
        self._client = ChatClient(Endpoint(config.url, read_key(config.key_file), config.timeout_s, config.retries))

    def ask(self, page: LabelledPage, mode: str, attempt: int, image_url: str) -> Completion:
        config = self._config
        return self._client.complete(
            {
                "model": config.model,
                "messages": list(teacher_messages(page.doc_type.prompt, page.fields, mode, image_url)),
                "temperature": config.temperature,
                "max_tokens": config.max_tokens,
                "seed": config.seed + attempt,
            }
        )


class ScriptedTeacher:
    """The scripted teacher in this process."""

    name = NAME

    def __init__(self, style: Style = "full") -> None:
        self._style = style

    def ask(self, page: LabelledPage, mode: str, attempt: int, image_url: str) -> Completion:
        return Completion(scripted_answer(page, mode, self._style), "stop", NAME)


def annotate(
    config: TeachConfig,
    pages: Sequence[LabelledPage],
    out: Path,
    *,
    teacher: Teacher | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Annotate pages into ``out/annotations.jsonl`` and return what became of them.

    Raises TrainConfigError when ``out`` holds annotations of another teacher or configuration, TeacherError when the teacher
    failed ``give_up`` times in a row or the budget is spent; what was done until then is kept.
    """
    asked = teacher or ServerTeacher(config)
    _claim(config, asked.name, out)
    known = read_annotations(out / JOURNAL)
    done = {page.id for page in pages if page.id in known and known[page.id].status != FAILED}
    tally = Tally(pages=len(pages), resumed=len(done))
    for page_id in done:
        _count(tally, known[page_id], config)
    run = _Run(config, asked, tally)
    with Journal(out / JOURNAL) as journal:
        for annotation in run.over([(page, mode) for page, mode in with_modes(pages) if page.id not in done]):
            journal.add(annotation)
            _count(tally, annotation, config)
            if progress is not None:
                progress(tally.kept + tally.dropped + tally.failed, len(pages))
            run.bounds_kept(annotation)
    if run.spent:
        so_far = f"{tally.kept} of {tally.pages} pages kept, cost {tally.cost:.2f}"
        raise TeacherError(f"the budget of {config.budget:g} is spent ({so_far}); a larger one goes on from here")
    return tally


def with_modes(pages: Sequence[LabelledPage]) -> list[tuple[LabelledPage, str]]:
    """Pages with their modes: alternating within each form, so that no layout is seen in one mode only."""
    next_mode: dict[tuple[str, str], int] = {}
    out = []
    for page in pages:
        form = (page.doc_type.id, page.layout)
        turn = next_mode.setdefault(form, len(next_mode))  # forms begin in turns, so that small sets are balanced, too
        out.append((page, MODES[turn % len(MODES)]))
        next_mode[form] = turn + 1
    return out


class _Run:
    def __init__(self, config: TeachConfig, teacher: Teacher, tally: Tally) -> None:
        self._config, self._teacher, self._tally = config, teacher, tally
        self._failures = 0
        self.spent = False

    def over(self, todo: Sequence[tuple[LabelledPage, str]]) -> Iterator[Annotation]:
        """Annotations as they come, ``concurrency`` pages at a time. Pictures are decoded here, one after the other."""
        from certloop.extract.ingest import Decoder

        decoder = Decoder()
        waiting: set[Future[Annotation]] = set()
        pool = ThreadPoolExecutor(self._config.concurrency)
        try:
            for page, mode in todo:
                while len(waiting) >= self._config.concurrency:
                    ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in ready)
                if self.spent:
                    break
                try:
                    url = data_url(page.view(decoder, self._config.view))
                except (IngestError, ViewError) as error:
                    yield self._entry(page, mode, FAILED, 0, (error.code,), Counter())
                    continue
                waiting.add(pool.submit(self._annotate, page, mode, url))
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in ready)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            decoder.close()

    def bounds_kept(self, annotation: Annotation) -> None:
        """Raises TeacherError after too many failures in a row; notes when the budget is spent."""
        if annotation.attempts:  # else its picture was at fault
            self._failures = self._failures + 1 if annotation.status == FAILED else 0
        if self._failures >= self._config.give_up:
            why = annotation.reasons[-1] if annotation.reasons else "model_error"
            raise TeacherError(f"the teacher failed {self._failures} times in a row ({why}); run again when it is back")
        self.spent = 0 < self._config.budget <= self._tally.cost

    def _annotate(self, page: LabelledPage, mode: str, url: str) -> Annotation:
        config = self._config
        tokens: Counter[str] = Counter()
        reasons: tuple[str, ...] = ()
        for attempt in range(config.attempts):
            try:
                found = self._teacher.ask(page, mode, attempt, url)
            except ModelError as error:
                return self._entry(page, mode, FAILED, attempt + 1, (error.code,), tokens)
            tokens.update({key: count for key, count in found.usage.items() if key in ("prompt_tokens", "completion_tokens")})
            judged = judge(found.text, page, min_quoted=config.min_quoted, max_chars=config.max_chars)
            reasons = judged.reasons if found.finish == "stop" or not judged.kept else (f"finish:{found.finish}",)
            if not reasons:
                return self._entry(page, mode, KEPT, attempt + 1, (), tokens, judged.reasoning, judged.quoted)
        return self._entry(page, mode, DROPPED, config.attempts, reasons, tokens)

    def _entry(
        self,
        page: LabelledPage,
        mode: str,
        status: str,
        attempts: int,
        reasons: tuple[str, ...],
        tokens: Counter[str],
        reasoning: str = "",
        quoted: float = 0.0,
    ) -> Annotation:
        spent = tokens["prompt_tokens"], tokens["completion_tokens"]
        return Annotation(page.id, mode, status, self._teacher.name, reasoning, attempts, reasons, round(quoted, 4), *spent)


def _count(tally: Tally, annotation: Annotation, config: TeachConfig) -> None:
    tally.kept += annotation.status == KEPT
    tally.dropped += annotation.status == DROPPED
    tally.failed += annotation.status == FAILED
    tally.retries += max(0, annotation.attempts - 1)
    tally.prompt_tokens += annotation.prompt_tokens
    tally.completion_tokens += annotation.completion_tokens
    tally.cost = (tally.prompt_tokens * config.price_prompt + tally.completion_tokens * config.price_completion) / 1e6
    if annotation.status == KEPT:
        tally.modes[annotation.mode] = tally.modes.get(annotation.mode, 0) + 1
    for reason in annotation.reasons:
        tally.reasons[reason] = tally.reasons.get(reason, 0) + 1


def _claim(config: TeachConfig, teacher: str, out: Path) -> None:
    """The folder belongs to one teacher and one way of asking it."""
    record = {"teacher": teacher, "fingerprint": config.fingerprint(), "helper": prompt_version(helpers().helper)}
    path = out / RECORD
    try:
        if path.exists():
            if json.loads(path.read_text(encoding="utf-8")) != record:
                raise TrainConfigError(f"{out.name} holds annotations of another teacher or configuration; choose another folder")
            return
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, TrainConfigError):
            raise
        raise TrainConfigError(f"{out.name} cannot be used for annotations: {type(error).__name__}") from None
