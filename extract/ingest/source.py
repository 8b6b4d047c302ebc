"""From a path or bytes to pages: the public verb of ingest."""

from __future__ import annotations

import os
import stat

from certloop.extract.ingest.decode import require_readable
from certloop.extract.ingest.decoder import Decoder
from certloop.extract.ingest.errors import FileEmptyError, FileMissingError, FileTooLargeError, FileUnreadableError
from certloop.extract.ingest.formats import sniff
from certloop.extract.ingest.model import MIB, IngestLimits, Pages

Source = str | os.PathLike[str] | bytes
"""A file: its path, or its content."""


def ingest(source: Source, limits: IngestLimits | None = None, *, decoder: Decoder | None = None) -> Pages:
    """Read ``source`` into upright RGB pages.

    Decoding always happens in a child process with limits on memory and time. Give a ``decoder`` when reading many files: without
    one a child is started for this file alone. A page that fails among good ones is a warning in the result.

    Raises an IngestError (see its module for the codes) when the file is missing, empty, too large, of another format, or when
    none of its pages can be read.
    """
    limits = limits if limits is not None else IngestLimits()
    data = source if isinstance(source, bytes) else _read(source, limits)
    if len(data) > limits.max_bytes:
        raise _too_large(limits)
    if not data:
        raise FileEmptyError("this file is empty: copy or send it again")
    fmt = sniff(data)
    require_readable(fmt)
    if decoder is not None:
        return decoder.decode(data, fmt, limits)
    with Decoder() as own:
        return own.decode(data, fmt, limits)


def _read(path: str | os.PathLike[str], limits: IngestLimits) -> bytes:
    """At most one byte more than allowed. Only regular files: opening a pipe or a device could block for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise FileMissingError("there is no such file: check the path") from None
    except OSError:
        raise FileUnreadableError("this file cannot be opened: check its permissions") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileUnreadableError("this is a folder or a device, not a file: give the path of a file")
        if status.st_size > limits.max_bytes:
            raise _too_large(limits)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limits.max_bytes + 1)
    except (FileUnreadableError, FileTooLargeError):
        raise
    except OSError:
        raise FileUnreadableError("reading this file failed: check the disk") from None
    finally:
        os.close(descriptor)


def _too_large(limits: IngestLimits) -> FileTooLargeError:
    return FileTooLargeError(f"this file is larger than {limits.max_bytes / MIB:g} MiB: split it or lower its resolution")
