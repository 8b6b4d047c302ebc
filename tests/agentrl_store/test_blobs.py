"""The contract of a blob store, run on every adapter."""

from __future__ import annotations

import builtins
import hashlib
import stat
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from certloop.agentrl.store import (
    BlobCorruptError,
    BlobMissingError,
    BlobStore,
    FsspecBlobs,
    LocalBlobs,
    StoreUnavailableError,
    StoreUrlError,
    TenantError,
    open_blobs,
)

DATA = b"a page \x00\xff"
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(params=["folder", "file", "memory", "local", "fsspec"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "fsspec":  # the adapter on a disk
        return FsspecBlobs(f"local://{tmp_path}/b")
    urls = {
        "folder": str(tmp_path / "b"),
        "file": f"file://{tmp_path}/b",
        "memory": f"memory://{uuid.uuid4().hex}",
        "local": f"local://{tmp_path}/b",
    }
    return open_blobs(urls[request.param])


def test_put_names_bytes_by_their_hash_and_get_gives_them_back(blobs: BlobStore) -> None:
    assert blobs.put("acme", DATA) == SHA256
    assert blobs.put("acme", DATA) == SHA256
    assert blobs.get("acme", SHA256) == DATA
    assert blobs.exists("acme", SHA256)
    assert list(blobs.list("acme")) == [SHA256]


def test_the_age_counts_from_the_last_put(blobs: BlobStore) -> None:
    assert blobs.age_s("acme", SHA256) == 0
    blobs.put("acme", DATA)
    time.sleep(0.05)
    before = blobs.age_s("acme", SHA256)
    assert 0.03 < before < 5
    blobs.put("acme", DATA)
    assert blobs.age_s("acme", SHA256) < before


def test_an_empty_blob_is_a_blob(blobs: BlobStore) -> None:
    assert blobs.get("acme", blobs.put("acme", b"")) == b""


def test_tenants_do_not_see_each_others_blobs(blobs: BlobStore) -> None:
    blobs.put("acme", DATA)
    assert not blobs.exists("other", SHA256)
    with pytest.raises(BlobMissingError, match=SHA256):
        blobs.get("other", SHA256)
    blobs.put("other", DATA)
    assert blobs.delete("acme", SHA256)
    assert blobs.get("other", SHA256) == DATA


def test_deleting_what_is_not_there_is_no_error(blobs: BlobStore) -> None:
    assert not blobs.delete("acme", SHA256)
    blobs.put("acme", DATA)
    assert blobs.delete("acme", SHA256)
    assert not blobs.delete("acme", SHA256)
    assert list(blobs.list("acme")) == list(blobs.list("nobody")) == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "../../etc/passwd", "x" * 64, SHA256.upper()])
def test_a_name_is_a_hash_and_a_tenant_a_word(blobs: BlobStore, name: str) -> None:
    with pytest.raises(BlobMissingError):
        blobs.get("acme", name)
    with pytest.raises(TenantError):
        blobs.put("../acme", DATA)


def test_damaged_bytes_are_named_and_a_new_put_repairs_them(tmp_path: Path) -> None:
    for blobs in (LocalBlobs(tmp_path / "a"), FsspecBlobs(f"local://{tmp_path}/b")):
        blobs.put("acme", DATA)
        (path,) = [p for p in tmp_path.rglob(SHA256) if p.read_bytes() == DATA]
        path.write_bytes(DATA[:-1])
        with pytest.raises(BlobCorruptError, match=SHA256):
            blobs.get("acme", SHA256)
        blobs.put("acme", DATA)
        assert blobs.get("acme", SHA256) == DATA
        blobs.delete("acme", SHA256)


def test_a_writer_that_dies_leaves_no_half_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = LocalBlobs(tmp_path)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            blobs.put("acme", DATA)
    assert list(blobs.list("acme")) == []
    assert not blobs.exists("acme", SHA256)
    assert blobs.sweep() == 0  # too young: its writer may be alive
    assert blobs.sweep(older_than_s=0) == 1
    assert blobs.sweep(older_than_s=0) == 0


def test_every_address_of_a_folder_writes_aside_first(tmp_path: Path) -> None:
    for url in (f"{tmp_path}/b", f"file://{tmp_path}/b", f"local://{tmp_path}/b"):
        assert isinstance(open_blobs(url), LocalBlobs)


def test_only_the_owner_can_read_blobs(tmp_path: Path) -> None:
    LocalBlobs(tmp_path / "b").put("acme", DATA)
    modes = [stat.S_IMODE(p.stat().st_mode) & 0o077 for p in (tmp_path / "b").rglob("*")]
    assert set(modes) == {0}


def test_addresses_that_make_no_sense_are_typed_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("", "nonsense://x"):
        with pytest.raises(StoreUrlError):
            open_blobs(url)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailableError):
        open_blobs(str(tmp_path / "file"))
    usual = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == missing:
            raise ModuleNotFoundError(name=name)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for missing, url, said in (("fsspec", "memory://x", "scale"), ("s3fs", "s3://bucket/x", "of its own: s3fs")):  # noqa: B007 - read there
        with pytest.raises(StoreUnavailableError, match=said):
            open_blobs(url)


def test_a_blob_service_that_is_down_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients raise errors of their own, which are no OSErrors (botocore's EndpointConnectionError, for one)."""
    from fsspec.implementations.memory import MemoryFileSystem

    class EndpointConnectionError(Exception):
        pass

    def down(*_: Any, **__: Any) -> Any:
        raise EndpointConnectionError("http://key:secret@127.0.0.1/bucket")

    blobs = open_blobs(f"memory://{uuid.uuid4().hex}")
    blobs.put("acme", DATA)
    for name in ("pipe_file", "cat_file", "exists", "find", "modified", "makedirs", "rm_file"):
        monkeypatch.setattr(MemoryFileSystem, name, down)
    for action in (
        lambda: blobs.put("acme", DATA),
        lambda: blobs.get("acme", SHA256),
        lambda: blobs.exists("acme", SHA256),
        lambda: blobs.delete("acme", SHA256),
        lambda: list(blobs.list("acme")),
        lambda: blobs.age_s("acme", SHA256),
    ):
        with pytest.raises(StoreUnavailableError, match="EndpointConnectionError") as caught:
            action()
        assert "secret" not in caught.value.message
