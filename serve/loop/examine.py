"""What a trained candidate is judged on: held-out pages read greedily by it and by the weights that serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from certloop.agentrl.release import Evidence, Origin, Pair
from certloop.agentrl.rewards import parse_answer
from certloop.train.config import ModelSpec
from certloop.train.evaluate import Evaluation, evaluate
from certloop.train.models import load_processor, load_student
from certloop.train.rows import Row, read_rows
from certloop.validators.checksums import uscc_check_character

NO_REPAIR = "check_digits_not_repaired"


@dataclass(slots=True)
class ModelExaminer:
    """``target`` and ``retained`` are folders of held-out rows: what a round is meant to improve, and what must not be lost. The
    serving weights are read once. Scores are rewards (METHODS §2), parts are exact values by label."""

    student: ModelSpec
    target: Path
    retained: Path
    origin: Origin = Origin.REAL
    max_new_tokens: int = 256
    _known: dict[str, tuple[Evaluation, Evaluation]] = field(default_factory=dict)

    def __call__(self, baseline: Path | None, candidate: Path) -> Evidence:
        """Raises AdapterBaseError, ModelLoadError for weights that cannot be read with."""
        rows = read_rows(self.target), read_rows(self.retained)
        if str(baseline) not in self._known:
            self._known = {str(baseline): self._read(baseline, rows)}
        before, after = self._known[str(baseline)], self._read(candidate, rows)
        target, retained = (self._pairs(part, old, new) for part, old, new in zip(rows, before, after, strict=True))
        every = [*rows[0], *rows[1]]
        repairs = [sum(repaired(every, [a for one in read for a in one.answers])) for read in (before, after)]
        return Evidence(target, retained, checks={NO_REPAIR: repairs[1] <= repairs[0]})

    def _read(self, weights: Path | None, rows: tuple[list[Row], list[Row]]) -> tuple[Evaluation, Evaluation]:
        model, processor = load_student(self._spec(weights), weights), load_processor(self.student)
        first, second = (evaluate(model, processor, part, max_new_tokens=self.max_new_tokens) for part in rows)
        return first, second

    def _spec(self, weights: Path | None) -> ModelSpec:
        """The base alone where nothing was trained yet: a fresh adapter on it changes nothing, but costs time."""
        return self.student if weights is not None else self.student.model_copy(update={"lora": None})

    def _pairs(self, rows: Sequence[Row], before: Evaluation, after: Evaluation) -> list[Pair]:
        return [
            Pair(
                row.id, row.layout or "all", old.reward, new.reward, self.origin,
                parts={label: (float(hit), float(new.exact[label])) for label, hit in old.exact.items()},
            )
            for row, old, new in zip(rows, before.pages, after.pages, strict=True)
        ]  # fmt: skip


def repaired(rows: Sequence[Row], answers: Sequence[str]) -> list[bool]:
    """Where a credit code is printed with a wrong check digit (GB 32100) and the answer has the right one: a repair."""
    return [_is_repair(row, answer) for row, answer in zip(rows, answers, strict=True)]


def _is_repair(row: Row, answer: str) -> bool:
    parsed = parse_answer(answer)
    said = {} if parsed is None else parsed.fields
    for label, value in (row.truth or {}).items():
        got = said.get(label)
        if value and got and len(value) == len(got) == 18 and got[:17] == value[:17] and got != value:
            return got[17] == _check(got[:17]) and value[17] != _check(value[:17])
    return False


def _check(body: str) -> str | None:
    try:
        return uscc_check_character(body)
    except (ValueError, KeyError):
        return None
