"""What can go wrong with releases. Messages hold ids and numbers, never content.

ReleaseError                release_invalid       a release that is not well formed, or a move that makes no sense
├── UnknownReleaseError     release_unknown       no release with this id in this scope
├── RegistryDamagedError    registry_damaged      a record, a log row or a pointer that was changed by hand
├── ArtefactError           artefact_invalid      files that are missing, changed, or of a kind that is never loaded
├── GateError               gate_invalid          scores that cannot be compared
└── ReleaseConflictError    release_conflict      somebody else moved the pointer in between
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class ReleaseError(CertloopError, ValueError):
    """Base of the errors of releases."""

    code = "release_invalid"


class UnknownReleaseError(ReleaseError, LookupError):
    code = "release_unknown"


class RegistryDamagedError(ReleaseError):
    code = "registry_damaged"


class ArtefactError(ReleaseError):
    code = "artefact_invalid"


class GateError(ReleaseError):
    code = "gate_invalid"


class ReleaseConflictError(ReleaseError):
    code = "release_conflict"
