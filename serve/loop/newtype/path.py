"""The guided path of a new type: folder and blank, synthetic pages, guidance from one half of them, evaluation on the other,
the gate, a release. Each part leaves its files, so that a person may correct them and go on with ``--keep``."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.agentrl.release import Evidence, GateConfig, Origin, Pair, Release, judge, report_html, report_json
from certloop.extract.config import ExtractConfig
from certloop.extract.evaluation.normalise import same_value
from certloop.extract.ingest import Page
from certloop.extract.learning import Case, case_of, guidance_of, learn
from certloop.serve.errors import NewTypeError
from certloop.serve.loop.memo import MemoEngine
from certloop.serve.loop.newtype.folder import write_folder
from certloop.serve.loop.newtype.leftover import Swept, sweep
from certloop.serve.loop.newtype.propose import Draft, propose, read_scans
from certloop.serve.loop.stream import BASE
from certloop.serve.loop.systems import Reader, Rules, right_fields
from certloop.synth.label import Sample, make_sample
from certloop.synth.perturb import load_profile
from certloop.synth.sample import Recipe
from certloop.templates import DocumentType, Registry, reload_types, squash
from certloop.templates.loader import read_type

if TYPE_CHECKING:
    from certloop.agentrl.release import Registry as Releases

GATE = GateConfig(draws=1000, min_discordant=6)
NOTHING_LEFT = "nothing of the scan left on the blank"
ARTEFACT_FILES = ("type.toml", "prompt.txt")


@dataclass(frozen=True, slots=True)
class NewTypeConfig:
    """``pages`` synthetic pages, half to learn from and half to judge; ``others`` pages of other types that must stay as they
    are. ``keep`` takes the type's folder as a person left it."""

    type_id: str
    out: Path
    title: str = ""
    pages: int = 24
    others: int = 10
    profile: str = "scan"
    width_px: int = 1200
    seed: int = 0
    keep: bool = False


@dataclass(frozen=True, slots=True)
class NewType:
    """What came out. ``strict`` is the share of right fields on the judged pages: with the type alone, and with its guidance;
    ``read_as`` counts the types that the judged pages were taken for; ``still`` is print of the scan that the blank still has."""

    folder: Path
    doc_type: DocumentType
    draft: Draft | None
    layout: Path | None
    rules: Rules
    strict: Mapping[str, float]
    fields: Mapping[str, tuple[float, float]]
    report: Mapping[str, Any]
    notes: tuple[str, ...] = field(default=())
    read_as: Mapping[str, int] = field(default_factory=dict)
    still: tuple[str, ...] = ()


