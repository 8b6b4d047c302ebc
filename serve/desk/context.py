"""What every tab is built with: the open service, the language of the page, and who sends an event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from starlette.requests import Request

from certloop.serve.api.security import known_at_desk
from certloop.serve.errors import UnauthenticatedError

if TYPE_CHECKING:
    import gradio
    from fastapi import FastAPI

    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor


class Language(StrEnum):
    ZH = "zh"
    EN = "en"


@dataclass(frozen=True, slots=True)
class Desk:
    """One page of the desk in one language. A tab is ``TITLE`` (Chinese, English) and ``build(desk)``, called inside its tab."""

    app: FastAPI
    service: Service
    language: Language

    def say(self, zh: str, en: str) -> str:
        """The words of this page's language."""
        return zh if self.language is Language.ZH else en

    def actor(self, request: gradio.Request) -> Actor:
        """Who sent this event, by the cookie of the event's own request: to be asked in every handler, never kept.

        Raises UnauthenticatedError when the session is over.
        """
        inner = request.request
        if inner is None:
            raise UnauthenticatedError("an event without a request")
        known = known_at_desk(Request({**inner.scope, "app": self.app}))
        if known is None:
            raise UnauthenticatedError("this session is over; log in again")
        return known.actor
