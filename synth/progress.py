"""A progress bar with a rate on standard error; nothing when that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes what is done and what is wanted."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(unit, total=None, rate="")

        def show(done: int, wanted: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, total=wanted, rate=f"{speed:.1f} {unit}/s" if speed else "")

        yield show
