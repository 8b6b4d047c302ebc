"""Blobs to files that trainers can open."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from certloop.agentrl.store.blobs import replace_synced
from certloop.agentrl.store.errors import ExportError, StoreError
from certloop.agentrl.store.tenant import TenantStore

_MAGIC = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"),
    (b"%PDF", ".pdf"),
)


def write_images(store: TenantStore, hashes: Iterable[str], folder: Path) -> list[str]:
    """Write blobs as ``folder/SHA256.EXT`` (those there already are kept) and return their paths in order.

    Raises NotFoundError, BlobMissingError, BlobCorruptError, and ExportError when the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [str(_write(store, sha256, folder)) for sha256 in hashes]
    except StoreError:  # some are OSErrors, too
        raise
    except OSError as error:
        raise ExportError(f"images cannot be written to {folder}: {error.strerror or type(error).__name__}") from None


def _write(store: TenantStore, sha256: str, folder: Path) -> Path:
    known = next(folder.glob(f"{sha256}.*"), None)
    if known is not None:
        return known
    data = store.get_blob(sha256)
    suffix = next((ext for magic, ext in _MAGIC if data.startswith(magic)), ".webp" if data[8:12] == b"WEBP" else ".bin")
    path = folder / f"{sha256}{suffix}"
    replace_synced(path, data)
    return path
