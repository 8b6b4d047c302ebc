"""The command line. Each command stands in ``certloop.commands`` and imports what it needs when it runs."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from certloop import CertloopError, __version__
from certloop.commands import (
    admin,
    confidence,
    doctor,
    evaluate,
    extract,
    loop,
    reward,
    serve,
    store,
    study,
    trajectories,
    types,
    validate,
)
from certloop.extract.export import printable
from certloop.synth import cli as synth
from certloop.train import cli as train

EXIT_CODES = "Exit codes: 0 done, 1 something failed or a rule fails, 2 usage, 3 (extract) nothing could be read, 130 Ctrl-C."
# What a full disk, a closed or a broken standard stream answers. Errors of a named file carry its name and are not meant here.
STREAM_ERRORS = frozenset((errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EISDIR, errno.ENOSPC))

app = typer.Typer(
    name="certloop",
    help=f"Read Chinese business certificates into checked JSON, offline. {EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("extract")(extract.extract)
app.command("validate")(validate.validate)
app.add_typer(types.app, name="types")
app.command("evaluate")(evaluate.evaluate)
app.command("reward")(reward.reward)
app.add_typer(synth.app, name="synth")
app.add_typer(train.app, name="train")
app.add_typer(trajectories.app, name="trajectories")
app.add_typer(store.app, name="store")
app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.add_typer(admin.app, name="admin")
app.add_typer(confidence.app, name="confidence")
app.add_typer(loop.app, name="loop")
app.add_typer(study.app, name="study")
app.command("doctor")(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"certloop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit. Typed errors and failing standard streams become one line on stderr and exit code 2; a reader of
    our output that is gone (`certloop ... | head`) exit code 1, Ctrl-C 130, both quietly; anything else is a bug."""
    _fill_closed_streams()
    try:
        try:
            app(args=list(sys.argv[1:] if argv is None else argv), prog_name="certloop")
        finally:
            sys.stdout.flush()  # while an error can still be told
    except CertloopError as error:
        _stop(f"error[{error.code}]: {error.message}", 2)
    except BrokenPipeError:
        _stop(None, 1)
    except KeyboardInterrupt:
        _stop(None, 130)
    except OSError as error:
        if error.filename is not None or error.errno not in STREAM_ERRORS:
            raise
        _stop(f"error[usage]: standard input or output fails: {error.strerror}", 2)


def _fill_closed_streams() -> None:
    """A stream that the caller closed (`>&-`) becomes one that answers EBADF, so that its use is an error and no other file gets
    its number."""
    for name, number, flags in (("stdin", 0, os.O_WRONLY), ("stdout", 1, os.O_RDONLY), ("stderr", 2, os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _stop(message: str | None, code: int) -> None:
    """Exit with ``code``. What still stands in the buffer of standard output cannot be written: the interpreter must not try."""
    if message is not None:
        with suppress(OSError):
            typer.echo(printable(message), err=True)
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
