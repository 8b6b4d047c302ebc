"""The true values of a set of files: ``labels.jsonl``, one line a file.

Keys of a line: ``file`` (inside the folder of the files, so without ``..``), ``doc_type`` (Chinese title or template id),
``fields`` (label -> printed value; null = printed but masked, blank or illegible), ``uncertain`` (labels left out of scoring),
``absent_fields`` (this form does not have them), and ``documents`` (several certificates in one file: a list of the same keys;
those of the line itself are then ignored). A field that is not in ``fields`` was not transcribed and is not scored. Other keys
are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from certloop.extract.evaluation.errors import LabelsError
from certloop.extract.evaluation.jsonlines import read_objects


@dataclass(frozen=True, slots=True)
class LabelDocument:
    """The truth about one certificate. Labels stand as in the file, not yet canonical."""

    doc_type: str
    fields: Mapping[str, str | None]
    uncertain: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelRow:
    """The truth about one file: one or more certificates."""

    file: str
    documents: tuple[LabelDocument, ...]


def read_labels(path: Path | str) -> tuple[LabelRow, ...]:
    """Read a labels file. Raises LabelsError (code labels_invalid) naming the line that is wrong."""
    rows: dict[str, LabelRow] = {}
    for where, data in read_objects(path, LabelsError):
        file = _file(where, data)
        if file in rows:
            raise LabelsError(f"{where}: the file is labelled twice; keep one line a file")
        several = data.get("documents") or []
        if not isinstance(several, list) or not all(isinstance(d, dict) for d in several):
            raise LabelsError(f"{where}: 'documents' must be a list of objects")
        rows[file] = LabelRow(file, tuple(_document(where, d) for d in several or [data]))
    if not rows:
        raise LabelsError(f"{path}: holds no label; write one JSON object a line")
    return tuple(rows.values())


def _document(where: str, data: Mapping[str, Any]) -> LabelDocument:
    fields = data.get("fields")
    if not isinstance(fields, dict) or not all(v is None or isinstance(v, str) for v in fields.values()):
        raise LabelsError(f"{where}: 'fields' must map labels to text or null")
    uncertain, absent = _names(where, data, "uncertain"), _names(where, data, "absent_fields")
    return LabelDocument(_text(where, data, "doc_type"), dict(fields), frozenset(uncertain), tuple(absent))


def _file(where: str, data: Mapping[str, Any]) -> str:
    """A name inside the folder: a label that came from elsewhere must not lead to other files of this machine."""
    file = _text(where, data, "file")
    leaves = PurePosixPath(file).is_absolute() or PureWindowsPath(file).anchor or ".." in PureWindowsPath(file).parts
    if leaves or not file.isprintable():
        raise LabelsError(f"{where}: 'file' must name a file inside the folder, without '..' and control characters")
    return file


def _text(where: str, data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        raise LabelsError(f"{where}: {key!r} must be a text that is not empty")
    return value


def _names(where: str, data: Mapping[str, Any], key: str) -> list[str]:
    value = data.get(key) or []
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise LabelsError(f"{where}: {key!r} must be a list of labels")
    return value
