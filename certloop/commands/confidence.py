"""``certloop confidence``: what passes without a person at which error rate, and calibrations fitted on reviews."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from certloop.commands.admin import DatabaseOption, TenantOption, acting_for, open_service

app = typer.Typer(
    help="What a confidence is worth: error rates, the straight-through rate, calibrations fitted on reviews.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("show")
def show(
    tenant: TenantOption,
    last: Annotated[int, typer.Option("--last", min=1, max=2000, metavar="N", help="Certificates to look at.")] = 200,
    database: DatabaseOption = None,
) -> None:
    """Print what passes at several accepted error rates, what was found wrong among it, and the versions. JSON."""
    from certloop.serve.confidence import report, versions

    with open_service(database) as service:
        actor = acting_for(service, tenant)
        found = report.report(service, actor, last=last)
        found["versions"] = [versions.to_json(version) for version in versions.versions(service, actor)]
    _print(found)


@app.command("fit")
def fit(
    tenant: TenantOption,
    activate: Annotated[bool, typer.Option("--activate", help="Put it in force at once.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Fit a calibration on what auditors approved and print it. Fails while too little was reviewed."""
    from certloop.serve.confidence import versions

    with open_service(database) as service:
        _print(versions.to_json(versions.fit_reviewed(service, acting_for(service, tenant), activate=activate)))


@app.command("activate")
def activate(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="As `show` lists it; `builtin` is where everybody starts.")],
    tenant: TenantOption,
    database: DatabaseOption = None,
) -> None:
    """Put a calibration in force. Certificates that passed or wait already stay where they are."""
    from certloop.serve.confidence import versions

    with open_service(database) as service:
        _print(versions.to_json(versions.put_in_force(service, acting_for(service, tenant), version)))


def _print(found: dict[str, Any]) -> None:
    typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
