"""Shapes that several routers share: ids, pages of lists, and what bodies refuse."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Strict, StringConstraints

from certloop.serve.context import Service

PLAIN = r"^[^\x00-\x1f\x7f]*$"
"""Text without control characters: it ends up in tables and on screens."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=PLAIN)]
KeyId = Annotated[str, Path(pattern=r"^key_[0-9a-f]{32}$", examples=["key_18c0f3a2b4d5e6f708192a3b4c5d6e7f"])]
UserId = Annotated[str, Path(pattern=r"^usr_[0-9a-f]{32}$", examples=["usr_18c0f3a2b4d5e6f708192a3b4c5d6e7f"])]
WebhookId = Annotated[str, Path(pattern=r"^whk_[0-9a-f]{32}$", examples=["whk_18c0f3a2b4d5e6f708192a3b4c5d6e7f"])]
DeliveryId = Annotated[str, Path(pattern=r"^dlv_[0-9a-f]{32}$", examples=["dlv_18c0f3a2b4d5e6f708192a3b4c5d6e7f"])]
Number = Annotated[float, Strict()]
Bool = Annotated[bool, Strict()]
Limit = Annotated[int, Query(ge=1, le=200, description="rows of one page")]
Cursor = Annotated[
    str | None, Query(min_length=1, max_length=500, pattern=r"^[A-Za-z0-9_-]+$", description="`next_cursor` of the page before")
]


class Body(BaseModel):
    """A request body: unknown keys are an error, so that a misspelt one is not silently ignored. Its numbers and booleans are
    ``Number`` and ``Bool``, which take nothing for something else ("yes" for true, true for 1)."""

    model_config = ConfigDict(extra="forbid")


def open_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Open = Annotated[Service, Depends(open_service)]
"""The open service, as a parameter of a route."""
