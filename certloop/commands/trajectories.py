"""``certloop trajectories``: what the store knows, as lines, as a story, as training rows, as a snapshot."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from certloop.commands.store import JsonOption, StoreOption, TenantOption, actor, open_store, open_tenant

if TYPE_CHECKING:
    from certloop.agentrl.store import Filters, Redactor, StoredTrajectory, TenantStore

app = typer.Typer(
    help="List and show trajectories, export training rows, write snapshots.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Rows(StrEnum):
    """What ``export`` writes: SFT rows of TRL and ms-swift, on-policy rows with ground truth, tinker data, or plain records."""

    TRL = "trl"
    TRL_COMPLETION = "trl-completion"
    TRL_PROMPT = "trl-prompt"
    SWIFT = "swift"
    TINKER = "tinker"
    JSONL = "jsonl"


class Least(StrEnum):
    TENANT = "tenant"
    SHARED = "shared"


TypeOption = Annotated[list[str] | None, typer.Option("--type", metavar="T", help="Only this document type (repeatable).")]
FieldOption = Annotated[list[str] | None, typer.Option("--field", metavar="ID", help="Only with feedback on this field.")]
SinceOption = Annotated[str | None, typer.Option(metavar="INSTANT", help="Created then or later, ISO 8601 with time zone.")]
UntilOption = Annotated[str | None, typer.Option(metavar="INSTANT", help="Created before, ISO 8601 with time zone.")]
MinOption = Annotated[float | None, typer.Option(min=-1, max=1, metavar="R", help="Fused reward at least this.")]
MaxOption = Annotated[float | None, typer.Option(min=-1, max=1, metavar="R", help="Fused reward at most this.")]
PurposeOption = Annotated[str | None, typer.Option(metavar="WORDS", help="Only documents whose consent was given for just this.")]
LeastOption = Annotated[Least, typer.Option(help="The least that the documents' consent must allow now.")]


@app.command("list")
def list_(
    tenant: TenantOption = "default",
    url: StoreOption = None,
    doc_type: TypeOption = None,
    field: FieldOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    min_reward: MinOption = None,
    max_reward: MaxOption = None,
    purpose: PurposeOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """List trajectories, oldest first: id, time, type, outcome, consent, reward. No value of a document is shown."""
    from itertools import islice

    from certloop.agentrl.store.exporters import fused_reward

    filters = _filters(doc_type, field, since, until, min_reward, max_reward, purpose)
    with open_store(url) as store:
        handle = open_tenant(store, tenant)
        _check_types(handle, doc_type)
        stream = handle.trajectories(filters, fused_reward)
        for count, stored in enumerate(islice(stream, limit + 1)):
            if count == limit:
                typer.echo(f"these are the first {limit}; --limit shows more", err=True)
                break
            t, reward = stored.trajectory, fused_reward(stored.trajectory, stored.signals)
            row = {
                "id": t.traj_id,
                "created_at": t.created_at,
                "doc_type": t.doc_type,
                "outcome": str(t.outcome),
                "consent": str(stored.state.consent),
                "signals": len(stored.signals),
                "reward": reward,
            }
            shown = f"{'-' if reward is None else format(reward, '+.2f'):>6}"
            line = f"{t.traj_id:<32} {t.created_at[:19]} {t.doc_type:<28} {t.outcome:<9} {stored.state.consent:<6} {shown}"
            typer.echo(json.dumps(row, ensure_ascii=False) if as_json else line)


@app.command("show")
def show(
    traj_id: Annotated[str, typer.Argument(metavar="ID", help="The id, as `certloop trajectories list` shows it.")],
    tenant: TenantOption = "default",
    url: StoreOption = None,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show values unredacted; the audit trail will say so.")] = False,
    width: Annotated[int, typer.Option(min=40, metavar="N", help="Longest line.")] = 120,
    as_json: JsonOption = False,
) -> None:
    """Show one trajectory: its steps, its answer, what was said about it. Values are redacted unless --reveal is given."""
    from dataclasses import replace

    from certloop.agentrl.signals.schema import to_json as signal_to_json
    from certloop.agentrl.store import redact_signal, redact_trajectory
    from certloop.agentrl.trajectory import to_json
    from certloop.agentrl.trajectory.render import render
    from certloop.extract.redaction import certificate_redactor
    from certloop.settings import Settings
    from certloop.templates import load_types

    registry = load_types(Settings.load().template_path)
    with open_store(url) as store:
        handle = open_tenant(store, tenant)
        stored = handle.trajectory(traj_id)
        if reveal:
            handle.note(actor(), "reveal", trajectory=traj_id)
    trajectory, signals = replace(stored.trajectory, consent=stored.state.consent), stored.signals  # what is in force
    if not reveal:
        redactor = certificate_redactor(trajectory, signals, registry)
        trajectory, signals = redact_trajectory(trajectory, redactor), tuple(redact_signal(s, redactor) for s in signals)
    if as_json:
        out = {"trajectory": to_json(trajectory), "signals": [signal_to_json(s) for s in signals]}
        out |= {"document_id": stored.document_id, "consent": str(stored.state.consent), "purpose": stored.state.purpose}
        typer.echo(json.dumps(out, ensure_ascii=False, indent=2))
        return
    typer.echo(render(trajectory, width=width), nl=False)
    for signal in signals:
        where = signal.field or signal.scope
        typer.echo(f"{signal.at[:19]} {signal.source} {signal.actor}: {where} {signal.value:+.2f} ({signal.reason})")


@app.command("export")
def export(
    rows: Annotated[Rows, typer.Option("--format", help="Whose rows.")] = Rows.TRL,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to standard output.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the pages here (default: images/ beside the output).")
    ] = None,
    tenant: TenantOption = "default",
    url: StoreOption = None,
    doc_type: TypeOption = None,
    field: FieldOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    min_reward: MinOption = None,
    max_reward: MaxOption = None,
    purpose: PurposeOption = None,
    consent: LeastOption = Least.TENANT,
    unapproved: Annotated[
        bool, typer.Option(help="Also answers that no auditor approved, as they were given (a teacher's, for instance).")
    ] = False,
    image_token: Annotated[
        int | None, typer.Option(metavar="N", help="For tinker: the id of the model's image token; its runs become the pages.")
    ] = None,
) -> None:
    """Write training rows of consented documents as JSON Lines. They hold true labels: they are for this tenant's training only.

    trl (messages), trl-completion (prompt and completion) and swift take the approved answer (with the auditor's edits) as
    completion, trl-prompt as ground truth; tinker takes the sampled tokens with the fused reward as advantage (--image-token says
    where the pages stand in those of a model that sees); jsonl writes the records as they are.
    """
    from certloop.agentrl.store.exporters import fused_reward

    filters = _filters(doc_type, field, since, until, min_reward, max_reward, purpose, consent)
    folder = images or (output.parent / "images" if output is not None else Path("images"))
    counts = {"written": 0, "skipped": 0}
    with open_store(url) as store, _lines(output) as lines:
        handle = open_tenant(store, tenant)
        _check_types(handle, doc_type)
        make = _maker(rows, handle, folder, unapproved, image_token)
        handle.note(actor(), "export", rows=rows.value)
        for stored in handle.trajectories(filters, fused_reward):
            row = make(stored)
            counts["skipped" if row is None else "written"] += 1
            if row is not None:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    where = f"; pages in {folder}" if counts["written"] and rows not in (Rows.JSONL, Rows.TINKER) else ""
    typer.echo(f"{counts['written']} rows, {counts['skipped']} {_left_out(rows, unapproved)}{where}", err=True)


@app.command("judge")
def judge(
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="OpenAI-compatible server, up to /v1 (default: CERTLOOP_JUDGE_URL).")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its model; the signals bear this name (default: CERTLOOP_JUDGE_MODEL).")
    ] = None,
    votes: Annotated[int, typer.Option(min=1, max=99, metavar="N", help="Ask so often; the majority counts.")] = 3,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Ask about at most so many trajectories.")] = None,
    tenant: TenantOption = "default",
    url: StoreOption = None,
    doc_type: TypeOption = None,
) -> None:
    """Have a language model judge whole trajectories, each once. What it is sent is redacted and holds no picture.

    Its word counts in rewards until an auditor speaks. The file of its key is CERTLOOP_JUDGE_KEY_FILE. What was judged before an
    endpoint failed is kept; run the same command again.
    """
    from collections import Counter

    from certloop.agentrl.store import Judgement, judge_trajectories
    from certloop.errors import UsageError
    from certloop.extract.redaction import certificate_redactor
    from certloop.settings import Settings
    from certloop.templates import load_types

    settings = Settings.load()
    config = settings.judge_config(endpoint, model, votes)
    if config is None:
        raise UsageError("say who judges: --endpoint URL and --model NAME, or CERTLOOP_JUDGE_URL and CERTLOOP_JUDGE_MODEL")
    registry, counts = load_types(settings.template_path), Counter[Judgement]()

    def redactor_of(stored: StoredTrajectory) -> Redactor:
        return certificate_redactor(stored.trajectory, stored.signals, registry, whole_answer=True)

    filters = _filters(doc_type, None, None, None, None, None, None)
    with open_store(url) as store:
        handle = open_tenant(store, tenant)
        _check_types(handle, doc_type)
        try:
            for one in judge_trajectories(handle, config, redactor_of, actor=actor(), filters=filters, limit=limit):
                counts[one] += 1
        finally:
            typer.echo(", ".join(f"{counts[one]} {one}" for one in Judgement))


@app.command("snapshot")
def snapshot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder for it is made in here.")],
    tenant: TenantOption = "default",
    url: StoreOption = None,
    doc_type: TypeOption = None,
    field: FieldOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    min_reward: MinOption = None,
    max_reward: MaxOption = None,
    purpose: PurposeOption = None,
    consent: LeastOption = Least.TENANT,
    as_json: JsonOption = False,
) -> None:
    """Write an immutable training set of consented documents: Parquet parts, then its manifest."""
    from certloop.agentrl.store import create_snapshot
    from certloop.agentrl.store.exporters import fused_reward

    filters = _filters(doc_type, field, since, until, min_reward, max_reward, purpose, consent)
    with open_store(url) as store:
        handle = open_tenant(store, tenant)
        _check_types(handle, doc_type)
        made = create_snapshot(handle, folder, filters, actor=actor(), reward_of=fused_reward, reward_name="fused")
    if as_json:
        typer.echo(json.dumps(dict(made.manifest) | {"folder": str(made.folder)}, ensure_ascii=False, indent=2))
    else:
        typer.echo(f"snapshot {made.snapshot_id}: {made.manifest['rows']} trajectories in {made.folder}")


def _left_out(rows: Rows, unapproved: bool) -> str:
    if rows is Rows.TINKER:
        return "without sampled tokens (only a model has them) or without a reward"
    if unapproved:
        return "without any answer or of a type that is not known here"
    return "without approved answer (--unapproved takes them as they were given)"


def _check_types(handle: TenantStore, names: list[str] | None) -> None:
    """Raises UnknownTypeError for a name that neither the types here nor a document of this tenant bears: a slip of the pen."""
    from certloop.agentrl.store import Filters
    from certloop.settings import Settings
    from certloop.templates import load_types

    for name in names or ():
        if next(handle.trajectories(Filters((name,))), None) is None and name != "unknown":
            load_types(Settings.load().template_path).get(name)


def _filters(
    doc_type: list[str] | None,
    field: list[str] | None,
    since: str | None,
    until: str | None,
    min_reward: float | None,
    max_reward: float | None,
    purpose: str | None,
    consent: Least | None = None,
) -> Filters:
    from certloop.agentrl.store import Filters
    from certloop.agentrl.trajectory import Consent

    least = Consent.NONE if consent is None else Consent(consent.value)
    return Filters(tuple(doc_type or ()), (), tuple(field or ()), (), since, until, least, purpose, min_reward, max_reward)


def _maker(
    rows: Rows, handle: TenantStore, folder: Path, unapproved: bool, image_token: int | None
) -> Callable[[StoredTrajectory], dict[str, Any] | None]:
    """The function that makes one row, or None for a trajectory that has no such row."""
    from certloop.agentrl.signals.schema import to_json as signal_to_json
    from certloop.agentrl.store import exporters
    from certloop.agentrl.trajectory import to_json
    from certloop.errors import UsageError
    from certloop.settings import Settings
    from certloop.templates import load_types

    registry = load_types(Settings.load().template_path)

    def record(stored: StoredTrajectory) -> dict[str, Any]:
        return {"trajectory": to_json(stored.trajectory), "signals": [signal_to_json(s) for s in stored.signals]}

    def datum(stored: StoredTrajectory) -> dict[str, Any] | None:
        t, reward = stored.trajectory, exporters.fused_reward(stored.trajectory, stored.signals)
        if not t.token_ids or reward is None:
            return None
        if image_token is None:
            if t.image_sha256 and exporters.shows_images(t):
                raise UsageError("these tokens hold images: say --image-token, the id of the model's image token")
            return exporters.tinker_rl_datum(t, reward)
        pages = [handle.get_blob(sha256) for sha256 in t.image_sha256]
        images = [(page, "png" if page.startswith(b"\x89PNG") else "jpeg") for page in pages]
        return exporters.tinker_rl_datum(t, reward, image_token_id=image_token, images=images)

    def labelled(stored: StoredTrajectory) -> dict[str, Any] | None:
        t = stored.trajectory
        answer = exporters.approved_answer(t, stored.signals) or (t.final_json if unapproved else None)
        if answer is None or t.doc_type not in registry.types:  # a document of unknown type has no prompt
            return None
        prompt, pages = registry.get(t.doc_type).prompt, exporters.write_images(handle, t.image_sha256, folder)
        if rows is Rows.SWIFT:
            return exporters.swift_row(prompt, answer, pages)
        if rows is Rows.TRL_COMPLETION:
            return exporters.trl_prompt_completion_row(prompt, answer, pages)
        if rows is Rows.TRL_PROMPT:
            return exporters.trl_prompt_row(prompt, answer, pages, traj_id=t.traj_id, doc_type=t.doc_type)
        return exporters.trl_messages_row(t, prompt, answer, pages)

    return {Rows.JSONL: record, Rows.TINKER: datum}.get(rows, labelled)


@contextmanager
def _lines(output: Path | None) -> Iterator[IO[str]]:
    """Standard output, or a file that appears only when it is whole. Links are followed; a device or pipe is written to."""
    from certloop.agentrl.errors import CertloopError
    from certloop.errors import UsageError

    if output is None:
        yield sys.stdout
        return
    target, aside = Path(os.path.realpath(output)), None
    try:
        if target.is_file() or not os.path.lexists(target):
            aside = target.with_name(f".{target.name}.partial")
        with (aside or target).open("w", encoding="utf-8") as file:
            yield file
        if aside is not None:
            aside.replace(target)
    except CertloopError:  # some are OSErrors, too
        raise
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or type(error).__name__}") from None
    finally:
        if aside is not None:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
