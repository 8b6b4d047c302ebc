"""Taking up new document types and models without a restart: what is being read ends as it began."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from certloop.agentrl.errors import CertloopError
from certloop.serve.people.place import audit
from certloop.serve.people.roles import Permission
from certloop.templates import reload_types

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

_log = logging.getLogger("certloop.serve")


def reload(service: Service, actor: Actor | None = None) -> int:
    """Load the document types again and give every reader a new process, with the models as they are on the disk, before its
    next document; returns how many types there are. ``actor`` is None for a signal. Raises TemplateError and changes nothing
    when a type is not well formed."""
    from certloop.serve.db.access import writing

    if actor is not None:
        actor.require(Permission.RELEASES_MANAGE)
    registry = reload_types(service.config.extract.template_path)
    service.registry = registry
    if service.readers is not None:
        service.readers.reload(service.config.extract)
    if actor is not None:
        with writing(service, actor.tenant) as connection:
            audit(connection, actor, "service.reload", types=len(registry.types))
    _log.info("reloaded", extra={"facts": {"types": len(registry.types)}})
    return len(registry.types)


@contextmanager
def reloading(service: Service) -> Iterator[None]:
    """SIGHUP reloads as long as the block runs. To be entered in the main thread."""

    def go() -> None:
        try:
            reload(service)
        except CertloopError as error:
            _log.error("not reloaded", exc_info=error)

    before = signal.signal(signal.SIGHUP, lambda _number, _frame: threading.Thread(target=go, name="reload").start())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
