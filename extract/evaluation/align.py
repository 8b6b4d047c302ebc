"""Which result answers which label, and which found document answers which true one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from certloop.agentrl.rewards import fold, optimal_assignment
from certloop.extract.evaluation.errors import EvaluationError
from certloop.extract.evaluation.labels import LabelDocument, LabelRow
from certloop.extract.evaluation.normalise import same_value
from certloop.extract.evaluation.schema import Schema, TypeSchema
from certloop.extract.result import Document, FieldResult, Result

Answers = Mapping[str, FieldResult]


def pair_files(results: Iterable[Result], labels: Sequence[LabelRow]) -> tuple[list[tuple[LabelRow, Result | None]], int]:
    """Return each label row with its result (None: none was given) and how many results have no label.

    A result belongs to a label when their paths are equal or one ends with the other, whole parts only. Raises EvaluationError
    when two results would answer one label.
    """
    by_name: dict[str, list[Result]] = {}
    for result in results:
        by_name.setdefault(_parts(result.file)[-1], []).append(result)
    pairs: list[tuple[LabelRow, Result | None]] = []
    used: set[int] = set()
    for row in labels:
        same_name = by_name.get(_parts(row.file)[-1], [])
        hits = [r for r in same_name if r.file == row.file] or [r for r in same_name if _one_ends_with_other(r.file, row.file)]
        if len(hits) > 1 or any(id(hit) in used for hit in hits):
            raise EvaluationError(
                f"label {row.file!r} fits several results, or one result several labels; name files by full path"
            )
        used.update(id(hit) for hit in hits)
        pairs.append((row, hits[0] if hits else None))
    return pairs, sum(len(group) for group in by_name.values()) - len(used)


def documents_for(row: LabelRow, result: Result | None, schema: Schema) -> list[tuple[Document, ...]]:
    """Return for each true document the found documents whose fields answer it.

    One truth is answered by all that was found in the file, and one found document answers every truth of it (a page that was not
    split is counted in documents found, not once more in every field). Several of both are assigned so that most is right.
    """
    found = result.documents if result is not None else ()
    if len(row.documents) == 1 or len(found) <= 1:
        return [tuple(found) for _ in row.documents]
    weights = [[_affinity(t, schema, d) - 1e-6 * abs(i - j) for j, d in enumerate(found)] for i, t in enumerate(row.documents)]
    chosen = dict(optimal_assignment(weights))
    return [(found[chosen[i]],) if i in chosen else () for i in range(len(row.documents))]


def answers_of(documents: Iterable[Document], truth: TypeSchema, schema: Schema, *, alone: bool) -> Answers:
    """Return the fields with a value by the canonical label of the true type; of two with one label the first counts.

    Where the file holds other certificates (not ``alone``) the aliases of the true type are not tried on a document of another
    type: the 社会信用代码 of a food permit is no 统一社会信用代码 of the licence beside it.
    """
    answers: dict[str, FieldResult] = {}
    for document in documents:
        found = schema.find(document.doc_type)
        related = alone or found is None or found.id == truth.id
        for field_id, field in document.fields.items():
            if field.value not in (None, ""):
                label = field.label or field_id
                answers.setdefault(truth.canonical(label) if related else fold(label), field)
    return answers


def _affinity(truth: LabelDocument, schema: Schema, found: Document) -> float:
    type_schema = schema.find(truth.doc_type)
    found_type = schema.find(found.doc_type)
    if type_schema is None:
        return 0.5 if found_type is None else 0.0
    answers = answers_of((found,), type_schema, schema, alone=False)
    right = 0
    for label, expected in truth.fields.items():
        answer = answers.get(type_schema.canonical(label))
        right += expected is not None and answer is not None and same_value(label, expected, answer.value)
    return right + (0.5 if found_type is not None and found_type.id == type_schema.id else 0.0)


def _parts(file: str) -> tuple[str, ...]:
    return PurePosixPath(file.replace("\\", "/")).parts or ("",)


def _one_ends_with_other(a: str, b: str) -> bool:
    x, y = _parts(a), _parts(b)
    n = min(len(x), len(y))
    return x[-n:] == y[-n:]
