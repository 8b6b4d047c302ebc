"""``certloop validate KIND VALUE``: check one value by the rules of its kind."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from certloop.extract.export import json_text, printable


def validate(
    kind: Annotated[str, typer.Argument(help="What the value is, e.g. uscc, id_number, date, money. An unknown kind lists all.")],
    value: Annotated[str, typer.Argument(help="The value as printed. Write -- before a value that starts with a dash.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Check one value. Exits 0 when it passes, 1 when a rule fails, 2 when the kind is unknown."""
    from certloop import validators

    verdicts = validators.validate(kind, value)
    normalised = validators.normalise(kind, value)
    passes = validators.passes(verdicts)
    if as_json:
        report = {
            "kind": kind,
            "value": value,
            "normalised": normalised,
            "passes": passes,
            "validations": [v.to_json() for v in verdicts],
        }
        typer.echo(json_text(report))
    else:
        for v in verdicts:
            line = f"{v.outcome.value:<14} {v.severity.value:<5} {v.rule}: {v.message_zh} / {v.message_en}"
            typer.echo(printable(line))
            if v.suggestion is not None:
                typer.echo(printable(f"{'suggestion':<20} {v.suggestion}"))
        if normalised is not None:
            shown = normalised if isinstance(normalised, str) else json.dumps(normalised, ensure_ascii=False, default=str)
            typer.echo(printable(f"{'normalised':<20} {shown}"))
    raise typer.Exit(0 if passes else 1)
