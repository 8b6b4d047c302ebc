"""What a release is, and the tables it stands in. Records and log rows are only ever added: triggers enforce it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, Table, Text

from certloop.agentrl.release.errors import ReleaseError

SHARED = "*"
"""The scope of releases that every tenant meets who has none of its own."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

metadata = MetaData()

records = Table(
    "release_records",
    metadata,
    Column("release_id", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("body_sha256", Text, nullable=False),
    Column("created_at", Text, nullable=False),
)

log = Table(
    "release_log",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("move", Text, nullable=False),
    Column("release_id", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

pointers = Table(
    "release_pointers",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
"""The fold of a scope's log, kept so that a router reads one row. ``Registry.verify`` folds the log again and compares."""


@dataclass(frozen=True, slots=True)
class Release:
    """Everything that decides how documents are answered. Immutable: what changes gets a new id.

    ``engine`` names the kind of reader and ``base_model`` the weights under the adapter (empty for an engine that has none).
    ``artefacts`` maps what must be loaded (``adapter``, ``guidance``, ``calibration``) to the SHA-256 of its files
    (``ArtefactStore``). ``data_manifest_sha256`` says what it learned from and ``gate_report_sha256`` how it was judged; both are
    empty for the first release, which learned nothing.
    """

    release_id: str
    engine: str
    base_model: str = ""
    artefacts: Mapping[str, str] = field(default_factory=dict)
    prompt_version: str = ""
    harness_version: str = ""
    memory_snapshot: str = ""
    data_manifest_sha256: str = ""
    gate_report_sha256: str = ""
    parent: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.release_id):
            raise ReleaseError("a release's id is a short name of letters, digits, dots, dashes and underscores")
        if not self.engine:
            raise ReleaseError("a release names its engine")
        hashes = [*self.artefacts.values(), *(h for h in (self.data_manifest_sha256, self.gate_report_sha256) if h)]
        if not all(_SHA256.fullmatch(value) for value in hashes):
            raise ReleaseError(f"release {self.release_id}: hashes are SHA-256, 64 lower-case hexadecimal digits")
        if not all(_NAME.fullmatch(name) for name in self.artefacts):
            raise ReleaseError(f"release {self.release_id}: an artefact's name is a short word")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"artefacts": dict(self.artefacts)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Release:
        """Raises ReleaseError for a body with other keys or values."""
        known = {f.name for f in fields(cls)}
        texts = {k: v for k, v in body.items() if k != "artefacts"}
        artefacts = body.get("artefacts", {})
        if not set(body) <= known or not isinstance(artefacts, dict) or not all(isinstance(v, str) for v in texts.values()):
            raise ReleaseError("a release's record has other keys or values than this version writes")
        try:
            return cls(artefacts={str(k): str(v) for k, v in artefacts.items()}, **texts)
        except TypeError:
            raise ReleaseError("a release's record lacks its id or its engine") from None


def canonical(value: Any) -> str:
    """JSON in one spelling, so that equal things have equal hashes."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
