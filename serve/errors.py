"""What can go wrong in the service. Each class has its own stable code; messages hold ids and counts, never content.

ServeError                     serve_error                base
├── UnauthenticatedError       unauthenticated            no key or session, or one that is not valid (any more)
│   └── LoginError             login_failed               a login and password that do not go together
├── ForbiddenError             forbidden                  the role or the key's scopes do not allow it
│   └── CsrfError              csrf                       a write by cookie without its token, or from another site
├── RequestError               request_invalid            a request that is not well formed
│   ├── CursorError            cursor_invalid             a cursor of another tenant, another list, or none
│   ├── ArchiveError           archive_invalid            a damaged, locked or empty archive
│   │   └── ArchiveUnsafeError archive_unsafe             an archive whose entries point outside of it
│   ├── FetchError             fetch_failed               an address that is refused, or gives no file
│   ├── IdempotencyError       idempotency_key            a key that came with another request before
│   └── TargetError            webhook_target             an address that webhooks are not sent to
├── ConflictError              conflict                   the thing is in another state than the request needs
│   ├── NotReadyError          not_ready                  a result that is not there yet
│   ├── ClaimedError           review_claimed             somebody else holds the review
│   ├── UnsaidError            fields_unsaid              an approval of another type whose required fields nobody filled in
│   └── UndoError              undo_too_late              a decision that cannot be taken back (any more)
├── PreconditionError          precondition_failed        If-Match names another revision than the current one
├── PreconditionMissingError   precondition_required      a change without If-Match
├── TooLargeError              too_large                  a body over the limit
│   └── ArchiveTooLargeError   archive_too_large          too many entries, too many bytes, or a bomb
├── MediaTypeError             media_type                 a body of another kind than the route takes
├── LimitedError               rate_limited               more requests than the tenant's rate
│   ├── LockedOutError         locked_out                 too many wrong passwords; wait
│   └── QueueFullError         queue_full                 the tenant's queue is full
├── SettingsError              tenant_settings            settings of a tenant that make no sense
├── CalibrationError           calibration_invalid        a calibration that is not well formed, or too little to fit one on
├── ReplicaError               replica_failed             a model server that did not take a release's adapter
├── NewTypeError               new_type_failed            scans from which no document type can be proposed
├── WorkerRunningError         worker_running             another process works on this SQLite database already
├── ReadError                  read_failed                a document that was not read; tried again, then dead
│   ├── ReadTimeoutError       read_timeout               it took longer than its time
│   ├── ReaderCrashedError     worker_crashed             the process that read it ended
│   ├── ReaderFailedError      reader_failed              an unexpected error while reading
│   └── ReaderStoppedError     reader_stopped             cancelled, or the service is ending
├── TelemetryError             telemetry_missing          traces are wanted and their packages are not installed
├── ServiceClosedError         service_closed             this process accepts no work (draining, or jobs were not started)
├── ListenError                listen_failed              an address or port that this process cannot listen on
└── DemoError                  demo_refused               demo mode anywhere but on a loopback address
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from certloop.agentrl.errors import CertloopError


class ServeError(CertloopError):
    """Base of the service's errors. ``headers`` go with the answer; ``errors`` names the places of a request that are wrong: rows
    of {"loc": [...], "message": "..."}, without what stood there."""

    code = "serve_error"
    errors: tuple[Mapping[str, object], ...] = ()

    @property
    def headers(self) -> Mapping[str, str]:
        return {}


class UnauthenticatedError(ServeError, PermissionError):
    code = "unauthenticated"

    @property
    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": "Bearer"}


class LoginError(UnauthenticatedError):
    code = "login_failed"


class ForbiddenError(ServeError, PermissionError):
    code = "forbidden"


class CsrfError(ForbiddenError):
    code = "csrf"


class RequestError(ServeError, ValueError):
    code = "request_invalid"

    def __init__(self, message: str, errors: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class CursorError(RequestError):
    code = "cursor_invalid"


class ArchiveError(RequestError):
    code = "archive_invalid"


class ArchiveUnsafeError(ArchiveError):
    code = "archive_unsafe"


class FetchError(RequestError):
    code = "fetch_failed"


class IdempotencyError(RequestError):
    code = "idempotency_key"


class TargetError(RequestError):
    """``lasting``: it will be refused tomorrow, too; False for a name that cannot be resolved just now."""

    code = "webhook_target"

    def __init__(self, message: str, *, lasting: bool = True) -> None:
        super().__init__(message)
        self.lasting = lasting


class ConflictError(ServeError, ValueError):
    code = "conflict"


class ClaimedError(ConflictError):
    code = "review_claimed"


class UnsaidError(ConflictError):
    code = "fields_unsaid"

    def __init__(self, message: str, errors: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class UndoError(ConflictError):
    code = "undo_too_late"


class CalibrationError(ServeError, ValueError):
    code = "calibration_invalid"


class NotReadyError(ConflictError):
    """``retry_after_s``: when it is worth asking again."""

    code = "not_ready"

    def __init__(self, message: str, retry_after_s: float = 2.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(max(1, round(self.retry_after_s)))}


class PreconditionError(ServeError, ValueError):
    code = "precondition_failed"


class PreconditionMissingError(ServeError, ValueError):
    code = "precondition_required"


class TooLargeError(ServeError, ValueError):
    code = "too_large"


class ArchiveTooLargeError(TooLargeError):
    code = "archive_too_large"


class MediaTypeError(ServeError, ValueError):
    code = "media_type"


class LimitedError(ServeError, RuntimeError):
    """``retry_after_s``: when it is worth trying again."""

    code = "rate_limited"

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(max(1, math.ceil(min(self.retry_after_s, 86_400.0))))}


class LockedOutError(LimitedError):
    code = "locked_out"


class QueueFullError(LimitedError):
    code = "queue_full"


class SettingsError(RequestError):
    code = "tenant_settings"


class ListenError(ServeError, OSError):
    code = "listen_failed"


class DemoError(ServeError, ValueError):
    code = "demo_refused"


class TelemetryError(ServeError, RuntimeError):
    code = "telemetry_missing"


class ServiceClosedError(ServeError, RuntimeError):
    code = "service_closed"


class ReplicaError(ServeError):
    code = "replica_failed"


class NewTypeError(ServeError, ValueError):
    code = "new_type_failed"


class WorkerRunningError(ServeError, RuntimeError):
    code = "worker_running"


class ReadError(ServeError, RuntimeError):
    code = "read_failed"


class ReadTimeoutError(ReadError, TimeoutError):
    code = "read_timeout"


class ReaderCrashedError(ReadError):
    code = "worker_crashed"


class ReaderFailedError(ReadError):
    code = "reader_failed"


class ReaderStoppedError(ReadError):
    code = "reader_stopped"
