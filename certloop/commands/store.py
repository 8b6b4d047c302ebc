"""``certloop store``: is it whole, back it up, bring it back, what may be used, erase a person from it."""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from certloop.agentrl.store import Cipher, Erasure, Store, TenantStore
    from certloop.settings import Settings

app = typer.Typer(
    help="Check, back up and restore the store of trajectories; consent, sharing and erasure of what it holds.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
StoreOption = Annotated[str | None, typer.Option("--store", metavar="URL", help="The database (default: CERTLOOP_DATABASE_URL).")]
TenantOption = Annotated[str, typer.Option("--tenant", metavar="T", help="Whose rows.")]
OneTenantOption = Annotated[str | None, typer.Option("--tenant", metavar="T", help="One tenant alone (default: all of them).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]


class Kind(StrEnum):
    """As ``agentrl.store.BackupKind``, which loads with the store."""

    SQLITE = "sqlite"
    PORTABLE = "portable"


class Use(StrEnum):
    """As ``agentrl.trajectory.Consent``."""

    NONE = "none"
    TENANT = "tenant"
    SHARED = "shared"


def open_store(url: str | None) -> Store:
    """The store of the option or the settings; it must be there already."""
    from certloop.agentrl.store import Store
    from certloop.settings import Settings

    settings = Settings.load()
    return Store.open(
        settings.database_url if url is None else url, settings.blob_url, cipher=store_cipher(settings), create=False
    )


def store_cipher(settings: Settings) -> Cipher | None:
    """What seals the store, by the settings."""
    from certloop.agentrl.store import read_key

    return read_key(Path(settings.store_key_file).expanduser()) if settings.store_key_file else None


def open_tenant(store: Store, tenant: str) -> TenantStore:
    """A tenant that the store knows; asking must not make one. Raises UsageError, which names no other."""
    from certloop.errors import UsageError

    if tenant not in store.tenants():
        raise UsageError(f"the store has no tenant {tenant!r}")
    return store.for_tenant(tenant)


def actor() -> str:
    """Who stands in the audit trail for commands: the operating system's account number, no name."""
    return f"cli:uid-{os.getuid()}"


@app.command("verify")
def verify(
    tenant: OneTenantOption = None,
    url: StoreOption = None,
    heads: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An earlier --json report: its audit heads must still be there.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check pages, the audit chain, every event's hash, every blob and every erasure. Exits 1 when something is not as it was."""
    from certloop.agentrl import store as stores

    try:
        with open_store(url) as store:
            only = None if tenant is None else (open_tenant(store, tenant).tenant,)
            report = stores.verify(store, _pinned(heads), only)
    except stores.StoreDamagedError as error:
        finding = stores.Finding(None, "page_damaged", "database", error.message)
        report = stores.Report((finding,), {}, events=0, blobs=0, orphans=0)
    if as_json:
        out = {
            "clean": report.clean,
            "findings": [finding.to_json() for finding in report.findings],
            "events": report.events,
            "blobs": report.blobs,
            "orphans": report.orphans,
            "heads": report.heads,
        }
        typer.echo(json.dumps(out, ensure_ascii=False, indent=2))
    else:
        for finding in report.findings:
            typer.echo(f"{finding.problem:<20} {finding.tenant or '-'}  {finding.what}: {finding.message}")
        orphans = f", {report.orphans} blobs that no document names" if report.orphans else ""
        verdict = "as written" if report.clean else f"{len(report.findings)} findings"
        typer.echo(f"{report.events} events, {report.blobs} blobs{orphans}: {verdict}")
    raise typer.Exit(0 if report.clean else 1)


def _pinned(heads: Path | None) -> dict[str, str]:
    from certloop.errors import UsageError

    if heads is None:
        return {}
    try:
        return {str(k): str(v) for k, v in json.loads(heads.read_bytes())["heads"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{heads.name} is no report of `certloop store verify --json`") from None


@app.command("backup")
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty or new folder.")],
    url: StoreOption = None,
    kind: Annotated[
        Kind | None, typer.Option(help="sqlite: a copy of the file; portable: JSON Lines, for either database.")
    ] = None,
) -> None:
    """Write a backup while the store is in use: rows, blobs, and last a manifest. It holds personal data."""
    from certloop.agentrl import store as stores

    with open_store(url) as store:
        chosen = None if kind is None else stores.BackupKind(kind.value)
        manifest = stores.backup(store, folder, actor=actor(), kind=chosen)
    blobs = sum(manifest["blobs"].values())
    typer.echo(f"{manifest['kind']} backup of {len(manifest['blobs'])} tenants and {blobs} blobs in {folder}")


@app.command("restore")
def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `certloop store backup` wrote.")],
    url: StoreOption = None,
    journal: Annotated[
        str, typer.Option(metavar="URL", help="The blobs the store had before: what was erased since is erased again.")
    ] = "",
) -> None:
    """Put a backup into an empty place, erase again what was erased since, and verify the result."""
    from certloop.agentrl import store as stores
    from certloop.settings import Settings

    settings = Settings.load()
    place, cipher = settings.database_url if url is None else url, store_cipher(settings)
    done = stores.restore(folder, place, settings.blob_url, actor=actor(), journal_url=journal, cipher=cipher)
    again = f", {done.erased_again} documents erased again" if done.erased_again else ""
    typer.echo(f"{len(done.tenants)} tenants, {done.events} events and {done.blobs} blobs restored and verified{again}")


@app.command("share")
def share(
    to: Annotated[str, typer.Option("--to", metavar="T", help="The tenant that gets the copies; a new name makes it.")],
    traj_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Trajectories (default: all whose consent is `shared`).")
    ] = None,
    tenant: TenantOption = "default",
    url: StoreOption = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same document and seed give the same copy.")] = 0,
    profile: Annotated[str, typer.Option(metavar="NAME", help="Treatment of the copies (`certloop synth profiles`).")] = "scan",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Put pseudonymised copies of documents into another tenant: the same form, drawn anew with fictional values.

    Image and label are replaced together; steps, tokens and feedback are left out. Only documents whose consent is `shared`.
    """
    from certloop.agentrl.errors import CertloopError
    from certloop.agentrl.store import share_trajectory
    from certloop.errors import UsageError
    from certloop.settings import Settings
    from certloop.synth.pseudonymise import CertificatePseudonymiser

    if to == tenant:
        raise UsageError("a copy goes to another tenant: name one with --to")
    search_path = tuple(str(folder) for folder in Settings.load().template_path)
    pseudonymiser = CertificatePseudonymiser(search_path=search_path, profile=profile)
    count, failed = 0, 0
    with open_store(url) as store:
        source, target = open_tenant(store, tenant), store.for_tenant(to)
        for traj_id in traj_ids or _shareable(source, to):
            try:
                copy = share_trajectory(source, traj_id, target, pseudonymiser, seed=seed, actor=actor())
            except CertloopError as error:
                if traj_ids:
                    raise
                failed += 1  # one document that cannot be drawn stops no other
                typer.echo(f"{traj_id}: {error.code}: {error.message}", err=True)
                continue
            count += 1
            if as_json:
                typer.echo(json.dumps({"trajectory": traj_id, "copy": copy, "to": to}))
    if not as_json:
        typer.echo(f"{count} copies in tenant {to}")
    raise typer.Exit(1 if failed else 0)


def _shareable(source: TenantStore, to: str) -> list[str]:
    """What may be shared, can be drawn anew and has no copy in that tenant yet."""
    from certloop.agentrl.store import Filters
    from certloop.agentrl.trajectory import Consent

    shared = {row.details["trajectory"] for row in source.audit_rows() if row.action == "share" and row.details["to"] == to}
    stored = (s.trajectory for s in source.trajectories(Filters(consent=Consent.SHARED)))
    usable = (t for t in stored if len(t.image_sha256) == 1 and t.final_json not in (None, "{}") and t.doc_type != "unknown")
    return [t.traj_id for t in usable if t.traj_id not in shared]


@app.command("sweep")
def sweep(
    tenant: OneTenantOption = None,
    url: StoreOption = None,
    older_than_hours: Annotated[float, typer.Option(min=0, metavar="H", help="Younger ones may be about to be named.")] = 24.0,
) -> None:
    """Remove images that no document names: what a crash between image and rows left behind."""
    from certloop.agentrl import store as stores

    with open_store(url) as store:
        handles = [open_tenant(store, one) for one in (store.tenants() if tenant is None else (tenant,))]
        count = sum(stores.remove_orphans(one, older_than_s=older_than_hours * 3600, actor=actor()) for one in handles)
    typer.echo(f"{count} images removed")


@app.command("consent")
def consent(
    use: Annotated[Use, typer.Argument(metavar="none|tenant|shared", help="What they may be used for in training from now on.")],
    tenant: TenantOption = "default",
    url: StoreOption = None,
    subject: Annotated[str | None, typer.Option(metavar="TEXT", help="A name or number; - reads it from standard input.")] = None,
    document: Annotated[str | None, typer.Option(metavar="ID", help="One document.")] = None,
    trajectory: Annotated[str | None, typer.Option(metavar="ID", help="The document of one trajectory.")] = None,
    purpose: Annotated[
        str | None, typer.Option(metavar="WORDS", help="What it was given for, or why it was withdrawn (default: as it was).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Give or withdraw consent to documents that are recorded already. What was said before stays on record.

    Snapshots over a document whose consent was withdrawn are refused from then on; documents that share a page go together.
    """
    from certloop.agentrl import store as stores
    from certloop.agentrl.trajectory import Consent
    from certloop.errors import UsageError

    if sum(wish is not None for wish in (subject, document, trajectory)) != 1:
        raise UsageError("say exactly one of --subject, --document and --trajectory")
    text = sys.stdin.readline().strip() if subject == "-" else subject
    with open_store(url) as store:
        handle = open_tenant(store, tenant)
        found = stores.find_documents(handle, subject=text, document_id=document, traj_id=trajectory)
        if not found:
            raise stores.NotFoundError(f"tenant {tenant} has no document of this {_wish(subject, document)}; nothing was changed")
        with handle.batch(actor()) as batch:
            for document_id in found:
                before = handle.document(document_id).state.purpose
                batch.set_consent(document_id, Consent(use.value), before if purpose is None else purpose)
    said = {"documents": list(found), "consent": use.value, "purpose": purpose}
    typer.echo(json.dumps(said, ensure_ascii=False) if as_json else f"{len(found)} documents: {use.value}")


def _wish(subject: str | None, document: str | None) -> str:
    return "subject" if subject is not None else "id" if document is not None else "trajectory"


@app.command("erase")
def erase(
    tenant: TenantOption = "default",
    url: StoreOption = None,
    subject: Annotated[str | None, typer.Option(metavar="TEXT", help="A name or number; - reads it from standard input.")] = None,
    mentions: Annotated[bool, typer.Option(help="With --subject: also every document in which the text stands.")] = False,
    document: Annotated[str | None, typer.Option(metavar="ID", help="One document.")] = None,
    trajectory: Annotated[str | None, typer.Option(metavar="ID", help="The document of one trajectory.")] = None,
    older_than_days: Annotated[
        float | None, typer.Option(min=0, max=36500, metavar="DAYS", help="Every document handed in before that (retention).")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Finish erasures that a crash cut short or a restored backup undid.")] = False,
    reason: Annotated[str, typer.Option(metavar="WORDS", help="Stands in the tombstone; names nobody.")] = "request",
    yes: Annotated[bool, typer.Option("--yes", help="Really erase; without it only what would be reached is shown.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase documents with everything known about them: events, images and the snapshots that hold them. A tombstone stays."""
    from certloop.agentrl import store as stores
    from certloop.errors import UsageError

    wishes = [subject, document, trajectory, older_than_days, resume or None]
    if sum(wish is not None for wish in wishes) != 1:
        raise UsageError("say exactly one of --subject, --document, --trajectory, --older-than-days and --resume")
    with open_store(url) as store:
        handle = open_tenant(store, tenant)
        if resume:
            finished = stores.finish_erasures(handle, actor())
            again = stores.replay_journal(handle, handle.blobs, actor())
            said = f"{len(finished)} erasures finished" + (f", {again} documents erased again" if again else "")
            typer.echo(json.dumps({"finished": list(finished), "erased_again": again}) if as_json else said)
            return
        if older_than_days is not None:
            found = stores.expired_documents(handle, keep_days=older_than_days)
            reason = "retention"
        else:
            text = sys.stdin.readline().strip() if subject == "-" else subject
            found = stores.find_documents(handle, subject=text, document_id=document, traj_id=trajectory, mentions=mentions)
        done = stores.erase(handle, found, actor=actor(), reason=reason) if yes and found else None
        cut_short = len(stores.unfinished(handle))
    _show(found, done, as_json)
    if cut_short:
        typer.echo(f"{cut_short} erasures were cut short: finish them with `certloop store erase --resume`", err=True)


def _show(found: tuple[str, ...], done: Erasure | None, as_json: bool) -> None:
    if as_json:
        out: dict[str, object] = {"documents": list(found), "erased": done is not None}
        if done is not None:
            out |= {"erasure": done.erasure_id, "documents": list(done.documents), "events": done.events, "blobs": done.blobs}
            out |= {"snapshots": list(done.snapshots), "unreachable": list(done.unreachable)}
        typer.echo(json.dumps(out, ensure_ascii=False, indent=2))
    elif done is None:
        typer.echo(f"{len(found)} documents{'; nothing was erased: add --yes' if found else ' found'}")
    else:
        typer.echo(
            f"erasure {done.erasure_id}: {len(done.documents)} documents, {done.events} events, {done.blobs} blobs, "
            f"{len(done.snapshots)} snapshots"
        )
        for folder in done.unreachable:
            typer.echo(f"delete this snapshot where it is: {folder}", err=True)
