"""The evaluation itself: one function from results and labels to a report.

Its counts are those of the development pack's scorer: strict exact matches, inventions, unknown types. On top of them come the
soft F1 of the reward, confidences and a guess at each error's cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from certloop.agentrl.rewards import f1_power, match_fields, text_similarity
from certloop.extract.evaluation.align import Answers, answers_of, documents_for, pair_files
from certloop.extract.evaluation.calibration import ConfidenceSample, expected_calibration_error, reliability_table
from certloop.extract.evaluation.causes import Cause, guess_cause
from certloop.extract.evaluation.labels import LabelDocument, LabelRow
from certloop.extract.evaluation.normalise import comparable, same_value
from certloop.extract.evaluation.report import (
    AnswerCounts,
    Count,
    DocumentCounts,
    DocumentScore,
    FieldError,
    FieldScores,
    FileCounts,
    Report,
    Scores,
    mean,
)
from certloop.extract.evaluation.schema import Schema, TypeSchema
from certloop.extract.result import Document, FieldResult, FileStatus, Result

UNKNOWN = "unknown"
MODEL_STEP = "ask_model"
CODE_KINDS = frozenset({"uscc", "regno15"})
DEVPACK_SKIP = frozenset({"证照名称", "标题", "经营方式", "网络经营", "账户性质"})
"""What the development pack's scorer leaves out. The default, so that both give the same counts; pass ``skip=()`` for all."""


def evaluate(
    results: Iterable[Result], labels: Sequence[LabelRow], schema: Schema, *, skip: Collection[str] = DEVPACK_SKIP
) -> Report:
    """Compare results with labels (see the modules ``labels``, ``normalise``, ``align`` for the rules).

    A label without a result counts as nothing read. Raises EvaluationError when files cannot be told apart.
    """
    pairs, unlabelled = pair_files(results, labels)
    tally = _Tally()
    for row, result in pairs:
        _score_file(tally, row, result, schema, frozenset(skip))
    present = [result for _, result in pairs if result is not None]
    tally.answers = answer_counts(document for result in present for document in result.documents)
    tally.files = FileCounts(
        labelled=len(pairs),
        missing=len(pairs) - len(present),
        failed=sum(r.status is FileStatus.FAILED for r in present),
        unlabelled=unlabelled,
    )
    return _report(tally)


@dataclass(slots=True)
class _Answer:
    """One scored field of one document: the truth (None: nothing can be read there), the answer and whether it is right."""

    label: str
    expected: str | None
    got: FieldResult | None
    correct: bool
    is_code: bool


@dataclass(slots=True)
class _Scored:
    file: str
    index: int
    doc_type: str
    given_type: str
    answers: list[_Answer]
    greedy_f1: float
    hungarian_f1: float
    reward: float


@dataclass(slots=True)
class _Tally:
    scored: list[_Scored] = field(default_factory=list)
    unknown: Count = field(default_factory=Count)
    skipped: Counter[str] = field(default_factory=Counter)
    files: FileCounts = field(default_factory=FileCounts)
    documents: DocumentCounts = field(default_factory=DocumentCounts)
    answers: AnswerCounts = field(default_factory=AnswerCounts)


def answer_counts(documents: Iterable[Document]) -> AnswerCounts:
    """What a model's answers were like, from the steps that asked it (results read from JSON Lines have none)."""
    results = [step["result"] for document in documents for step in document.steps if step.get("tool") == MODEL_STEP]
    marks = Counter(mark for result in results for mark in result["marks"])
    asked = len(results)
    return AnswerCounts(
        asked,
        Count(sum(result["outcome"] == "clean" for result in results), asked),
        Count(sum(not result["marks"] and result["finish"] == "stop" for result in results), asked),
        dict(marks.most_common()),
        sum(int(result["tokens"]) for result in results),
    )


