"""Which files a command line means: files, folders, patterns and ``-`` (standard input)."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from certloop.errors import UsageError

# os.path answers False for names that no file can have (too long, a null byte), where pathlib raises: hence, in this module,
# ruff: noqa: PTH112, PTH113, PTH207

STDIN = "-"
NAMES_OF_PAGES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".heic", ".heif", ".pdf")
)
SNIFF_BYTES = 8192


@dataclass(slots=True)
class Sources:
    """``files`` in the order given (folders sorted by name); ``skipped`` stood in a folder and look like no certificate;
    ``problems`` are arguments that gave no file, in words."""

    files: list[Path | bytes] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def collect(arguments: Sequence[str], *, recursive: bool) -> Sources:
    """Expand the arguments of ``certloop extract``.

    A named file is always taken, whatever it is: what cannot be read is reported as failed. Of a folder, hidden files are left
    out, and files that neither look like an image or PDF by content nor are named like one (a README, a list of labels) are
    skipped. A pattern or a folder without a file is a problem that the others survive. Raises UsageError when nothing is left,
    when ``-`` stands twice or when standard input cannot be read.
    """
    sources = Sources()
    for argument in arguments:
        before, problem = len(sources.files), None
        if argument == STDIN:
            if any(isinstance(f, bytes) for f in sources.files):
                raise UsageError("- (standard input) may stand only once")
            sources.files.append(_standard_input())
        elif not argument:
            raise UsageError("an empty name is no file")
        elif os.path.isdir(argument):
            problem = _add_folder(sources, Path(argument), recursive=recursive)
        elif glob.has_magic(argument) and not os.path.lexists(argument):
            sources.files += [Path(p) for p in sorted(glob.glob(argument, recursive=True)) if os.path.isfile(p)]
        else:
            sources.files.append(Path(argument))
        if problem is None and len(sources.files) == before:
            hint = "" if recursive else "; add --recursive to look into its folders"
            problem = f"no image or PDF found in {argument!r}{hint if os.path.isdir(argument) else ''}"
        if problem is not None:
            sources.problems.append(problem)
    if not sources.files:
        raise UsageError("; ".join(sources.problems[:5]) or "no file was named")
    return sources


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UsageError(f"cannot read standard input: {error.strerror}") from None


def _add_folder(sources: Sources, folder: Path, *, recursive: bool) -> str | None:
    """Add what stands in ``folder``; return what went wrong."""
    try:
        for path in _walk(folder, recursive=recursive):
            (sources.files if _looks_like_pages(path) else sources.skipped).append(path)
    except OSError as error:
        return f"cannot list the folder {error.filename}: {error.strerror}"
    return None


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
