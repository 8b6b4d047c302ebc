"""Opening: addresses, versions, roles, several processes at once."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from certloop.agentrl.store import (
    DuplicateEventError,
    Store,
    StoreBusyError,
    StoreDamagedError,
    StoreRoleError,
    StoreSchemaError,
    StoreUnavailableError,
    StoreUrlError,
    verify,
)
from certloop.agentrl.store.engine import reading, writing
from certloop.agentrl.store.schema import metadata
from certloop.agentrl.trajectory import Trajectory

Make = Callable[..., Trajectory]

WRITER = """
import sys
from certloop.agentrl.store import Store
with Store.open(sys.argv[1], sys.argv[2]) as store:
    tenant = store.for_tenant(sys.argv[3])
    for i in range(40):
        with tenant.batch("writer") as batch:
            batch.add_document(purpose=f"{sys.argv[4]}-{i}")
"""


def test_the_migrations_make_the_tables_that_the_code_uses(store: Store) -> None:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "store_version"})
        assert compare_metadata(context, metadata) == []


def test_opening_again_changes_nothing(place: Any, make_trajectory: Make) -> None:
    with place.open() as store, store.for_tenant("acme").batch("engine") as batch:
        batch.add_trajectory(make_trajectory())
    with place.open() as store:
        assert store.for_tenant("acme").trajectory("t-1").trajectory == make_trajectory()
        assert verify(store).clean


def test_a_store_of_a_newer_release_is_refused(store: Store, place: Any) -> None:
    with writing(store.engine, None) as connection:
        connection.execute(text("UPDATE store_version SET version_num = '9999'"))
    with pytest.raises(StoreSchemaError, match="newer"):
        place.open()


def test_two_writers_queue_and_none_is_turned_away(place: Any) -> None:
    """Each opens the store for the first time, too: the migration must not race."""
    command = [sys.executable, "-c", WRITER, place.url, place.blob_url]
    writers = [
        subprocess.Popen([*command, tenant, name], stderr=subprocess.PIPE, text=True)
        for tenant, name in (("acme", "a"), ("acme", "b"), ("other", "c"))
    ]
    assert [(w.communicate()[1], w.returncode) for w in writers] == [("", 0)] * 3
    with Store.open(place.url, place.blob_url) as store:
        purposes = [e.payload["purpose"] for e in store.for_tenant("acme").events() if e.payload]
        assert sorted(purposes) == sorted(f"{name}-{i}" for name in "ab" for i in range(40))
        assert verify(store).clean


def test_a_reader_sees_one_state_and_stops_nobody(store: Store, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    with acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("t-1"))
        batch.add_trajectory(make_trajectory("t-2"))
    stream = acme.trajectories()
    assert next(stream).trajectory.traj_id == "t-1"
    with acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("t-3"))
    assert [s.trajectory.traj_id for s in stream] == ["t-2"]
    assert len(list(acme.trajectories())) == 3


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "mysql://root@localhost/x", "redis://x", "postgresql://h/d"]
)
def test_addresses_that_make_no_sense(url: str) -> None:
    with pytest.raises(StoreUrlError):
        Store.open(url)  # a Postgres store without a place for its blobs, too


def test_an_sqlite_store_that_is_not_there_or_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="no store"):
        Store.open(f"sqlite:///{tmp_path}/none.db", create=False)
    (tmp_path / "text.db").write_text("this is not a database, only a long enough text to be looked at" * 20)
    with pytest.raises(StoreDamagedError, match="damaged"):
        Store.open(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(StoreUnavailableError, match="folder"):
        Store.open(f"sqlite:///{tmp_path}/text.db/below/store.db")


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        Store.open("postgresql://nobody:secret@127.0.0.1:9/none?connect_timeout=2", str(tmp_path))
    assert "secret" not in str(caught.value)


def test_only_the_owner_can_read_an_sqlite_store(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/data/store.db"):
        assert not stat.S_IMODE((tmp_path / "data" / "store.db").stat().st_mode) & 0o077
        assert not stat.S_IMODE((tmp_path / "data").stat().st_mode) & 0o077


def test_a_writer_that_never_ends_is_a_typed_error(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store.db", busy_timeout_s=0.05) as store:
        acme = store.for_tenant("acme")
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError), acme.batch("engine") as batch:
            batch.add_document()
        other.execute("ROLLBACK")
        other.close()
        with acme.batch("engine") as batch:
            batch.add_document()


def test_no_error_text_quotes_a_row(store: Store, make_trajectory: Make) -> None:
    acme = store.for_tenant("acme")
    for _ in range(2):
        with contextlib.suppress(DuplicateEventError), acme.batch("engine") as batch:
            batch.add_trajectory(make_trajectory("t-1", final_json="张样本 13812345678"))
    with pytest.raises(DuplicateEventError) as caught, acme.batch("engine") as batch:
        batch.add_trajectory(make_trajectory("t-1", final_json="张样本 13812345678"))
    assert "张样本" not in "".join(traceback.format_exception(caught.value, chain=True))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_row_level_security_binds_even_the_owner(store: Store, make_trajectory: Make) -> None:
    with store.for_tenant("acme").batch("engine") as batch:
        batch.add_trajectory(make_trajectory())
    count = text("SELECT count(*) FROM store_events")
    seen = {}
    for tenant in ("acme", "other", None):
        with reading(store.engine, tenant) as connection:
            seen[tenant] = connection.execute(count).scalar()
    assert seen == {"acme": 4, "other": 0, None: 0}
    with store.engine.connect() as connection:  # no tenant was ever set on this transaction
        assert connection.execute(count).scalar() == 0
    insert = text("INSERT INTO store_links (tenant, kind, key, document_id) VALUES ('acme', 'blob', 'x', 'y')")
    with pytest.raises(StoreUnavailableError), writing(store.engine, "other") as connection:
        connection.execute(insert)


@pytest.mark.slow
def test_a_superuser_is_refused(postgres: Any, tmp_path: Path) -> None:
    with pytest.raises(StoreRoleError, match="superuser"):
        Store.open(postgres.get_uri(), str(tmp_path))


def test_databases_in_one_folder_do_not_share_images(tmp_path: Path) -> None:
    """A sweep of one would take the other's."""
    with Store.open(f"sqlite:///{tmp_path}/a.db") as a, Store.open(f"sqlite:///{tmp_path}/b.db") as b:
        assert a.blobs.url != b.blobs.url
        sha256 = b.for_tenant("acme").put_blob(b"page")
        assert not a.blobs.exists("acme", sha256)
