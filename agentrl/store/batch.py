"""The write path: what a batch collects becomes durable in one transaction, or not at all."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, insert, select

from certloop.agentrl.signals import schema as signal_schema
from certloop.agentrl.signals.schema import Reason, Signal, Source
from certloop.agentrl.store.blobs import SHA256, BlobStore
from certloop.agentrl.store.errors import BlobMissingError, ErasedError, EventError, NotFoundError
from certloop.agentrl.store.events import Kind, NewEvent, instant, new_id, now
from certloop.agentrl.store.log import append
from certloop.agentrl.store.schema import erased, events, links
from certloop.agentrl.trajectory import Consent, Trajectory, codec, validate

BLOB, SUBJECT = "blob", "subject"
MIN_SUBJECT, MAX_SUBJECT = 2, 100
"""Characters of a corrected value that may name somebody: not a choice of one character, not a text."""
_CHUNK = 400


class Batch:
    """Collects events; ``TenantStore.batch`` writes them when its block ends without an exception.

    Everything is validated when it is added, so that a bad trajectory never costs the others of its transaction.
    """

    def __init__(self, tenant: str, subject_salt: str) -> None:
        self._tenant = tenant
        self._salt = subject_salt
        self._events: list[NewEvent] = []
        self._links: dict[tuple[str, str, str], None] = {}
        self._own_documents: set[str] = set()
        self._document_of: dict[str, str] = {}
        self._wanted: list[int] = []
        self._corrected: list[tuple[str, str]] = []

    def add_document(
        self,
        *,
        images: Sequence[str] = (),
        doc_type: str | None = None,
        consent: Consent = Consent.NONE,
        purpose: str = "",
        subjects: Iterable[str] = (),
        origin: str | None = None,
    ) -> str:
        """Add what a person handed in; returns its id.

        ``images`` are blobs of this tenant by hash, ``consent`` and ``purpose`` what it may be used for, ``subjects`` the names
        or numbers by which somebody may later ask for erasure (only a keyed hash is stored), ``origin`` a word on where it comes
        from.
        """
        for sha256 in images:
            if not SHA256.fullmatch(sha256):
                raise EventError("images are named by their SHA-256, 64 lower-case hexadecimal digits")
        document_id = new_id()
        payload: dict[str, Any] = {"images": list(images), "consent": str(Consent(consent)), "purpose": purpose}
        if origin is not None:
            payload["origin"] = origin
        self._events.append(NewEvent(document_id, Kind.DOCUMENT, payload, now(), document_id, None, doc_type))
        self._own_documents.add(document_id)
        for sha256 in images:
            self._links[(BLOB, sha256, document_id)] = None
        self._link_subjects(document_id, subjects)
        return document_id

    def add_trajectory(self, trajectory: Trajectory, document_id: str | None = None, subjects: Iterable[str] = ()) -> str:
        """Add a trajectory and its steps; returns its id. Without ``document_id`` a document is added from what it says itself.

        ``subjects`` are linked to the document either way: a file that holds several things to read is one document whose
        trajectories each name somebody. Raises TrajectoryError for a trajectory that is not well formed, EventError for
        another tenant's.
        """
        validate(trajectory)
        if trajectory.tenant_id != self._tenant:
            raise EventError("the trajectory names another tenant than the one it is stored for")
        if document_id is None:
            document_id = self.add_document(
                images=trajectory.image_sha256,
                doc_type=trajectory.doc_type,
                consent=trajectory.consent,
                purpose=trajectory.purpose,
                subjects=subjects,
            )
        else:
            for sha256 in trajectory.image_sha256:
                self._links[(BLOB, sha256, document_id)] = None
            self._link_subjects(document_id, subjects)
        at, head = instant(trajectory.created_at), codec.to_json(replace(trajectory, steps=()))
        head["n_steps"] = len(trajectory.steps)
        about: tuple[str, str, str] = (document_id, trajectory.traj_id, trajectory.doc_type)
        self._events.append(NewEvent(trajectory.traj_id, Kind.TRAJECTORY, head, at, *about))
        for step in trajectory.steps:
            payload = codec.step_to_json(step)
            self._events.append(NewEvent(f"{trajectory.traj_id}/{step.t}", Kind.STEP, payload, at, *about))
            reference = None if step.tool_result is None else step.tool_result.payload_ref
            if reference is not None and SHA256.fullmatch(reference):
                self._links[(BLOB, reference, document_id)] = None
        self._document_of[trajectory.traj_id] = document_id
        return trajectory.traj_id

    def add_signal(self, signal: Signal) -> str:
        """Add feedback on a trajectory of this tenant; returns its ``signal_id``. The same signal twice is one signal. What an
        auditor wrote in place of a misread value is a subject of the document from then on."""
        signal_schema.validate(signal)
        new = signal.evidence.get("new") if signal.source is Source.AUDITOR and signal.reason == Reason.EDIT else None
        if isinstance(new, str) and MIN_SUBJECT <= len(new.strip()) <= MAX_SUBJECT:
            self._corrected.append((signal.traj_id, new))
        self._wanted.append(len(self._events))
        self._events.append(
            NewEvent(signal.signal_id, Kind.SIGNAL, signal_schema.to_json(signal), instant(signal.at), None, signal.traj_id)
        )
        return signal.signal_id

    def set_consent(self, document_id: str, consent: Consent, purpose: str) -> None:
        """What the document may be used for from now on; what it was before stays on record."""
        payload = {"consent": str(Consent(consent)), "purpose": purpose}
        self._events.append(NewEvent(new_id(), Kind.CONSENT, payload, now(), document_id))

    def _link_subjects(self, document_id: str, subjects: Iterable[str]) -> None:
        for subject in subjects:
            self._links[(SUBJECT, subject_key(self._salt, subject), document_id)] = None

    def write(self, connection: Connection, blobs: BlobStore, actor: str) -> None:
        """Write everything in the caller's transaction.

        Raises NotFoundError, ErasedError, DuplicateEventError, BlobMissingError (inside the transaction, so that no erasure can
        take a blob between this look and the row that names it).
        """
        for kind, sha256, _ in self._links:
            if kind == BLOB and not blobs.exists(self._tenant, sha256):
                raise BlobMissingError(f"blob {sha256} is missing: put a blob before the event that names it")
        new = self._resolved(connection)
        self._check_documents(connection, {e.document_id for e in new if e.document_id} | {key[2] for key in self._links})
        if not new:
            return
        append(connection, self._tenant, new, actor)
        known: set[tuple[str, str, str]] = set()
        foreign = {key[2] for key in self._links} - self._own_documents
        for part in _chunks(sorted(foreign)):
            found = connection.execute(
                select(links.c.kind, links.c.key, links.c.document_id)
                .where(links.c.tenant == self._tenant)
                .where(links.c.document_id.in_(part))
            )
            known |= {(row.kind, row.key, row.document_id) for row in found}
        rows = [
            {"tenant": self._tenant, "kind": kind, "key": key, "document_id": document_id}
            for kind, key, document_id in self._links
            if (kind, key, document_id) not in known
        ]
        if rows:
            connection.execute(insert(links), rows)

    def _resolved(self, connection: Connection) -> list[NewEvent]:
        """The events with each signal's document; signals that are stored already are left out."""
        if not self._wanted:
            return self._events
        wanted = [self._events[index] for index in self._wanted]
        documents = dict(self._document_of)
        for part in _chunks(sorted({str(e.traj_id) for e in wanted} - set(documents))):
            found = connection.execute(
                select(events.c.traj_id, events.c.document_id)
                .where(events.c.tenant == self._tenant, events.c.kind == str(Kind.TRAJECTORY))
                .where(events.c.traj_id.in_(part))
            )
            documents |= {row.traj_id: row.document_id for row in found}
        seen: set[str] = set()
        for part in _chunks([e.event_id for e in wanted]):
            found = connection.execute(
                select(events.c.event_id).where(events.c.tenant == self._tenant).where(events.c.event_id.in_(part))
            )
            seen |= {row.event_id for row in found}
        out: list[NewEvent] = []
        for event in self._events:
            if event.kind is not Kind.SIGNAL:
                out.append(event)
            elif event.traj_id not in documents:
                raise NotFoundError("a signal speaks about a trajectory that this tenant does not have")
            elif event.event_id not in seen:
                seen.add(event.event_id)
                out.append(replace(event, document_id=documents[event.traj_id]))
        for traj_id, value in self._corrected:
            self._link_subjects(documents[traj_id], [value])
        return out

    def _check_documents(self, connection: Connection, document_ids: set[str]) -> None:
        others = sorted(document_ids - self._own_documents)
        for part in _chunks(others):
            gone = connection.execute(
                select(erased.c.document_id).where(erased.c.tenant == self._tenant).where(erased.c.document_id.in_(part))
            ).first()
            if gone is not None:
                raise ErasedError(f"document {gone.document_id} was erased; nothing more can be stored about it")
            found = connection.execute(
                select(events.c.document_id)
                .where(events.c.tenant == self._tenant, events.c.kind == str(Kind.DOCUMENT))
                .where(events.c.document_id.in_(part))
            )
            missing = set(part) - {row.document_id for row in found}
            if missing:
                raise NotFoundError(f"no document {min(missing)[:64]} in this tenant")


def subject_key(salt: str, subject: str) -> str:
    """A keyed hash of a name or number, spaces, width and case of letters aside: it finds documents and cannot be read."""
    plain = "".join(unicodedata.normalize("NFKC", subject).split()).casefold()
    if not plain:
        raise EventError("a subject must not be empty")
    return hmac.new(bytes.fromhex(salt), plain.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _chunks(items: Sequence[str]) -> Iterable[Sequence[str]]:
    """Databases limit the parameters of one statement."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))
