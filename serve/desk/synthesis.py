"""Synthetic pages at the desk: previews in memory, one run at a time for each tenant, a blank form from a scan.

Each function authorises its caller. Folders are named here, never by a caller; the runs of a process end with it and can be
gone on with.
"""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.store.blobs import check_tenant
from certloop.agentrl.store.events import new_id
from certloop.serve.errors import ConflictError, RequestError, TooLargeError
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor
    from certloop.synth.config import MakeConfig

PROFILES = ("clean", "scan", "copy", "photo", "screen", "hard")
MOST_PAGES, MOST_SAMPLES, MOST_RUNS = 12, 2000, 20
PREVIEW_WIDTH_PX, TILE_PX = 1000, 620
SEED_END = 2**31
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".heic", ".pdf")
_log = logging.getLogger("certloop.serve.desk")


@dataclass(frozen=True, slots=True)
class Choice:
    """What to make; ``layout`` empty: every layout of the type in turn."""

    type_id: str
    layout: str
    profile: str
    count: int
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """A dataset in the making. ``state``: running, done, failed, stopped (its process ended). ``error``: code of what went
    wrong."""

    name: str
    choice: Choice
    done: int = 0
    state: str = "running"
    error: str = ""
    manifest: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A blank from a scan: both pictures as PNG, the draft of its layout, required fields that were not found."""

    scan: bytes
    erased: bytes
    layout: str
    missing: tuple[str, ...]
    seals: int


_runs: WeakKeyDictionary[Service, dict[str, Run]] = WeakKeyDictionary()
_lock = threading.Lock()


def layouts_of(service: Service, actor: Actor, type_id: str) -> tuple[str, ...]:
    """Raises RequestError for a type that there is not; none where a type has no layouts."""
    actor.require(Permission.SYNTH_RUN)
    from certloop.synth.errors import SynthError
    from certloop.synth.layout import load_layouts

    if type_id not in service.registry.types:
        raise RequestError("no such document type")
    try:
        return tuple(layout.id for layout in load_layouts(type_id, _folders(service)))
    except SynthError:
        return ()


def check(service: Service, actor: Actor, choice: Choice, most: int) -> None:
    """Raises RequestError for anything but known names and numbers within bounds."""
    actor.require(Permission.SYNTH_RUN)
    known = layouts_of(service, actor, choice.type_id)
    if not known:
        raise RequestError("this type has no layouts to draw")
    if choice.layout and choice.layout not in known:
        raise RequestError("no such layout")
    if choice.profile not in PROFILES:
        raise RequestError("no such profile")
    if not 1 <= choice.count <= most:
        raise RequestError(f"the count lies between 1 and {most}")
    if not 0 <= choice.seed < SEED_END:
        raise RequestError("the seed is a number from 0 on")


def preview(service: Service, actor: Actor, choice: Choice) -> list[tuple[str, bytes]]:
    """Captions and JPEGs of pages with the boxes of their values. Raises RequestError and what ``make_sample`` raises."""
    check(service, actor, choice, MOST_PAGES)
    from certloop.synth.label import make_sample
    from certloop.synth.perturb import load_profile
    from certloop.synth.preview import contact_sheet
    from certloop.synth.sample import Recipe
    from certloop.synth.seeds import stream_seed

    ids = (choice.layout,) if choice.layout else layouts_of(service, actor, choice.type_id)
    profile, pages = load_profile(choice.profile), []
    for number in range(choice.count):
        layout = ids[number % len(ids)]
        seed = stream_seed(choice.seed, "preview", number)
        recipe = Recipe(choice.type_id, seed, PREVIEW_WIDTH_PX, layouts=(layout,), search_path=_folders(service))
        out = io.BytesIO()
        contact_sheet([make_sample(recipe, profile)], tile_px=TILE_PX, columns=1).save(out, "JPEG", quality=82)
        pages.append((layout, out.getvalue()))
    return pages


def start(service: Service, actor: Actor, choice: Choice) -> Run:
    """Begin a run in the background. Raises RequestError, and ConflictError while another of the tenant goes on or too many are
    kept."""
    check(service, actor, choice, MOST_SAMPLES)
    base = folder_of(service, actor)
    if base.is_dir() and sum(1 for _ in base.iterdir()) >= MOST_RUNS:
        raise RequestError(f"{MOST_RUNS} runs are kept already; remove old ones from the data folder first")
    return _begin(service, actor, Run(f"run_{new_id()}", choice))


def unfinished(service: Service, actor: Actor) -> tuple[Run, ...]:
    """Runs of the tenant that ended before they were done (a restart, a full disk), the latest first; ``done`` as it stands on
    the disk."""
    base, going = folder_of(service, actor), latest(service, actor)
    found = []
    for folder in sorted(base.glob("run_*"), reverse=True) if base.is_dir() else ():
        if (going is None or going.state != "running" or going.name != folder.name) and not (folder / "manifest.json").exists():
            choice = _planned(folder)
            if choice is not None:
                found.append(Run(folder.name, choice, _written(service, choice, folder), "stopped"))
    return tuple(found)


def resume(service: Service, actor: Actor, name: str) -> Run:
    """Go on with an unfinished run: what it wrote stays. Raises RequestError for one that there is not, ConflictError while
    another goes on."""
    found = next((run for run in unfinished(service, actor) if run.name == name), None)
    if found is None:
        raise RequestError("no such unfinished run")
    check(service, actor, found.choice, MOST_SAMPLES)
    return _begin(service, actor, replace(found, state="running"))


def _begin(service: Service, actor: Actor, run: Run) -> Run:
    folder = folder_of(service, actor) / run.name
    with _lock:
        mine = _runs.setdefault(service, {})
        if actor.tenant in mine and mine[actor.tenant].state == "running":
            raise ConflictError("a run of this tenant goes on already")
        folder.parent.mkdir(parents=True, exist_ok=True)
        mine[actor.tenant] = run
    service.tenant(actor.tenant).note(actor.actor_id, "synthetic run started", run=run.name, count=run.choice.count)
    threading.Thread(target=_make, args=(service, actor.tenant, run, folder), name="synthesis", daemon=True).start()
    return run


def latest(service: Service, actor: Actor) -> Run | None:
    """The tenant's latest run in this process."""
    actor.require(Permission.SYNTH_RUN)
    with _lock:
        return _runs.get(service, {}).get(actor.tenant)


