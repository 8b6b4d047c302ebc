"""The command line. Each command stands in ``certloop.commands`` and imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from certloop import CertloopError, __version__
from certloop.commands import doctor, evaluate, extract, reward, store, trajectories, types, validate
from certloop.synth import cli as synth

EXIT_CODES = "Exit codes: 0 all read, 1 some failed, 2 usage, 3 nothing could be read."

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
app.add_typer(trajectories.app, name="trajectories")
app.add_typer(store.app, name="store")
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
    """Run one command and exit. Typed errors become one line on stderr and exit code 2; anything else is a bug."""
    try:
        app(args=list(sys.argv[1:] if argv is None else argv), prog_name="certloop")
    except CertloopError as error:
        typer.echo(f"error[{error.code}]: {error.message}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output is gone (`certloop ... | head`): the interpreter's last flush must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
