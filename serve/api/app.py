"""The application: every router of ``serve/api``, over one open service."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from certloop import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI

    from certloop.serve.context import Service

ROUTERS = (
    "documents", "batches", "results", "jobs",
    "reviews", "feedback", "outcomes", "calibration", "learning",
    "admin", "sessions", "webhooks", "ops", "docs",
)  # fmt: skip
"""Modules of this package with a ``router``; those that are not there yet are left out."""
INSTALLERS = ("problems", "security", "limits", "headers", "openapi")
"""Modules that install handlers and middleware; of ``limits`` and ``headers`` the latter is the outermost layer."""


def create_app(service: Service) -> FastAPI:
    """The ASGI application; ``app.state.service`` is the service."""
    from fastapi import FastAPI

    # The usual pages of documentation load scripts from other people's servers; `docs` has one of our own.
    app = FastAPI(title="certloop", version=__version__, docs_url=None, redoc_url=None)
    app.state.service = service
    for name in ROUTERS:
        if importlib.util.find_spec(f"certloop.serve.api.{name}") is not None:
            app.include_router(importlib.import_module(f"certloop.serve.api.{name}").router)
    for name in INSTALLERS:
        if importlib.util.find_spec(f"certloop.serve.api.{name}") is not None:
            module = importlib.import_module(f"certloop.serve.api.{name}")
            if hasattr(module, "install"):
                module.install(app)
    return app
