"""Errors of the front door. The whole tree is drawn in ``certloop.agentrl.errors``."""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class UsageError(CertloopError, ValueError):
    """A command or a setting that makes no sense; the message says which and what to write instead."""

    code = "usage"
