"""Cursors of lists: where the next page begins, bound to the tenant and the list they were given for.

A cursor is no secret and grants nothing: every query asks for the caller's tenant anyway. The binding makes a mix-up an error.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from certloop.serve.errors import CursorError


def write_cursor(tenant: str, listing: str, *position: str) -> str:
    """``position`` are the sort keys of the last row of this page, as they stand in the table."""
    row = json.dumps([_mark(tenant, listing), *position], separators=(",", ":"))
    return base64.urlsafe_b64encode(row.encode()).decode().rstrip("=")


def read_cursor(text: str, tenant: str, listing: str, parts: int = 1) -> tuple[str, ...]:
    """The ``parts`` sort keys. Raises CursorError for a cursor of another tenant, another list, or none."""
    try:
        row = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        row = None
    if not isinstance(row, list) or len(row) != parts + 1 or row[0] != _mark(tenant, listing):
        raise CursorError("this cursor was not given for this list; begin without one")
    if not all(isinstance(part, str) and "\x00" not in part for part in row[1:]):
        raise CursorError("this cursor was changed; begin without one")
    return tuple(row[1:])


def _mark(tenant: str, listing: str) -> str:
    return hashlib.sha256(f"{tenant}\x00{listing}".encode()).hexdigest()[:16]
