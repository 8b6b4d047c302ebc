"""Bytes by their SHA-256, one space per tenant: a local folder, or any fsspec address."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from certloop.agentrl.store.cipher import Cipher, Plain
from certloop.agentrl.store.errors import (
    BlobCorruptError,
    BlobMissingError,
    StoreKeyError,
    StoreUnavailableError,
    StoreUrlError,
    TenantError,
)

STALE_S = 3600.0
_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
SHA256 = re.compile(r"[0-9a-f]{64}")
_INCOMING = ".incoming"


def check_tenant(tenant: str) -> str:
    """Return the tenant's name unchanged. Raises TenantError: names become folder names, so they are narrow on purpose."""
    if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
        raise TenantError("a tenant's name has 1 to 63 lower-case letters, digits, '-' or '_' and begins with a letter or digit")
    return tenant


class BlobStore(Protocol):
    """The port. One conformance suite runs on every adapter; the contract:

    - ``put`` returns only when the bytes are durable, is atomic (a reader or a crash sees all of them or none) and idempotent;
    - ``get`` compares the bytes with the hash: BlobMissingError, or BlobCorruptError;
    - one tenant's blobs are invisible to another, even when the bytes are equal; ``delete`` therefore touches one tenant only;
    - ``delete`` and ``exists`` never raise for what is not there; ``list`` yields complete blobs only;
    - ``age_s`` is the time since the last ``put`` of these bytes (also one that found them there), 0 for what is not there;
    - ``sweep`` removes what a killed writer left behind and returns how many files that were.
    """

    @property
    def url(self) -> str: ...

    def put(self, tenant: str, data: bytes) -> str: ...

    def get(self, tenant: str, sha256: str) -> bytes: ...

    def exists(self, tenant: str, sha256: str) -> bool: ...

    def delete(self, tenant: str, sha256: str) -> bool: ...

    def list(self, tenant: str) -> Iterator[str]: ...

    def age_s(self, tenant: str, sha256: str) -> float: ...

    def sweep(self, older_than_s: float = STALE_S) -> int: ...


def open_blobs(url: str, cipher: Cipher | None = None) -> BlobStore:
    """A folder's path, ``file://...`` or ``local://...``, or an fsspec address such as ``s3://bucket/prefix`` (needs the extra
    ``scale``).

    Raises StoreUrlError, StoreUnavailableError.
    """
    if not url:
        raise StoreUrlError("no place for blobs was given; set CERTLOOP_BLOB_URL to a folder or an fsspec address")
    kind, sign, path = url.partition("://")
    if sign and kind in ("file", "local"):  # fsspec writes in place there: a killed writer would leave half a blob
        return LocalBlobs(Path(path).expanduser(), cipher)
    if "://" not in url:
        return LocalBlobs(Path(url).expanduser(), cipher)
    return FsspecBlobs(url, cipher)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked(tenant: str, sha256: str) -> str:
    check_tenant(tenant)
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
        raise BlobMissingError("a blob is named by 64 lower-case hexadecimal digits")
    return sha256


def _verified(cipher: Cipher, tenant: str, sha256: str, data: bytes) -> bytes:
    try:
        plain = cipher.unseal(tenant, sha256, data)
    except StoreKeyError:
        raise BlobCorruptError(f"blob {sha256} is damaged or sealed with another key; restore it from a backup") from None
    if digest(plain) != sha256:
        raise BlobCorruptError(f"blob {sha256} is damaged: its bytes have another hash; restore it from a backup")
    return plain


