"""``certloop serve`` and ``certloop worker``: certificates over HTTP, read in the background."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from certloop.settings import Settings

DatabaseOption = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="The database (default: CERTLOOP_DATABASE_URL).")
]
ReadersOption = Annotated[
    int | None, typer.Option("--readers", min=1, max=256, metavar="N", help="Documents read at a time (CERTLOOP_READERS or 1).")
]


def serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="The port.")] = 8000,
    demo: Annotated[bool, typer.Option("--demo", help="Without keys, for one tenant, on a loopback address only.")] = False,
    no_work: Annotated[
        bool, typer.Option("--no-work", help="Only take documents in; `certloop worker` reads (Postgres).")
    ] = False,
    no_desk: Annotated[bool, typer.Option("--no-desk", help="Without the pages for people at /.")] = False,
    database: DatabaseOption = None,
    readers: ReadersOption = None,
) -> None:
    """Serve the HTTP API (described at /docs) and read what is handed in. Keys come from `certloop admin key create`.

    Where the extra `ui` is installed the desk stands at /: uploading, reviewing, what was learned.

    SIGTERM or Ctrl-C: nothing more is taken, what is being read ends (CERTLOOP_DRAIN_S), the rest waits for the next start.
    """
    from certloop.serve.desk import installed
    from certloop.serve.process import run_api
    from certloop.settings import Settings

    settings, desk = _changed(Settings.load(), database, readers), installed() and not no_desk

    def up(address: str) -> None:
        pages = f"the desk at {address}/, the API at {address}/docs" if desk else f"the API at {address}/docs"
        with suppress(OSError):  # whoever started it may have closed standard output
            typer.echo(f"certloop is up: {pages}. Ctrl-C ends it.")

    run_api(settings.serve_config(demo=demo), host=host, port=port, work=not no_work, desk=desk, up=up)


def worker(database: DatabaseOption = None, readers: ReadersOption = None) -> None:
    """Read documents that others have taken in; as many of these as you like, on Postgres."""
    from certloop.serve.process import run_worker
    from certloop.settings import Settings

    run_worker(_changed(Settings.load(), database, readers).serve_config())


def _changed(settings: Settings, database: str | None, readers: int | None) -> Settings:
    changes = {"database_url": database, "readers": readers}
    return settings.model_copy(update={name: value for name, value in changes.items() if value is not None})