def _score_file(tally: _Tally, row: LabelRow, result: Result | None, schema: Schema, skip: frozenset[str]) -> None:
    found = result.documents if result is not None else ()
    counts, expected = tally.documents, len(row.documents)
    tally.documents = DocumentCounts(
        counts.expected + expected, counts.found + len(found), counts.files + Count(int(len(found) == expected), 1)
    )
    for index, (truth, documents) in enumerate(zip(row.documents, documents_for(row, result, schema), strict=True)):
        type_schema = schema.find(truth.doc_type)
        if type_schema is None:
            silent = result is not None and all(schema.find(d.doc_type) is None for d in found)
            tally.unknown += Count(int(silent), 1)
            continue
        given = answers_of(documents, type_schema, schema, alone=expected == 1)
        answers = list(_answers(tally, truth, given, type_schema, skip))
        truths, predicted = _field_maps(answers, truth, given, type_schema, skip)
        greedy = match_fields(truths, predicted).f1
        read = result is not None and result.status is not FileStatus.FAILED
        tally.scored.append(
            _Scored(
                file=row.file,
                index=index,
                doc_type=type_schema.id,
                given_type=_given_type(documents, schema, type_schema),
                answers=answers,
                greedy_f1=greedy,
                hungarian_f1=match_fields(truths, predicted, method="hungarian").f1,
                reward=f1_power(min(greedy, 1.0)) if read else 0.0,
            )
        )


def _answers(
    tally: _Tally, truth: LabelDocument, given: Answers, type_schema: TypeSchema, skip: frozenset[str]
) -> Iterator[_Answer]:
    uncertain = {type_schema.canonical(label) for label in truth.uncertain}
    for key, expected in truth.fields.items():
        label = type_schema.canonical(key)
        if label in uncertain:
            continue
        if key in skip or not type_schema.has(key):
            tally.skipped[key] += 1
            continue
        got, kind = given.get(label), type_schema.kinds.get(label)
        value = None if got is None else got.value
        correct = got is None if expected is None else same_value(label, expected, value, kind=kind)
        yield _Answer(label, expected, got, correct, kind in CODE_KINDS)
    for key in truth.absent:
        label = type_schema.canonical(key)
        yield _Answer(label, None, given.get(label), label not in given, False)