class LocalBlobs:
    """``root/TENANT/ab/abcd...``. A blob is written aside, synced, then renamed; its folder is synced too."""

    def __init__(self, root: Path, cipher: Cipher | None = None) -> None:
        self._cipher = cipher or Plain()
        self._root = root.absolute()
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._root / _INCOMING).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreUnavailableError(f"the blob folder cannot be made: {error.strerror}") from None

    @property
    def url(self) -> str:
        return str(self._root)

    def put(self, tenant: str, data: bytes) -> str:
        sha256 = digest(data)
        path = self._path(tenant, sha256)
        if self.exists(tenant, sha256) and self._is_whole(tenant, sha256):
            with contextlib.suppress(FileNotFoundError), _spoken(f"blob {sha256}"):  # an erasure was faster: write it again
                os.utime(path)
                return sha256
        aside = self._root / _INCOMING / uuid.uuid4().hex
        try:
            if not path.parent.is_dir():
                path.parent.parent.mkdir(mode=0o700, exist_ok=True)
                path.parent.mkdir(mode=0o700, exist_ok=True)
                sync_folder(path.parent.parent)
                sync_folder(self._root)
            write_synced(aside, self._cipher.seal(tenant, sha256, data))
            aside.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise StoreUnavailableError(f"blob {sha256} cannot be written: {error.strerror}") from None
        return sha256

    def get(self, tenant: str, sha256: str) -> bytes:
        try:
            data = self._path(tenant, sha256).read_bytes()
        except FileNotFoundError:
            raise BlobMissingError(f"blob {sha256} is missing; restore it from a backup") from None
        except OSError as error:
            raise StoreUnavailableError(f"blob {sha256} cannot be read: {error.strerror}") from None
        return _verified(self._cipher, tenant, sha256, data)

    def _is_whole(self, tenant: str, sha256: str) -> bool:
        try:
            self.get(tenant, sha256)
        except (BlobMissingError, BlobCorruptError):
            return False
        return True

    def exists(self, tenant: str, sha256: str) -> bool:
        with _spoken(f"blob {sha256}"):
            return self._path(tenant, sha256).exists()

    def delete(self, tenant: str, sha256: str) -> bool:
        path = self._path(tenant, sha256)
        try:
            with _spoken(f"blob {sha256}"):
                path.unlink()
                sync_folder(path.parent)
        except FileNotFoundError:
            return False
        return True

    def list(self, tenant: str) -> Iterator[str]:
        folder = self._root / check_tenant(tenant)
        with _spoken("the blob folder"):
            if folder.exists():
                next(folder.iterdir(), None)  # glob passes over a folder that it may not read, as if it were empty
            paths = sorted(folder.glob("??/*"))
        for path in paths:
            if SHA256.fullmatch(path.name):
                yield path.name

    def age_s(self, tenant: str, sha256: str) -> float:
        try:
            with _spoken(f"blob {sha256}"):
                return max(0.0, time.time() - self._path(tenant, sha256).stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    def sweep(self, older_than_s: float = STALE_S) -> int:
        count = 0
        with _spoken("the blob folder"):
            for path in (self._root / _INCOMING).iterdir():
                try:
                    if time.time() - path.stat().st_mtime >= older_than_s:
                        path.unlink()
                        count += 1
                except FileNotFoundError:  # another sweeper was faster
                    continue
        return count

    def _path(self, tenant: str, sha256: str) -> Path:
        _checked(tenant, sha256)
        return self._root / tenant / sha256[:2] / sha256


class FsspecBlobs:
    """The same layout behind an fsspec file system. Atomic where the service writes whole objects, as object stores do."""

    def __init__(self, url: str, cipher: Cipher | None = None) -> None:
        self._cipher = cipher or Plain()
        try:
            import fsspec

            self._fs, self._root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            if error.name == "fsspec":
                raise StoreUnavailableError("this blob address needs a package: install certloop[scale]") from None
            package = error.name or getattr(error.__cause__, "name", None) or str(error)
            raise StoreUnavailableError(f"this kind of blob address needs a package of its own: {package}") from None
        except ValueError as error:
            raise StoreUrlError(f"unknown kind of blob address: {url.partition('://')[0]} ({type(error).__name__})") from None
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def put(self, tenant: str, data: bytes) -> str:
        sha256 = digest(data)
        path = self._path(tenant, sha256)
        self._guard(sha256, self._fs.makedirs, path.rpartition("/")[0], exist_ok=True)
        self._guard(sha256, self._fs.pipe_file, path, self._cipher.seal(tenant, sha256, data))
        return sha256

    def get(self, tenant: str, sha256: str) -> bytes:
        path = self._path(tenant, sha256)
        try:
            data: bytes = self._guard(sha256, self._fs.cat_file, path)
        except FileNotFoundError:
            raise BlobMissingError(f"blob {sha256} is missing; restore it from a backup") from None
        return _verified(self._cipher, tenant, sha256, data)

    def exists(self, tenant: str, sha256: str) -> bool:
        return bool(self._guard(sha256, self._fs.exists, self._path(tenant, sha256)))

    def delete(self, tenant: str, sha256: str) -> bool:
        if not self.exists(tenant, sha256):
            return False
        try:
            self._guard(sha256, self._fs.rm_file, self._path(tenant, sha256))
        except FileNotFoundError:  # another was faster
            return False
        return True

    def list(self, tenant: str) -> Iterator[str]:
        self._fs.invalidate_cache()
        folder = f"{self._root}/{check_tenant(tenant)}"
        if not self._guard("list", self._fs.exists, folder):
            return
        for path in sorted(self._guard("list", self._fs.find, folder)):
            name = path.rpartition("/")[2]
            if SHA256.fullmatch(name):
                yield name

    def age_s(self, tenant: str, sha256: str) -> float:
        try:
            modified: datetime = self._guard(sha256, self._fs.modified, self._path(tenant, sha256))
        except FileNotFoundError:
            return 0.0
        zone = modified.tzinfo or UTC  # memory:// and most services speak UTC
        return max(0.0, time.time() - modified.replace(tzinfo=zone).timestamp())

    def sweep(self, older_than_s: float = STALE_S) -> int:
        return 0  # objects appear whole; there is nothing aside

    def _path(self, tenant: str, sha256: str) -> str:
        _checked(tenant, sha256)
        return f"{self._root}/{tenant}/{sha256[:2]}/{sha256}"

    @staticmethod
    def _guard(sha256: str, action: Any, *args: Any, **options: Any) -> Any:
        try:
            return action(*args, **options)
        except FileNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 - each service's client has errors of its own, with addresses in their texts
            raise StoreUnavailableError(f"blob {sha256}: the blob service failed ({type(error).__name__})") from None


@contextlib.contextmanager
def _spoken(what: str) -> Iterator[None]:
    """What the disk refuses, as an error of ours; that something is not there is the caller's to judge."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnavailableError(f"{what} cannot be used: {error.strerror}") from None


def write_synced(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, and wait until it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_synced(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    write_synced(aside, data)
    aside.replace(path)
    sync_folder(path.parent)
