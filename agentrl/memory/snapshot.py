"""A memory snapshot: the rules of a release, frozen as one file whose hash the release names. Only the gate makes a new one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from certloop.agentrl.memory.errors import RuleError
from certloop.agentrl.memory.schema import Item

FILE = "memory.json"


def write_snapshot(folder: Path, items: Iterable[Item], before: Iterable[Mapping[str, Any]] = ()) -> Path:
    """Write the rules of the snapshot ``before`` and then ``items`` (equal rules once) into an artefact folder.

    Evidence and authors stay behind: a snapshot may leave its tenant, and they may not.
    """
    rules: dict[str, dict[str, Any]] = {}
    for rule in (*before, *({"kind": i.kind, "key": i.key, "body": dict(i.body)} for i in items)):
        rules[json.dumps(rule, ensure_ascii=False, sort_keys=True)] = dict(rule)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(json.dumps(list(rules.values()), ensure_ascii=False, sort_keys=True, indent=1), "utf-8")
    return path


def read_snapshot(folder: Path) -> tuple[dict[str, Any], ...]:
    """The rules of a snapshot: ``{kind, key, body}`` each. Raises RuleError."""
    try:
        rules = json.loads((folder / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        raise RuleError("a memory snapshot is a folder with memory.json") from None
    if not isinstance(rules, list) or not all(isinstance(r, dict) and set(r) == {"kind", "key", "body"} for r in rules):
        raise RuleError("memory.json holds a list of rules with kind, key and body")
    return tuple(rules)
