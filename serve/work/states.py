"""The life of an upload: queued -> running -> done | failed | dead, or cancelled on the way."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    """Read, at least in part."""
    FAILED = "failed"
    """The file is at fault: a typed error that another try would give again."""
    DEAD = "dead"
    """Tried as often as allowed; a person can have it tried again."""
    CANCELLED = "cancelled"


OPEN = (Status.QUEUED, Status.RUNNING)
ENDED = (Status.DONE, Status.FAILED, Status.DEAD, Status.CANCELLED)
