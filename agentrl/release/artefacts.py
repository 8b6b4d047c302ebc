"""Files of a release (an adapter, a calibration, guidance), by the hash of what is in them, verified before every load."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from certloop.agentrl.release.errors import ArtefactError

MANIFEST = "artefact.json"
ALLOWED = frozenset({".safetensors", ".json", ".toml", ".txt", ".md", ".html", ".jinja", ".model"})
"""Formats that cannot run code when they are loaded. Pickles (``.bin``, ``.pt``, ``.pkl``) are none of them."""


class ArtefactStore:
    """Folders by the SHA-256 of their contents. Adding is atomic, and the same contents are one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, folder: Path) -> str:
        """Copy a folder in and return its hash. Raises ArtefactError for links, foreign formats, or an empty folder."""
        files = _files(folder)
        manifest = {name: _sha256(path) for name, path in files.items()}
        digest = _digest(manifest)
        place = self._root / digest
        if place.exists():
            self.path(digest)
            return digest
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=".new-", dir=self._root))
        except OSError as error:
            raise ArtefactError(f"the folder of artefacts cannot be written: {error.strerror}") from None
        try:
            for name, path in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, new / name)
            (new / MANIFEST).write_text(json.dumps(manifest, sort_keys=True), "utf-8")
            for path in (*new.rglob("*"), new):
                _sync(path)
            new.replace(place)
            _sync(self._root)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            if place.exists():  # another process added the same
                return digest
            raise ArtefactError(f"the artefact could not be stored: {error.strerror}") from None
        self.path(digest)
        return digest

    def path(self, digest: str) -> Path:
        """The folder, after every file was hashed again. Raises ArtefactError that names the file that is missing or changed."""
        place = self._root / digest
        try:
            manifest = json.loads((place / MANIFEST).read_text("utf-8"))
            found = {name: _sha256(path) for name, path in _files(place).items() if name != MANIFEST}
        except (OSError, ValueError):
            raise ArtefactError(f"artefact {digest[:16]} is not there or has no manifest; restore it from a backup") from None
        if not isinstance(manifest, dict) or _digest(manifest) != digest:
            raise ArtefactError(f"artefact {digest[:16]}: its manifest was changed")
        for name in sorted(set(manifest) | set(found)):
            if manifest.get(name) != found.get(name):
                raise ArtefactError(f"artefact {digest[:16]}: file {name} was changed, added or lost; nothing of it is loaded")
        return place


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise ArtefactError("an artefact is a folder")
    out: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise ArtefactError(f"an artefact holds plain files only, {path.name} is none")
        if path.is_file():
            if path.suffix not in ALLOWED:
                raise ArtefactError(
                    f"{path.name}: {path.suffix or 'no suffix'} is not loaded; formats are {', '.join(sorted(ALLOWED))}"
                )
            out[path.relative_to(folder).as_posix()] = path
    if not out:
        raise ArtefactError("an artefact has at least one file")
    return out


def _digest(manifest: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
