"""``certloop types``: the document types on the search path, and what one of them holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from certloop.templates import DocumentType, Registry

app = typer.Typer(help="List the document types, or show one of them.", rich_markup_mode=None, pretty_exceptions_enable=False)


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
