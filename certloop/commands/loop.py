"""``certloop loop``: from what auditors say to rules, releases, trials and rollback; and a simulated month of it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certloop.commands.admin import DatabaseOption, acting_for, open_service

if TYPE_CHECKING:
    from certloop.agentrl.loop import Run, Runs
    from certloop.serve.context import Service

app = typer.Typer(
    help="Learning from decisions: rules, releases, canaries, rollback; and a simulated month of it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
ScopeOption = Annotated[str, typer.Option("--tenant", metavar="T", help="A tenant, or * for the releases that all share.")]
TenantOption = Annotated[str, typer.Option("--tenant", metavar="T", help="Whose.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="WORDS", help="Why; it stands in the history.")]


@app.command("simulate")
def simulate_(
    days: Annotated[int, typer.Option(min=3, max=365, metavar="N", help="Days of the life.")] = 30,
    per_day: Annotated[int, typer.Option("--per-day", min=1, max=500, metavar="N", help="Documents a day.")] = 10,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=50, metavar="N", help="Lives to live through, one seed each.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="For life-SEED.html and .json; lives that stand there are not lived again."),
    ] = None,
) -> None:
    """Live through a month in minutes: forms drift, auditors answer a quarter and err, rules are learned, a bad candidate comes.

    One JSON line a seed: strict rates of the frozen, the learning and the control system, gains with intervals,
    and how many documents each drift took to recover from.
    """
    from certloop.serve.loop.report import page, summary
    from certloop.serve.loop.simulate import SimulationConfig, simulate
    from certloop.serve.loop.stream import StreamConfig

    for number in range(seed, seed + seeds):
        config = SimulationConfig(StreamConfig(days=days, per_day=per_day, seed=number))
        done = _lived(out, number, days * per_day)
        if done is not None:
            typer.echo(json.dumps(done, ensure_ascii=False))
            continue
        life = simulate(config, _progress, None if out is None else out / "looks.db")
        said = summary(life)
        typer.echo(json.dumps(said, ensure_ascii=False))
        sys.stdout.flush()
        if out is not None:
            decisions = [{"day": d.day, "what": d.what, "reasons": list(d.reasons)} for d in life.decisions]
            body = said | {"decisions": decisions, "rules": life.rules, "gates": life.gates}
            (out / f"life-{number}.json").write_text(json.dumps(body, ensure_ascii=False, indent=1), "utf-8")
            (out / f"life-{number}.html").write_text(page(life), "utf-8")


@app.command("run")
def run_(
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, then end.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=1, metavar="SECONDS", help="How often to look.")] = 60.0,
    database: DatabaseOption = None,
) -> None:
    """Watch the store; when a tenant learned enough, judge, try out, promote or take back. Explains every decision on stdout.

    Stopped or killed at any step, the next start goes on where it was; any number of hosts may run it.
    """
    with open_service(database) as service:
        runs = _runs(service)
        while True:
            for tenant in service.store.tenants():
                _start(service, runs, tenant)
            while (done := runs.advance()) is not None:
                typer.echo(json.dumps(_run(done), ensure_ascii=False))
            if once:
                return
            time.sleep(every_s)


@app.command("status")
def status(database: DatabaseOption = None) -> None:
    """Every run with its steps, as JSON lines, oldest first."""
    with open_service(database) as service:
        for one in _runs(service).every():
            typer.echo(json.dumps(_run(one), ensure_ascii=False))


@app.command("releases")
def releases(tenant: ScopeOption = "*", database: DatabaseOption = None) -> None:
    """Who serves, the releases, every move, and what was changed by hand (exit code 1 then)."""
    with open_service(database) as service:
        registry = service.loop.registry
        found = registry.verify()
        pointer = registry.pointer(tenant)
        moves = [
            {"at": r.at, "actor": r.actor, "move": str(r.move), "release": r.release_id, "reason": r.details.get("reason", "")}
            for r in registry.history(tenant)
        ]
        body: dict[str, Any] = {
            "active": pointer.active, "previous": pointer.previous, "candidate": pointer.candidate, "share": pointer.share,
            "releases": [release.to_json() for release in registry.releases(tenant)], "history": moves, "damage": list(found),
        }  # fmt: skip
        typer.echo(json.dumps(body, ensure_ascii=False))
        if found:
            raise typer.Exit(1)


@app.command("rollback")
def rollback(reason: ReasonOption, tenant: ScopeOption = "*", database: DatabaseOption = None) -> None:
    """Take the candidate back, or without one the active release: the next document is answered by the one before."""
    import os

    with open_service(database) as service:
        pointer = service.loop.registry.roll_back(actor=f"cli:uid-{os.getuid()}", reason=reason, scope=tenant)
        typer.echo(json.dumps({"active": pointer.active, "since": pointer.since}))


@app.command("rules")
def rules(tenant: TenantOption, database: DatabaseOption = None) -> None:
    """What a tenant's decisions taught, as JSON lines: the rule, its evidence, how often it was right."""
    with open_service(database) as service:
        for item in service.loop.rules(acting_for(service, tenant)):
            body = {
                "id": item.item_id,
                "kind": item.kind,
                "doc_type": item.key,
                "rule": dict(item.body),
                "state": str(item.state),
            }
            record = {
                "state": str(item.state),
                "passed": item.passed,
                "failed": item.failed,
                "evidence": list(item.evidence),
                "at": item.at,
            }
            typer.echo(json.dumps(body | record, ensure_ascii=False))


def _runs(service: Service) -> Runs:
    import os
    import socket

    from certloop.agentrl.loop import Runs
    from certloop.serve.loop.guidance_release import GuidanceRelease

    return Runs.open(
        service.engine, [GuidanceRelease(service).plan()], owner=f"{socket.gethostname()}:{os.getpid()}", clock=service.clock,
        alarm=lambda run: typer.echo(f"alarm: run {run.run_id} failed: {run.error}", err=True),
    )  # fmt: skip


def _start(service: Service, runs: Runs, tenant: str) -> None:
    """A guidance run where rules wait for one, none is under way, and not these very rules were judged within the last day."""
    from datetime import timedelta

    from certloop.agentrl.loop import RunBusyError
    from certloop.serve.loop.guidance_release import KIND

    waiting = sorted(item.item_id for item in service.loop.memory.in_use(tenant))
    last = next((run for run in reversed(runs.every(tenant)) if run.kind == KIND), None)
    day_ago = (service.clock() - timedelta(days=1)).isoformat(timespec="microseconds")
    judged = last is not None and sorted(last.results.get("select", {}).get("rules", [])) == waiting and last.created_at > day_ago
    if waiting and not judged:
        try:
            runs.start(KIND, tenant, f"{len(waiting)} rules in the overlay")
        except RunBusyError:
            return


def _run(run: Run) -> dict[str, Any]:
    return {
        "run": run.run_id, "tenant": run.scope, "kind": run.kind, "state": str(run.state), "why": run.error or run.reason,
        "steps": {name: dict(result) for name, result in run.results.items()},
    }  # fmt: skip


def _lived(out: Path | None, seed: int, documents: int) -> dict[str, Any] | None:
    """The summary of a life of this length that stands in ``out`` already."""
    path = None if out is None else out / f"life-{seed}.json"
    if path is None or not path.is_file():
        return None
    body: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if body["documents"] != documents:
        return None
    return {key: value for key, value in body.items() if key not in ("decisions", "rules", "gates")}


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} documents" + ("\n" if done == total else ""))