def _field_maps(
    answers: Sequence[_Answer], truth: LabelDocument, given: Answers, type_schema: TypeSchema, skip: frozenset[str]
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """What the soft F1 compares. A right value counts as equal however it is printed; of the given fields those count that the
    label row speaks of, and those that are no field of the true type at all (a field that was not transcribed is left out)."""
    truths: dict[str, str | None] = {}
    predicted: dict[str, str | None] = {}
    absent = {type_schema.canonical(label) for label in truth.absent}
    for answer in answers:
        if answer.label in truths or answer.label in predicted:
            continue
        expected = None if answer.expected is None else comparable(answer.expected) or answer.expected
        if answer.label not in absent:
            truths[answer.label] = expected
        if answer.got is not None and answer.got.value is not None:
            value = comparable(answer.got.value) or answer.got.value
            predicted[answer.label] = expected if answer.correct else value
    mentioned = {type_schema.canonical(label) for label in (*truth.fields, *truth.absent, *truth.uncertain)} | skip
    for label, got in given.items():
        if label not in mentioned and not type_schema.has(label):
            predicted[label] = got.value
    return truths, predicted


def _given_type(documents: Sequence[Document], schema: Schema, truth: TypeSchema) -> str:
    """The type that was answered: the true one if any document bears it, else that of the first."""
    named = [t.id if t else UNKNOWN for t in (schema.find(d.doc_type) for d in documents)]
    return truth.id if truth.id in named else named[0] if named else "nothing found"


def _report(tally: _Tally) -> Report:
    flat = [(document, answer) for document in tally.scored for answer in document.answers]
    errors = [_error(document, answer) for document, answer in flat if not answer.correct]
    samples = tuple(
        ConfidenceSample(document.doc_type, answer.label, answer.got.confidence, answer.correct)
        for document, answer in flat
        if answer.got is not None
    )
    reliability = reliability_table(samples)
    types = sorted({document.doc_type for document in tally.scored})
    return Report(
        overall=_scores(tally.scored),
        codes=_strict([a for _, a in flat if a.is_code]),
        unknown=tally.unknown,
        types=Count(sum(d.given_type == d.doc_type for d in tally.scored), len(tally.scored)),
        files=tally.files,
        documents=tally.documents,
        by_type={t: _scores([d for d in tally.scored if d.doc_type == t]) for t in types},
        by_field=_by_field(flat, errors),
        confusion=dict(sorted(Counter((d.doc_type, d.given_type) for d in tally.scored).items())),
        causes=_causes(errors),
        reliability=reliability,
        ece=expected_calibration_error(reliability),
        errors=tuple(sorted(errors, key=_severity)),
        skipped=dict(tally.skipped.most_common()),
        samples=samples,
        scored=tuple(_document_score(d) for d in tally.scored),
        answers=tally.answers,
    )


def _document_score(document: _Scored) -> DocumentScore:
    strict = _strict(document.answers)
    return DocumentScore(document.file, document.index, document.doc_type, strict, document.greedy_f1, document.reward)


def _error(document: _Scored, answer: _Answer) -> FieldError:
    got = answer.got
    value = None if got is None else got.value
    alike = 0.0 if answer.expected is None or value is None else text_similarity(comparable(answer.expected), comparable(value))
    return FieldError(
        file=document.file,
        document=document.index,
        doc_type=document.doc_type,
        field=answer.label,
        expected=answer.expected,
        got=value,
        cause=guess_cause(answer.expected, value, right_type=document.given_type == document.doc_type),
        similarity=alike,
        confidence=None if got is None else got.confidence,
        box=None if got is None else got.box,
        page=None if got is None else got.page,
    )


def _severity(error: FieldError) -> tuple[int, float, float, str, int, str]:
    """Worst first: inventions, then wrong values by confidence (what nobody would have looked at), then what was missed."""
    rank = {Cause.INVENTED: 0, Cause.MISSED: 2, Cause.WRONG_TYPE: 2}.get(error.cause, 1)
    return rank, -(error.confidence or 0.0), error.similarity, error.file, error.document, error.field


def _scores(documents: Sequence[_Scored]) -> Scores:
    answers = [answer for document in documents for answer in document.answers]
    return Scores(
        strict=_strict(answers),
        invented=_invented(answers),
        documents=len(documents),
        greedy_f1=mean([d.greedy_f1 for d in documents]),
        hungarian_f1=mean([d.hungarian_f1 for d in documents]),
        reward=mean([d.reward for d in documents]),
    )


def _by_field(flat: Sequence[tuple[_Scored, _Answer]], errors: Sequence[FieldError]) -> dict[str, FieldScores]:
    groups: dict[str, list[_Answer]] = {}
    for _, answer in flat:
        groups.setdefault(answer.label, []).append(answer)
    table = {
        label: FieldScores(_strict(answers), _invented(answers), _causes([e for e in errors if e.field == label]))
        for label, answers in groups.items()
    }
    return dict(sorted(table.items(), key=lambda item: (-item[1].strict.n, item[0])))


def _strict(answers: Sequence[_Answer]) -> Count:
    printed = [a.correct for a in answers if a.expected is not None]
    return Count(sum(printed), len(printed))


def _invented(answers: Sequence[_Answer]) -> Count:
    unreadable = [a.correct for a in answers if a.expected is None]
    return Count(len(unreadable) - sum(unreadable), len(unreadable))


def _causes(errors: Sequence[FieldError]) -> dict[Cause, int]:
    counted = Counter(error.cause for error in errors)
    return {cause: counted[cause] for cause in Cause if counted[cause]}
