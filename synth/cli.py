"""``certloop synth ...``: make datasets, blank forms from scans, contact sheets; list what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Make synthetic certificates with exact labels.", add_completion=False)

TypeOption = Annotated[list[str], typer.Option("--type", metavar="T", help="Document type; repeat it, or `all` for every type.")]
TemplatesOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="DIR", help="Folders of document types, added to CERTLOOP_TEMPLATE_PATH; a later one wins."),
]
SeedOption = Annotated[int, typer.Option(help="The same seed makes the same bytes.")]
_PICTURES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}


@app.callback()
def _known_folders(
    context: typer.Context,
    template_path: Annotated[
        list[Path] | None, typer.Option("--template-path", envvar="CERTLOOP_TEMPLATE_PATH", hidden=True)
    ] = None,
) -> None:
    """Make synthetic certificates with exact labels."""
    context.obj = tuple(template_path or ())


def _folders(context: typer.Context, templates: list[Path] | None) -> tuple[str, ...]:
    """The folders of CERTLOOP_TEMPLATE_PATH, then those of ``--templates``."""
    return tuple(str(p) for p in (*(context.obj or ()), *(templates or ())))


@app.command("make")
def make_command(
    context: typer.Context,
    types: TypeOption,
    out: Annotated[Path, typer.Option(metavar="DIR", help="An empty folder, or an unfinished run of the same command.")],
    count: Annotated[int, typer.Option(min=1, help="Number of images.")] = 100,
    profile: Annotated[
        list[str] | None, typer.Option(metavar="P", help="Treatment (NAME or NAME=WEIGHT); repeat to mix.")
    ] = None,
    seed: SeedOption = 0,
    width: Annotated[int, typer.Option(min=320, max=6000, help="Width of the drawn page in pixels.")] = 1400,
    layout: Annotated[list[str] | None, typer.Option(metavar="L", help="Only these layouts (see `layouts`).")] = None,
    drift: Annotated[int, typer.Option(min=0, max=500, help="Also this many drift editions of each layout.")] = 0,
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME=WEIGHT", help="Splits (default train=.9 validation=.05 test=.05).")
    ] = None,
    misprints: Annotated[
        float, typer.Option(min=0, max=1, help="Share of codes with a wrong check digit, kept in the label.")
    ] = 0.01,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes; any number makes the same bytes.")] = 1,
    parquet: Annotated[bool, typer.Option("--parquet", help="Also write Parquet (needs pyarrow).")] = False,
    templates: TemplatesOption = None,
    writer_url: Annotated[
        str, typer.Option(help="OpenAI-compatible endpoint that writes the values, e.g. http://localhost:8000/v1.")
    ] = "",
    writer_model: Annotated[str, typer.Option(help="Model of that endpoint.")] = "",
    writer_key: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="File that holds its key.")
    ] = None,
) -> None:
    """Write images, labels, TRL and ms-swift rows. Killed and repeated, it goes on where it stopped."""
    from certloop.synth.config import DEFAULT_SPLITS, MakeConfig, WriterConfig
    from certloop.synth.dataset import make
    from certloop.synth.progress import progress_bar
    from certloop.synth.weights import parse_weights

    config = MakeConfig(
        out=out,
        types=_types(types),
        count=count,
        profiles=parse_weights(profile or ["photo"]),
        seed=seed,
        width_px=width,
        splits=parse_weights(split) if split else DEFAULT_SPLITS,
        layouts=tuple(layout or ()),
        drift=drift,
        misprint_rate=misprints,
        workers=workers,
        parquet=parquet,
        search_path=_folders(context, templates),
        writer=WriterConfig(writer_url, writer_model, _key(writer_key)) if writer_url else None,
    )
    with progress_bar("images") as progress:
        manifest = make(config, progress)
    counts = manifest["counts"]
    typer.echo(
        f"{config.out}: {manifest['count']} images, "
        + ", ".join(f"{k.split(':')[1]} {v}" for k, v in counts.items() if k.startswith("split:"))
    )
    if counts.get("writer_fallback"):
        typer.echo(f"the value writer failed for {counts['writer_fallback']} images; the grammar wrote those", err=True)


@app.command("preview")
def preview_command(
    context: typer.Context,
    types: TypeOption,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Image file to write.")] = Path("preview.png"),
    profile: Annotated[str, typer.Option(help="Treatment.")] = "photo",
    count: Annotated[int, typer.Option(min=1, max=60)] = 12,
    seed: SeedOption = 0,
    templates: TemplatesOption = None,
) -> None:
    """Draw a contact sheet: every value in its box, coloured by whether it can still be read."""
    from io import BytesIO

    from certloop.synth.errors import OutputError
    from certloop.synth.files import write_file
    from certloop.synth.preview import preview

    if out.suffix.lower() not in _PICTURES:
        raise OutputError(f"{out.name!r} is no name of a picture; end it with one of {', '.join(_PICTURES)}")
    if not out.parent.is_dir():
        raise OutputError(f"cannot write {out}: {out.parent} is no folder")
    folders = _folders(context, templates)
    for type_id in _types(types):
        path = out if len(types) == 1 and types[0] != "all" else out.with_name(f"{out.stem}_{type_id}{out.suffix}")
        sheet, data = preview(type_id, profile=profile, count=count, seed=seed, search_path=folders), BytesIO()
        sheet.save(data, _PICTURES[out.suffix.lower()])
        write_file(path, data.getvalue())
        typer.echo(str(path))


_STILL_THERE = (
    "only values that the reader found are erased: a portrait, a signature, handwriting and what was overlooked stay; "
    "look at the picture and erase them by hand before you share it"
)


@app.command("blank")
def blank_command(
    context: typer.Context,
    scan: Annotated[Path, typer.Argument(metavar="SCAN", exists=True, dir_okay=False, help="A filled, flat scan.")],
    type_id: Annotated[str, typer.Option("--type", metavar="T", help="Its document type.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the blank image and the layout file are written.")],
    name: Annotated[str, typer.Option(help="Name of the layout (default: from the scan).")] = "",
    force: Annotated[bool, typer.Option("--force", help="Even if the scan is recognised as another type.")] = False,
    templates: TemplatesOption = None,
) -> None:
    """Turn one real scan into a blank form: values erased, their places written as a layout to check and edit."""
    from certloop.extract import ExtractConfig
    from certloop.synth.blank import make_blank

    config = ExtractConfig(template_path=_folders(context, templates))
    blank = make_blank(scan, type_id, out, name=name, config=config, force=force)
    typer.echo(f"{blank.image}\n{blank.layout}: {len(blank.places)} values and {blank.seals} seals erased")
    if blank.flattened:
        typer.echo("perspective was taken out of the photograph", err=True)
    if blank.missing:
        typer.echo(f"not found, add by hand: {', '.join(blank.missing)}", err=True)
        typer.echo(
            "their values, where they are printed, are STILL IN THE PICTURE: erase them by hand before you share it", err=True
        )
    typer.echo(_STILL_THERE, err=True)


@app.command("layouts")
def layouts_command(context: typer.Context, types: TypeOption, templates: TemplatesOption = None) -> None:
    """List the layouts of document types, one a line: type, layout, what it was drawn from."""
    from certloop.synth.layout import load_layouts

    for type_id in _types(types):
        for layout in load_layouts(type_id, _folders(context, templates)):
            typer.echo(f"{type_id}\t{layout.id}\t{layout.drawn_from}")


@app.command("profiles")
def profiles_command() -> None:
    """List the treatments and the steps they may take."""
    from certloop.synth.fields.vocabulary import read_data
    from certloop.synth.perturb import load_profile

    for name in read_data("profiles"):
        profile = load_profile(name)
        typer.echo(f"{name}\t{profile.about}\t{' '.join(step['step'] for step in profile.steps)}")


@app.command("examples")
def examples_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with examples.toml.")] = Path("examples"),
) -> None:
    """Draw the committed example certificates again, byte for byte."""
    from certloop.synth.examples import write_examples

    for path in write_examples(folder):
        typer.echo(str(path))


def _key(file: Path | None) -> str:
    from certloop.synth.errors import OutputError

    try:
        return file.read_text(encoding="utf-8").strip() if file else ""
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{file} cannot be read as a key ({type(error).__name__})") from None


def _types(types: list[str]) -> tuple[str, ...]:
    from certloop.synth.fields import BUILDERS

    return tuple(BUILDERS) if types == ["all"] else tuple(types)
