"""How parent and child talk over two pipes: a JSON header, then raw bytes. Nothing is pickled: no side runs the other's data.

A message is ``>II`` (length of the header, length of the payload), the header in UTF-8 JSON, the payload.

    parent -> child   {"format", "limits"}                 payload: the file
    child -> parent   {"kind": "ready"}
                      {"kind": "page", ...RawPage fields}  payload: RGB bytes
                      {"kind": "done", "warnings"}
                      {"kind": "error", "code", "message"}
"""

from __future__ import annotations

import json
import struct
from typing import Any

LENGTHS = struct.Struct(">II")
MAX_HEADER_BYTES = 8 << 20


def message_head(header: dict[str, Any], payload_bytes: int = 0) -> bytes:
    """Everything of a message before its payload."""
    body = json.dumps(header, ensure_ascii=False).encode("utf-8", "replace")
    return LENGTHS.pack(len(body), payload_bytes) + body


def parse_header(body: bytes | bytearray) -> dict[str, Any]:
    """Raises ValueError when the body is not a JSON object."""
    header = json.loads(body)
    if not isinstance(header, dict):
        raise ValueError("a message header is a JSON object")
    return header
