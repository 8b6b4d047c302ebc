"""Which files a command line means: files, folders, patterns and ``-`` (standard input)."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from certloop.errors import UsageError

STDIN = "-"
NAMES_OF_PAGES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".heic", ".heif", ".pdf")
)
SNIFF_BYTES = 8192


@dataclass(slots=True)
class Sources:
    """``files`` in the order given (folders sorted by name); ``skipped`` stood in a folder and look like no certificate."""

    files: list[Path | bytes] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)


def collect(arguments: Sequence[str], *, recursive: bool) -> Sources:
    """Expand the arguments of ``certloop extract``.

    A named file is always taken, whatever it is: what cannot be read is reported as failed. Of a folder, hidden files are left
    out, and files that neither look like an image or PDF by content nor are named like one (a README, a list of labels) are
    skipped. Raises UsageError when a pattern or a folder gives no file, or when ``-`` stands twice.
    """
    sources = Sources()
    for argument in arguments:
        before = len(sources.files)
        if argument == STDIN:
            if any(isinstance(f, bytes) for f in sources.files):
                raise UsageError("- (standard input) may stand only once")
            sources.files.append(sys.stdin.buffer.read())
        elif Path(argument).is_dir():
            _add_folder(sources, Path(argument), recursive=recursive)
        elif not Path(argument).exists() and glob.has_magic(argument):
            sources.files += [Path(p) for p in sorted(glob.glob(argument, recursive=True)) if Path(p).is_file()]  # noqa: PTH207
        else:
            sources.files.append(Path(argument))
        if len(sources.files) == before:
            hint = "" if recursive else "; add --recursive to look into its folders"
            raise UsageError(f"no image or PDF found in {argument!r}{hint if Path(argument).is_dir() else ''}")
    return sources


def _add_folder(sources: Sources, folder: Path, *, recursive: bool) -> None:
    for path in _walk(folder, recursive=recursive):
        (sources.files if _looks_like_pages(path) else sources.skipped).append(path)


def _walk(folder: Path, *, recursive: bool) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if recursive and not path.is_symlink():
                yield from _walk(path, recursive=True)
        elif path.is_file():
            yield path


def _looks_like_pages(path: Path) -> bool:
    from certloop.extract.ingest.formats import READABLE, sniff

    if path.suffix.lower() in NAMES_OF_PAGES:
        return True
    try:
        with path.open("rb") as file:
            return sniff(file.read(SNIFF_BYTES)) in READABLE
    except OSError:
        return True  # it exists and cannot be opened: let ingest report that instead of hiding it
