"""Logs as one JSON object a line, with the id of the request and without personal data.

Texts of unexpected exceptions may quote what a document says, so of a bug only its class and the places in the code are logged;
typed errors are logged with their message, which never holds a value.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from certloop.agentrl.errors import CertloopError

if TYPE_CHECKING:
    from starlette.types import Scope

REQUEST_ID: ContextVar[str] = ContextVar("certloop_request_id", default="")
QUIET = ("httpx", "httpcore", "httpx2", "httpcore2", "uvicorn.access", "sqlalchemy", "alembic", "dbos", "multipart", "PIL")
"""Libraries whose usual lines hold addresses, statements or arguments: warnings only, and those without their texts."""
OWN = ("certloop", "uvicorn")
_access = logging.getLogger("certloop.access")
_log = logging.getLogger("certloop.serve")


class JsonLines(logging.Formatter):
    """``{"at", "level", "logger", "event", "request_id"?, "error"?, ...}``; the last keys are the record's ``facts``."""

    def format(self, record: logging.LogRecord) -> str:
        own = record.name.partition(".")[0] in OWN
        row: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage() if own else f"{record.module}:{record.lineno}",
        }
        if request_id := REQUEST_ID.get():
            row["request_id"] = request_id
        row |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1] is not None:
            row["error"] = describe(record.exc_info[1])
        return json.dumps(row, separators=(",", ":"), default=str)  # in ASCII: nothing else ends a line anywhere


def describe(error: BaseException) -> dict[str, Any]:
    """What may be said of an error: class, code and message of a typed one, class and places of a bug."""
    if isinstance(error, CertloopError):
        return {"class": type(error).__name__, **error.to_json()}
    out: dict[str, Any] = {"class": f"{type(error).__module__}.{type(error).__qualname__}", "at": _places(error.__traceback__)}
    if error.__cause__ is not None:
        out["cause"] = describe(error.__cause__)
    return out


def _places(trace: TracebackType | None) -> list[str]:
    frames = traceback.extract_tb(trace)[-12:]
    return [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}:{frame.name}" for frame in frames]


def set_up(level: str = "info", stream: TextIO | None = None) -> None:
    """Every logger of the process writes JSON lines to ``stream`` (standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", *QUIET):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def log_request(scope: Scope, method: str, route: str, status: int, seconds: float) -> None:
    """One line a request: the route's template, never the path or the query."""
    known = scope.get("state", {}).get("known")
    facts: dict[str, Any] = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    if known is not None:
        facts |= {"tenant": known.actor.tenant, "actor": known.actor.actor_id}
    _access.info("request", extra={"facts": facts})


def log_bug(error: BaseException) -> None:
    _log.error("unexpected error", exc_info=error)
