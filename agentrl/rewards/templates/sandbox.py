"""Calls a function of code that a model wrote, in its own locked process with limits on time, memory and output (Linux).

The child never sees what is expected: it gets arguments and returns values, so a test cannot be talked into passing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certloop.agentrl.errors import CertloopError

_CHILD = Path(__file__).with_name("sandbox_child.py")
_UNAVAILABLE, _READY = 70, b"ready\n"  # as in sandbox_child


class SandboxUnavailable(CertloopError, RuntimeError):
    """This machine cannot lock a process (needs Linux on x86-64 or ARM64 with seccomp filters)."""

    code = "sandbox_unavailable"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one run over all of its calls. ``memory_bytes`` is address space and counts the interpreter too."""

    cpu_s: int = 2
    wall_s: float = 5.0
    memory_bytes: int = 512 << 20
    output_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call gave: ``value``, or ``error``: an exception's name, or ``stopped`` when the process ended without answer."""

    value: Any = None
    error: str | None = None


def call_function(
    code: str, function: str, arguments: Sequence[Sequence[Any]], limits: SandboxLimits | None = None
) -> list[CallResult]:
    """Return one result per list of arguments, whatever the code does. Raises SandboxUnavailable when it cannot be locked in."""
    bounds = limits or SandboxLimits()
    request = {
        "code": code,
        "function": function,
        "arguments": [list(each) for each in arguments],
        "limits": {"cpu_s": bounds.cpu_s, "memory_bytes": bounds.memory_bytes},
    }
    status, output = _run(json.dumps(request).encode(), bounds)
    locked = output.startswith(_READY)
    if status == _UNAVAILABLE and not locked:
        raise SandboxUnavailable("foreign code is only run behind a seccomp filter, which this system does not offer")
    lines = output.removeprefix(_READY).split(b"\n")[: len(arguments)] if locked else []
    results = [_parse(line) for line in lines if line]
    return results + [CallResult(error="stopped")] * (len(arguments) - len(results))


def _run(request: bytes, limits: SandboxLimits) -> tuple[int, bytes]:
    """Return the child's exit status and at most ``output_bytes`` of its output. The child is always gone afterwards."""
    command = [sys.executable, "-I", "-S", "-B", str(_CHILD)]
    with subprocess.Popen(  # noqa: S603 - our own script, its input on a pipe
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, cwd="/"
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        watchdog = threading.Timer(limits.wall_s, child.kill)
        watchdog.start()
        try:
            try:
                child.stdin.write(request)
                child.stdin.close()
            except BrokenPipeError:
                pass
            output = child.stdout.read(limits.output_bytes)
            child.kill()
        finally:
            watchdog.cancel()
            child.kill()
        return child.wait(), output


def _parse(line: bytes) -> CallResult:
    try:
        data = json.loads(line)
        return CallResult(value=data["value"]) if "value" in data else CallResult(error=str(data["error"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return CallResult(error="stopped")
