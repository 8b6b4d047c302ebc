"""``certloop types``: the document types on the search path, what one of them holds, and the guided path to a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from certloop.templates import DocumentType, Registry

app = typer.Typer(
    help="List the document types, show one, or make a new one from scans.", rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback(invoke_without_command=True)
def types(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of lines.")] = False,
) -> None:
    """List the document types on the search path (built in, then the folders of CERTLOOP_TEMPLATE_PATH)."""
    if context.invoked_subcommand is not None:
        return
    registry = _registry()
    if as_json:
        rows = [
            {"id": t.id, "title": t.title, "title_en": t.title_en, "version": t.version, "source": t.source} for t in registry
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for t in registry:
        typer.echo(f"{t.id:<32} v{t.version:<4} {len(t.fields):>2} fields  {t.title} ({t.title_en})  [{t.source}]")


@app.command("show")
def show(
    type_id: Annotated[str, typer.Argument(metavar="T", help="The type's id, as `certloop types` lists it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Show one type: its titles, its fields with labels and aliases, what is required, and its prompt."""
    doc_type = _registry().get(type_id)
    if as_json:
        typer.echo(json.dumps(_to_json(doc_type), ensure_ascii=False, indent=2))
        return
    typer.echo(f"{doc_type.id} v{doc_type.version}: {doc_type.title} ({doc_type.title_en}), from {doc_type.source}")
    typer.echo(f"titles: {', '.join(doc_type.titles)}")
    for group in doc_type.one_of:
        typer.echo(f"one of: {', '.join(group)}")
    typer.echo("fields (* required):")
    for spec in doc_type.fields.values():
        mark = "*" if spec.required else ""
        aliases = f"  also: {', '.join(spec.aliases)}" if spec.aliases else ""
        values = f"  values: {', '.join(spec.values)}" if spec.values else ""
        typer.echo(f"  {spec.id + mark:<24} {spec.kind.value:<11} {spec.label}{values}{aliases}")
    typer.echo(f"prompt:\n{doc_type.prompt.rstrip()}")


@app.command("new")
def new(
    type_id: Annotated[str, typer.Argument(metavar="T", help="The new type's id: lower-case letters, digits, underscores.")],
    scans: Annotated[list[Path], typer.Option("--from", metavar="SCAN", help="A filled scan; give several, of one form.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of types; T is written below it.")],
    title: Annotated[str, typer.Option(metavar="TEXT", help="The printed title, where it is not found.")] = "",
    pages: Annotated[int, typer.Option(min=8, max=1000, metavar="N", help="Synthetic pages: half teach, half judge.")] = 24,
    profile: Annotated[str, typer.Option(metavar="P", help="How they look: a profile of `certloop synth profiles`.")] = "scan",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the pages.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Take the folder as you corrected it; only judge it again.")] = False,
    register: Annotated[
        str, typer.Option("--register", metavar="TENANT", help="Add a release for this tenant (* for all).")
    ] = "",
    database: Annotated[str | None, typer.Option(metavar="URL", help="The service's database, with --register.")] = None,
) -> None:
    """From filled scans of one form to a type: fields, blank, synthetic pages, guidance, evaluation, gate, release.

    Everything is a draft for a person: correct T/type.toml and T/layouts, and run the same again with --keep.
    """
    from certloop.serve.loop.newtype.path import NewTypeConfig, new_type
    from certloop.serve.loop.newtype.path import register as add_release

    config = NewTypeConfig(type_id, out, title, pages=pages, profile=profile, seed=seed, keep=keep)
    if register:
        _check_release(database, register)
    made = new_type(scans, _registry(), config, lambda what: typer.echo(what, err=True))
    body: dict[str, Any] = {
        "type": made.doc_type.id, "folder": str(made.folder), "title": made.doc_type.title,
        "fields": [{"id": f.id, "label": f.label, "kind": f.kind.value} for f in made.doc_type.fields.values()],
        "strict": dict(made.strict), "rules": len(made.rules), "read_as": dict(made.read_as),
        "still_in_the_picture": list(made.still),
        "gate": made.report["verdict"],
    }  # fmt: skip
    if register:
        from certloop.commands.admin import open_service

        with open_service(database) as service:
            body["release"] = add_release(made, service.loop.registry, register)
    typer.echo(json.dumps(body, ensure_ascii=False))
    for note in made.notes:
        typer.echo(note, err=True)


def _check_release(database: str | None, tenant: str) -> None:
    """Before minutes of work: that there is a database, that tenant, and a release that the new one follows."""
    from certloop.commands.admin import open_service
    from certloop.serve.people import tenants

    with open_service(database) as service:
        if tenant != "*":
            tenants.get(service, tenant)
        releases = service.loop.registry
        releases.release(releases.pointer(tenant).active, scope=tenant)


def _registry() -> Registry:
    from certloop.settings import Settings
    from certloop.templates import load_types

    return load_types(Settings.load().template_path)


def _to_json(doc_type: DocumentType) -> dict[str, object]:
    return {
        "id": doc_type.id,
        "version": doc_type.version,
        "title": doc_type.title,
        "title_en": doc_type.title_en,
        "source": doc_type.source,
        "titles": list(doc_type.titles),
        "one_of": [list(group) for group in doc_type.one_of],
        "fields": [
            {
                "id": f.id,
                "label": f.label,
                "kind": f.kind.value,
                "required": f.required,
                "aliases": list(f.aliases),
                "validators": list(f.validator_kinds),
                "values": list(f.values),
            }
            for f in doc_type.fields.values()
        ],
        "prompt": doc_type.prompt,
    }
