"""A sealed store: nothing personal can be read from its files, and nothing opens without the key it was sealed with."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from certloop.agentrl.store import (
    AesGcm,
    Store,
    StoreKeyError,
    StoreUnavailableError,
    backup,
    read_key,
    restore,
    verify,
)
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
    with pytest.raises(StoreUnavailableError):
        read_key(tmp_path / "none")