def new_type(
    scans: Sequence[Path], registry: Registry, config: NewTypeConfig, progress: Callable[[str], None] = lambda _: None
) -> NewType:
    """Go the whole path. ``registry`` are the types known so far; ``progress`` is told what is done now, in a few words.

    Raises NewTypeError, TemplateError, IngestError, BlankError. What fails before the draft is complete leaves nothing behind.
    """
    _check(scans, registry, config)
    engine, folder = MemoEngine(), config.out / config.type_id
    drafted = _draft(scans, registry, config, engine, progress)
    doc_type = drafted.doc_type
    reload_types((str(config.out),))
    known = Registry({**registry.types, doc_type.id: doc_type})
    pages = []
    for number in range(config.pages):
        if number % 10 == 0:
            progress(f"drawing pages: {number} of {config.pages}")
        pages.append(_synthetic(doc_type.id, config, number))
    reader = Reader(engine, known, ExtractConfig(second_reads=4))
    progress(f"learning from {config.pages // 2} pages")
    rules = _learn(pages[: config.pages // 2], doc_type, engine)
    judged = pages[config.pages // 2 :]
    progress(f"scoring on {len(judged)} pages")
    bare = [right_fields(truth, _read(reader, image, (), doc_type.id), doc_type) for image, truth in judged]
    told = [right_fields(truth, _read(reader, image, rules, doc_type.id), doc_type) for image, truth in judged]
    if sum(map(len, told)) < sum(map(len, bare)):  # guidance that does not help the type is not released with it
        rules, told = (), bare
    read_as = Counter(reader.read(image, rules)[0] for image, _ in judged)
    progress(f"scoring on {config.others} pages of other types")
    evidence = _evidence(judged, told, Reader(engine, registry, reader.config), reader, config)
    evidence = replace(evidence, checks={NOTHING_LEFT: not drafted.swept.still})
    report = report_json(f"type {doc_type.id}", "without the type", evidence, judge(evidence, GATE), GATE)
    total = max(1, sum(len(truth) for _, truth in judged))
    strict = {"type_alone": sum(map(len, bare)) / total, "with_guidance": sum(map(len, told)) / total}
    notes = (*taken_for_others(read_as, known, doc_type), *_notes(drafted, config))
    made = NewType(
        folder,
        doc_type,
        drafted.draft,
        drafted.layout,
        rules,
        strict,
        _by_field(judged, bare, told),
        report,
        notes,
        read_as,
        drafted.swept.still,
    )
    _write(made)
    return made


def _check(scans: Sequence[Path], registry: Registry, config: NewTypeConfig) -> None:
    """Before anything is read or written. Raises NewTypeError."""
    for scan in scans:
        if not scan.is_file():
            raise NewTypeError(f"there is no scan {scan}")
    folder, known = config.out / config.type_id, registry.types.get(config.type_id)
    if folder.exists() and not config.keep:
        raise NewTypeError(f"{folder} exists: --keep goes on with it as it is; remove the folder to begin anew")
    if known is not None and (known.source == "builtin" or Path(known.source).resolve() != config.out.resolve()):
        raise NewTypeError(f"the id {config.type_id} is taken by the type {known.title} ({known.source}); choose another")


@dataclass(frozen=True, slots=True)
class _Drafted:
    doc_type: DocumentType
    draft: Draft | None
    layout: Path | None
    missing: tuple[str, ...]
    swept: Swept


def _draft(
    scans: Sequence[Path], registry: Registry, config: NewTypeConfig, engine: MemoEngine, progress: Callable[[str], None]
) -> _Drafted:
    """The folder with its blank: as a person left it, or drawn up aside and moved into place when it is complete."""
    pages = read_scans(scans, engine, progress)
    if config.keep:
        doc_type = read_type(config.out / config.type_id)
        layout, missing = _blank(scans[0], config)
        progress("looking for values that are left on the blank")
        pictures = sorted((config.out / config.type_id / "layouts").glob("*.toml"))
        still = [text for one in pictures for text in sweep(one, pages, doc_type, registry, engine, erase=False).still]
        return _Drafted(doc_type, None, layout, missing, Swept(still=tuple(still)))
    draft = propose(pages, registry, config.title)
    with drafted_aside(config) as aside:
        doc_type = write_folder(draft, config.type_id, aside.out)
        progress("erasing the values of the first scan")
        layout, missing = _blank(scans[0], aside)
        progress("looking for values that are left on the blank")
        swept = sweep(layout, pages, doc_type, registry, engine, erase=True)
    return _Drafted(doc_type, draft, config.out / config.type_id / "layouts" / layout.name, missing, swept)


@contextmanager
def drafted_aside(config: NewTypeConfig) -> Iterator[NewTypeConfig]:
    """A folder of types beside the wanted one; its type is moved there at the end, or everything is removed."""
    ready = config.out.exists()
    try:
        config.out.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{config.type_id}-", dir=config.out))
    except OSError as error:
        raise NewTypeError(f"{config.out} cannot be written: {error.strerror}") from None
    try:
        yield replace(config, out=aside)
        (aside / config.type_id).rename(config.out / config.type_id)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        if not ready:
            with suppress(OSError):
                config.out.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def register(made: NewType, releases: Releases, scope: str) -> str:
    """Add a release with the type and its guidance; it serves nobody until it is staged. Returns its id."""
    active = releases.release(releases.pointer(scope).active, scope=scope)
    with tempfile.TemporaryDirectory(prefix="certloop-type-") as name:
        for file in (*ARTEFACT_FILES, "guidance.json"):
            source = made.folder / file
            (Path(name) / file).write_bytes(source.read_bytes())
        digest = releases.artefacts.add(Path(name))
    with tempfile.TemporaryDirectory(prefix="certloop-gate-") as name:
        (Path(name) / "gate.json").write_text(json.dumps(made.report, ensure_ascii=False), "utf-8")
        (Path(name) / "gate.html").write_text(report_html(dict(made.report)), "utf-8")
        gate = releases.artefacts.add(Path(name))
    release = Release(
        f"type-{made.doc_type.id}-{digest[:10]}"[:64], active.engine, active.base_model,
        artefacts={**active.artefacts, f"type-{made.doc_type.id}"[:64]: digest, "gate": gate},
        prompt_version=active.prompt_version, harness_version=active.harness_version, memory_snapshot=active.memory_snapshot,
        gate_report_sha256=str(made.report["sha256"]), parent=active.release_id, notes=f"new type {made.doc_type.id}",
    )  # fmt: skip
    return releases.register(release, scope=scope)


Drawn = tuple[Page, dict[str, str]]


def _blank(scan: Path, config: NewTypeConfig) -> tuple[Path, tuple[str, ...]]:
    """A blank and a layout of the first scan, unless a person corrected one already."""
    from certloop.synth.blank import make_blank

    layouts = config.out / config.type_id / "layouts"
    if config.keep and (ready := sorted(layouts.glob("*.toml"))):
        return ready[0], ()
    layouts.mkdir(exist_ok=True)
    reload_types((str(config.out),))
    reading = ExtractConfig(template_path=(str(config.out),))
    blank = make_blank(scan, config.type_id, layouts, name="scan", config=reading, force=True)
    return blank.layout, blank.missing


def _synthetic(type_id: str, config: NewTypeConfig, number: int) -> Drawn:
    recipe = Recipe(type_id, config.seed * 100_003 + 7_000 + number, config.width_px, search_path=(str(config.out),))
    return _page(make_sample(recipe, load_profile(config.profile)))


def _page(sample: Sample) -> Drawn:
    height, width = sample.image.shape[:2]
    fields = {label: value for label, value in sample.label["fields"].items() if value}
    return Page(sample.image, 0, width, height, 1.0, "png"), fields


def _learn(pages: Sequence[Drawn], doc_type: DocumentType, engine: MemoEngine) -> Rules:
    """Rules for what the layout reader gets wrong, each replayed on all pages before it is kept."""
    ids = {spec.label: spec.id for spec in doc_type.fields.values()}
    cases = []
    for number, (page, truth) in enumerate(pages):
        said = {ids[label]: value for label, value in truth.items() if label in ids}
        cases.append(case_of(str(number), page.image, engine, doc_type.id, said))
    rules: list[tuple[str, str, Mapping[str, Any]]] = []
    for case in cases:
        found = learn(
            case, _wrong(case, doc_type, rules), [c for c in cases if c is not case], doc_type, guidance_of(rules).hints
        )
        rules += [(kind, doc_type.id, body) for _, (kind, body) in found]
    return tuple(rules)


def _wrong(case: Case, doc_type: DocumentType, rules: Rules | list[Any]) -> list[str]:
    from certloop.extract.learning import read_case

    values, _ = read_case(case, doc_type, guidance_of(rules).hints)
    return [
        name
        for name, truth in case.truth.items()
        if truth and not same_value(doc_type.fields[name].label, truth, values.get(name), kind=doc_type.fields[name].kind.value)
    ]


def _read(reader: Reader, page: Page, rules: Rules, type_id: str) -> dict[str, str]:
    found, values = reader.read(page, rules)
    return values if found == type_id else {}


def _evidence(
    judged: Sequence[Drawn], told: Sequence[set[str]], without: Reader, reader: Reader, config: NewTypeConfig
) -> Evidence:
    target = [
        Pair(f"new-{n}", config.type_id, 0.0, len(right) / max(1, len(truth)), Origin.SYNTHETIC)
        for n, ((_, truth), right) in enumerate(zip(judged, told, strict=True))
    ]
    retained = []
    forms = [form for form in BASE if form[0] in without.registry.types and form[0] != config.type_id]
    for number in range(config.others):
        type_id, layout = forms[number % len(forms)]
        recipe = Recipe(type_id, config.seed * 100_003 + 9_000 + number, config.width_px, layouts=(layout,))
        page, truth = _page(make_sample(recipe, load_profile(config.profile)))
        kind = without.registry.get(type_id)
        scores = [len(right_fields(truth, _read(one, page, (), type_id), kind)) / max(1, len(truth)) for one in (without, reader)]
        retained.append(Pair(f"old-{number}", type_id, scores[0], scores[1], Origin.SYNTHETIC))
    return Evidence(target, retained)


def _by_field(judged: Sequence[Drawn], bare: Sequence[set[str]], told: Sequence[set[str]]) -> dict[str, tuple[float, float]]:
    labels = {label for _, truth in judged for label in truth}
    out = {}
    for label in sorted(labels):
        shown = [n for n, (_, truth) in enumerate(judged) if label in truth]
        out[label] = (sum(label in bare[n] for n in shown) / len(shown), sum(label in told[n] for n in shown) / len(shown))
    return out


def taken_for_others(read_as: Mapping[str, int], known: Registry, doc_type: DocumentType) -> tuple[str, ...]:
    """A sentence for each other type that pages of the new one were taken for."""
    total, notes = sum(read_as.values()), []
    for type_id, n in sorted(read_as.items()):
        if type_id == doc_type.id:
            continue
        other = known.types.get(type_id)
        why = "no type was recognised on them; check the title"
        if other is not None and {*map(squash, other.titles)} & {*map(squash, doc_type.titles)}:
            why = "it has the same title, and the reader goes by titles; give the new type a title of its own or extend that type"
        elif other is not None:
            why = f"its title is {other.title}; tell the two apart by title and labels"
        notes.append(f"{n} of {total} pages were read as {type_id}, not as {doc_type.id}, and count as wrong: {why}")
    return tuple(notes)


def _notes(drafted: _Drafted, config: NewTypeConfig) -> tuple[str, ...]:
    notes = list(drafted.draft.notes) if drafted.draft else []
    if drafted.missing:
        notes.append(f"the blank has no place for {', '.join(drafted.missing)}: add it to the layout by hand")
    notes += _left_notes(drafted.swept)
    notes.append("synthetic pages show the layout of one scan: they say nothing of real forms that look otherwise")
    notes.append(f"corrected the folder? run again with --keep; use it with CERTLOOP_TEMPLATE_PATH={config.out}")
    return tuple(notes)


def _left_notes(swept: Swept) -> list[str]:
    notes = []
    if swept.erased:
        notes.append(f"taken off the blank, for no other scan has it or it stands beside a label: {', '.join(swept.erased)}")
    if swept.still:
        notes.append(
            f"still in the picture of the blank: {', '.join(swept.still)}. Erase it by hand (or list it in stop_labels of "
            "type.toml, if it is print of the form) and run again with --keep; until then the gate does not promote"
        )
    notes.append("portraits, signatures and handwriting are not looked for: look at layouts/*.png before you share the folder")
    return notes


def _write(made: NewType) -> None:
    rules = [{"kind": kind, "key": key, "body": dict(body)} for kind, key, body in made.rules]
    (made.folder / "guidance.json").write_text(json.dumps(rules, ensure_ascii=False, indent=1) + "\n", "utf-8")
    body = {
        "strict": dict(made.strict), "fields": {label: list(pair) for label, pair in made.fields.items()},
        "proposed": None if made.draft is None else [asdict(one) | {"kind": one.kind.value} for one in made.draft.fields],
        "read_as": dict(made.read_as), "still_in_the_picture": list(made.still),
        "notes": list(made.notes), "gate": dict(made.report),
    }  # fmt: skip
    (made.folder / "report.json").write_text(json.dumps(body, ensure_ascii=False, indent=1) + "\n", "utf-8")
    (made.folder / "report.html").write_text(report_html(dict(made.report)), "utf-8")