def folder_of(service: Service, actor: Actor) -> Path:
    """Where the tenant's runs are kept."""
    actor.require(Permission.SYNTH_RUN)
    return (service.config.data_dir or service.config.artefacts.parent) / "synthetic" / check_tenant(actor.tenant)


def template(service: Service, actor: Actor, data: bytes, suffix: str, type_id: str) -> Template:
    """A blank form from a scan; nothing of it stays on this machine.

    Raises RequestError, TooLargeError, BlankError (code blank_failed) and what reading raises.
    """
    actor.require(Permission.SYNTH_RUN)
    if type_id not in service.registry.types:
        raise RequestError("no such document type")
    if suffix.lower() not in SUFFIXES:
        raise RequestError("a scan is a picture or a PDF")
    if len(data) > service.config.intake.file_bytes:
        raise TooLargeError("the scan is too large")
    from certloop.extract.ingest import ingest
    from certloop.synth.blank import make_blank

    with TemporaryDirectory(prefix="certloop-blank-") as place:
        scan = Path(place) / f"scan{suffix.lower()}"
        scan.write_bytes(data)
        made = make_blank(scan, type_id, Path(place), name="blank", config=service.config.extract)
        seen = ingest(scan, service.config.extract.limits).pages[0].image
        service.tenant(actor.tenant).note(actor.actor_id, "template drafted from a scan", doc_type=type_id)
        return Template(_png(seen), made.image.read_bytes(), made.layout.read_text("utf-8"), made.missing, made.seals)


def _planned(folder: Path) -> Choice | None:
    """What an unfinished run was to make, from its plan; None for a folder without one that this page could have begun."""
    try:
        recipe = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["recipe"]
        (type_id,), ((profile, _),) = recipe["types"], recipe["profiles"]
        return Choice(type_id, "".join(recipe["layouts"]), profile, recipe["count"], recipe["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _written(service: Service, choice: Choice, folder: Path) -> int:
    from certloop.synth.dataset.work import chunks

    config = _config(service, choice, folder)
    return sum(chunk.last - chunk.first for chunk in chunks(config) if chunk.path(folder).exists())


def _config(service: Service, choice: Choice, folder: Path) -> MakeConfig:
    from certloop.synth.config import MakeConfig

    return MakeConfig(
        folder, (choice.type_id,), choice.count, ((choice.profile, 1.0),), choice.seed, chunk=4,
        layouts=(choice.layout,) if choice.layout else (), search_path=_folders(service),
    )  # fmt: skip


def _make(service: Service, tenant: str, run: Run, folder: Path) -> None:
    from certloop.synth.dataset import make

    choice = run.choice

    def heard(done: int, _wanted: int) -> None:
        if service.ending:
            raise ConflictError("the service is ending")
        _keep(service, tenant, replace(run, done=done))

    try:
        manifest = make(_config(service, choice, folder), heard)
        _keep(service, tenant, replace(run, done=choice.count, state="done", manifest=manifest))
    except CertloopError as error:
        _keep(service, tenant, replace(run, state="failed", error=error.code))
    except Exception:  # noqa: BLE001 - a thread's bug must show as a failed run
        _log.exception("a synthetic run ended")
        _keep(service, tenant, replace(run, state="failed", error="internal"))


def _keep(service: Service, tenant: str, run: Run) -> None:
    with _lock:
        _runs.setdefault(service, {})[tenant] = run


def _folders(service: Service) -> tuple[str, ...]:
    return tuple(str(path) for path in service.config.extract.template_path)


def _png(image: Any) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(image).convert("RGB").save(out, "PNG")
    return out.getvalue()
