"""A sealed store: nothing personal can be read from its files, and nothing opens without the key it was sealed with."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from certloop.agentrl.store import (
    AesGcm,
    Store,
    StoreKeyError,
    backup,
    read_key,
    restore,
    verify,
)
from certloop.agentrl.store.log import GENESIS, audit_hash
from certloop.agentrl.trajectory import Trajectory

KEY, OTHER = AesGcm(b"k" * 32), AesGcm(b"o" * 32)
NAME = "欧阳样本"


def test_what_is_sealed_opens_only_with_its_key_tenant_and_name() -> None:
    sealed = KEY.seal("acme", "event", b"text")
    assert KEY.unseal("acme", "event", sealed) == b"text"
    assert KEY.seal("acme", "event", b"text") != sealed
    for cipher, tenant, name, data in (
        (OTHER, "acme", "event", sealed),
        (KEY, "other", "event", sealed),
        (KEY, "acme", "another", sealed),
        (KEY, "acme", "event", sealed[:-1] + bytes([sealed[-1] ^ 1])),
        (KEY, "acme", "event", b"short"),
    ):
        with pytest.raises(StoreKeyError):
            cipher.unseal(tenant, name, data)


def test_no_file_of_a_sealed_store_or_its_backup_holds_content(
    tmp_path: Path, make_trajectory: Callable[..., Trajectory]
) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store.db", cipher=KEY) as store:
        acme = store.for_tenant("acme")
        image = acme.put_blob(b"page of " + NAME.encode())
        with acme.batch("engine") as batch:
            batch.add_trajectory(make_trajectory(final_json=NAME, image_sha256=(image,)), subjects=[NAME])
        for kind in ("sqlite", "portable"):
            backup(store, tmp_path / kind, actor="operator", kind=kind)  # type: ignore[arg-type]
        assert acme.trajectory("t-1").trajectory.final_json == NAME
        assert acme.get_blob(image) == b"page of " + NAME.encode()
        assert verify(store).clean
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) >= 8
        words = (NAME.encode(), NAME.encode("unicode_escape"))
        assert not [path for path in files if any(word in path.read_bytes() for word in words)]


def test_the_key_must_be_the_stores_own(tmp_path: Path) -> None:
    sealed, plain = f"sqlite:///{tmp_path}/sealed.db", f"sqlite:///{tmp_path}/plain.db"
    Store.open(sealed, cipher=KEY).close()
    Store.open(plain).close()
    for url, cipher in ((sealed, None), (sealed, OTHER), (plain, KEY)):
        with pytest.raises(StoreKeyError, match="CERTLOOP_STORE_KEY_FILE"):
            Store.open(url, cipher=cipher)
    with Store.open(sealed, cipher=KEY) as store:
        backup(store, tmp_path / "backup", actor="operator")
    with pytest.raises(StoreKeyError):
        restore(tmp_path / "backup", f"sqlite:///{tmp_path}/new/store.db", actor="operator", cipher=OTHER)
    assert not (tmp_path / "new").exists()


def test_a_key_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(base64.b64encode(b"k" * 32) + b"\n")
    assert read_key(tmp_path / "key").key_id == KEY.key_id
    assert base64.b64encode(b"k" * 32).decode() not in KEY.key_id
    (tmp_path / "short").write_text("c2hvcnQ=")
    with pytest.raises(StoreKeyError, match="32"):
        read_key(tmp_path / "short")
    with pytest.raises(StoreKeyError, match="none cannot be read"):
        read_key(tmp_path / "none")


def fill(url: str, make_trajectory: Callable[..., Trajectory], cipher: AesGcm | None) -> None:
    with Store.open(url, cipher=cipher) as store:
        acme = store.for_tenant("acme")
        for name in ("t-1", "t-2", "t-3"):
            with acme.batch("engine") as batch:
                batch.add_trajectory(make_trajectory(name))


def forge(store: Store, *, marks: bool) -> None:
    """Somebody who can write to the database and knows how certloop works rewrites history: another actor, all hashes anew."""
    with store.engine.connect().execution_options(store_writes=True) as connection, connection.begin():
        for verb in ("update", "delete"):
            connection.execute(text(f"DROP TRIGGER store_audit_no_{verb}"))
        previous = GENESIS
        for row in connection.execute(text("SELECT * FROM store_audit WHERE tenant = 'acme' ORDER BY position")).mappings().all():
            values = dict(row) | {"actor": "nobody", "prev_hash": previous}
            previous = audit_hash(values)
            mark = row["mac"] if marks else None
            change = "UPDATE store_audit SET actor = 'nobody', prev_hash = :p, hash = :h, mac = :m WHERE position = :n"
            connection.execute(text(change), {"p": values["prev_hash"], "h": previous, "m": mark, "n": row["position"]})


def test_a_forged_chain_shows_only_where_the_store_has_a_key(tmp_path: Path, make_trajectory: Callable[..., Trajectory]) -> None:
    for name, cipher in (("plain", None), ("sealed", KEY)):
        for marks in (True, False):
            url = f"sqlite:///{tmp_path}/{name}-{marks}/store.db"
            fill(url, make_trajectory, cipher)
            with Store.open(url, cipher=cipher) as store:
                heads = verify(store).heads
                forge(store, marks=marks)
                found = {finding.problem for finding in verify(store).findings}
                assert found == (set() if cipher is None else {"audit_forged"})
                assert "audit_cut" in {f.problem for f in verify(store, heads).findings}  # a pinned head shows it anyway


def test_a_sealed_store_of_before_marks_is_marked_when_it_is_opened(
    tmp_path: Path, make_trajectory: Callable[..., Trajectory]
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    fill(url, make_trajectory, KEY)
    with (
        Store.open(url, cipher=KEY) as store,
        store.engine.connect().execution_options(store_writes=True) as connection,
        connection.begin(),
    ):
        connection.execute(text("ALTER TABLE store_audit DROP COLUMN mac"))
        connection.execute(text("UPDATE store_version SET version_num = '0001'"))
    with pytest.raises(StoreKeyError):
        Store.open(url, cipher=OTHER)
    with Store.open(url, cipher=KEY) as store:
        acme = store.for_tenant("acme")
        assert verify(store).clean
        assert [row.action for row in acme.audit_rows()] == ["append"] * 3 + ["audit.marked"]
        with acme.batch("engine") as batch:
            batch.add_trajectory(make_trajectory("t-4"))
        assert verify(store).clean
        with store.engine.connect().execution_options(store_writes=True) as connection, connection.begin():
            connection.execute(text("DROP TRIGGER store_audit_no_update"))
            connection.execute(text("UPDATE store_audit SET mac = NULL WHERE position = 5"))
        assert {finding.problem for finding in verify(store).findings} == {"audit_forged"}


def test_a_backup_keeps_the_marks(tmp_path: Path, make_trajectory: Callable[..., Trajectory]) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    fill(url, make_trajectory, KEY)
    with Store.open(url, cipher=KEY) as store:
        backup(store, tmp_path / "backup", actor="operator", kind="portable")  # type: ignore[arg-type]
    restore(tmp_path / "backup", f"sqlite:///{tmp_path}/new/store.db", actor="operator", cipher=KEY)
    with Store.open(f"sqlite:///{tmp_path}/new/store.db", cipher=KEY) as store:
        assert verify(store).clean
        forge(store, marks=True)
        assert {finding.problem for finding in verify(store).findings} == {"audit_forged"}
