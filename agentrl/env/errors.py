"""The one error of environments: a task or tool that is not well formed. A bad rollout never raises, it is data."""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class EnvironmentFault(CertloopError, ValueError):
    """A task, tool or limit makes no sense (code environment_invalid)."""

    code = "environment_invalid"
