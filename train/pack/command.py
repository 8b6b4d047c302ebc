"""``certloop train pack DIR``: annotated pages to training rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certloop.train.teach.command import TemplatesOption, known_folders

if TYPE_CHECKING:
    from certloop.extract.engine.view import View


def pack_command(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the labelled pictures.", file_okay=False, exists=True)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="One folder of rows for each split stands here.")],
    annotations: Annotated[
        Path | None, typer.Option(metavar="DIR", help="What `certloop train teach` wrote; without it the JSON alone is packed.")
    ] = None,
    labels: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Labels, JSON Lines (repeatable; default: DIR/train.jsonl).")
    ] = None,
    train: Annotated[list[str] | None, typer.Option(metavar="SPLIT", help="Splits to train on (default: train).")] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option("--held-out", metavar="SPLIT", help="Splits that share no layout with others (default: val, test)."),
    ] = None,
    shared_forms: Annotated[bool, typer.Option("--shared-forms", help="Splits may share layouts.")] = False,
    guidance: Annotated[
        bool, typer.Option("--guidance", help="Give half of the rows useful hints, 15 % irrelevant ones.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the hints.")] = 0,
    model: Annotated[str, typer.Option(metavar="MODEL", help="Take the page bounds from this model's processor.")] = "",
    templates: TemplatesOption = None,
    max_pixels: Annotated[int, typer.Option(min=1024, metavar="N", help="Largest page, in pixels.")] = 2_097_152,
    min_pixels: Annotated[int, typer.Option(min=1024, metavar="N", help="Smallest page, in pixels.")] = 65_536,
) -> None:
    """Burn the bridge: drop every helper prompt, keep the generic prompt, the reasoning and the label's JSON.

    Refuses splits that leak (the same picture, an identifying value, a held-out layout) and rows in which a helper's words stand.
    """
    import json

    from certloop.extract.engine.view import View
    from certloop.train.pack.guidance import hint_guide
    from certloop.train.pack.pack import PackConfig, pack
    from certloop.train.teach.annotate import JOURNAL
    from certloop.train.teach.command import pages_of
    from certloop.train.teach.journal import read_annotations

    pages = pages_of(folder, labels, known_folders(context, templates))
    config = PackConfig(
        guide=hint_guide(pages, seed) if guidance else None,
        view=_view(model) if model else View(min_pixels, max_pixels),
        train=tuple(train or ["train"]),
        reasoning=annotations is not None,
        held_out_forms=() if shared_forms else tuple(held_out or ["val", "test"]),
    )
    notes = read_annotations(annotations / JOURNAL) if annotations is not None else {}
    packed = pack(config, pages, notes, out)
    typer.echo(json.dumps(packed.to_json(), ensure_ascii=False))


def _view(model: str) -> View:
    import transformers

    from certloop.extract.engine.inputs import view_of
    from certloop.extract.engine.sources import why_not
    from certloop.train.errors import ModelLoadError
    from certloop.train.models import model_source, need_extra

    need_extra()
    processors: Any = transformers.AutoProcessor
    try:
        return view_of(processors.from_pretrained(model_source(model), trust_remote_code=False))
    except (OSError, ValueError, KeyError) as error:
        raise ModelLoadError(f"the processor of {model} cannot be loaded: {why_not(model, error)}") from None
