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
    from certloop.agentrl.loop import Run
    from certloop.serve.loop.watch import Training

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
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Fit confidences anew once a week, as releases.")] = False,
    train: Annotated[str, typer.Option("--train", metavar="RUN", help="Train weights, too: a run without rows.")] = "",
    held_out: Annotated[Path | None, typer.Option("--held-out", metavar="DIR", help="Packed rows that must improve.")] = None,
    retained: Annotated[
        Path | None, typer.Option("--retained", metavar="DIR", help="Packed rows that must not get worse.")
    ] = None,
    work: Annotated[Path, typer.Option("--work", metavar="DIR", help="Where rounds of training work.")] = Path("loop"),
    replica: Annotated[list[str] | None, typer.Option("--replica", metavar="URL", help="A vLLM server, up to /v1.")] = None,
    adapters: Annotated[Path | None, typer.Option("--adapters", metavar="DIR", help="A folder that all replicas see.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Watch the store; when a tenant learned enough, judge, try out, promote or take back. Explains every decision on stdout.

    Stopped or killed at any step, the next start goes on where it was; any number of hosts may run it. What is not due, and
    why, stands on stderr when it changes.
    """
    with open_service(database) as service:
        from certloop.serve.loop.watch import Watch

        training = _training(train, held_out, retained, work, replica or [], adapters)
        watch = Watch(service, _alarm, calibrate=calibrate, training=training)
        said: dict[str, tuple[str, ...]] = {}
        while True:
            tenants = service.store.tenants()
            if not tenants and once:
                typer.echo("there is no tenant yet, so nothing to learn from", err=True)
            for tenant in tenants:
                if said.get(tenant) != (now := watch.look(tenant)):
                    said[tenant] = now
                    typer.echo("\n".join(f"{tenant}: {line}" for line in now), err=True)
            while (done := watch.runs.advance()) is not None:
                typer.echo(json.dumps(_run(done), ensure_ascii=False))
            if once:
                return
            time.sleep(every_s)


@app.command("status")
def status(database: DatabaseOption = None) -> None:
    """Every run with its steps, as JSON lines, oldest first."""
    from certloop.serve.loop.watch import open_runs

    with open_service(database) as service:
        runs = open_runs(service, _alarm).every()
        for one in runs:
            typer.echo(json.dumps(_run(one), ensure_ascii=False))
        if not runs:
            typer.echo("no run yet: `certloop loop run` begins one when enough was learned", err=True)


@app.command("releases")
def releases(tenant: ScopeOption = "*", database: DatabaseOption = None) -> None:
    """Who serves, the releases (the shared ones, too), every move, and what was changed by hand (exit code 1 then)."""
    from certloop.agentrl.release.schema import SHARED

    with open_service(database) as service:
        registry = service.loop.registry
        if tenant != SHARED:
            acting_for(service, tenant)
        found = registry.verify()
        pointer = registry.pointer(tenant)
        moves = [
            {"at": r.at, "actor": r.actor, "move": str(r.move), "release": r.release_id, "reason": r.details.get("reason", "")}
            for r in registry.history(tenant)
        ]
        body: dict[str, Any] = {
            "active": pointer.active, "previous": pointer.previous, "candidate": pointer.candidate, "share": pointer.share,
            "releases": [release.to_json() for scope in dict.fromkeys((SHARED, tenant)) for release in registry.releases(scope)],
            "history": moves, "damage": list(found),
        }  # fmt: skip
        typer.echo(json.dumps(body, ensure_ascii=False))
        if found:
            raise typer.Exit(1)


@app.command("rollback")
def rollback(reason: ReasonOption, tenant: ScopeOption = "*", database: DatabaseOption = None) -> None:
    """Take the candidate back, or without one the active release: the next document is answered by the one before."""
    import os

    from certloop.agentrl.release.schema import SHARED

    with open_service(database) as service:
        if tenant != SHARED:
            acting_for(service, tenant)
        pointer = service.loop.registry.roll_back(actor=f"cli:uid-{os.getuid()}", reason=reason, scope=tenant)
        typer.echo(json.dumps({"active": pointer.active, "since": pointer.since}))


@app.command("rules")
def rules(tenant: TenantOption, database: DatabaseOption = None) -> None:
    """What a tenant's decisions taught, as JSON lines: the rule, its evidence, how often it was right."""
    with open_service(database) as service:
        items = service.loop.rules(acting_for(service, tenant))
        if not items:
            typer.echo(
                "nothing was learned yet: a rule comes from an approval whose edit shows something about the form", err=True
            )
        for item in items:
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


def _alarm(run: Run) -> None:
    typer.echo(f"alarm: run {run.run_id} failed: {run.error}", err=True)


def _training(
    run: str, held_out: Path | None, retained: Path | None, work: Path, replicas: list[str], adapters: Path | None
) -> Training | None:
    if not run:
        return None
    from certloop.errors import UsageError
    from certloop.serve.loop.watch import Training
    from certloop.train.config import load_config

    if held_out is None or retained is None:
        raise UsageError("--train needs --held-out DIR (what is to improve) and --retained DIR (what must not get worse)")
    return Training(load_config(run), held_out, retained, work, replicas, adapters)


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
    """A counter on a terminal, a line now and then in a log."""
    if not sys.stderr.isatty():
        if done % max(1, total // 10) == 0:
            typer.echo(f"{done} of {total} documents", err=True)
    else:
        sys.stderr.write(f"\r{done} of {total} documents" + ("\n" if done == total else ""))
