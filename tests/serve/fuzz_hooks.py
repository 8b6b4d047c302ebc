"""Loaded by schemathesis. What no schema can say is supplied here: cursors that were given, certificates that exist.

A made-up cursor is refused (422), so well-formed requests go without one. Half of those that name a certificate name one of the
file FUZZ_IDS, so that they reach what lies behind the 404.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import schemathesis

KNOWN: dict[str, list[str]] = json.loads(Path(os.environ["FUZZ_IDS"]).read_text(encoding="utf-8"))
TURN = itertools.count()
NOTHING = {"batch_id": "bat_" + "0" * 32, "user_id": "usr_" + "0" * 32, "key_id": "key_" + "0" * 32}


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.query:
        case.query.pop("cursor", None)
    for name, value in (case.path_parameters or {}).items():
        if value in (None, "None"):  # followed from an answer in which there was no such id
            case.path_parameters[name] = NOTHING[name]
    for name, known in KNOWN.items():
        if name in (case.path_parameters or {}) and (turn := next(TURN)) % 2:
            case.path_parameters[name] = known[turn // 2 % len(known)]
