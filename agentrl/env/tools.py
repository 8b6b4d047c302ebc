"""Tools and the executor that runs them. A tool call, a skill call and a retrieval are all actions on a registered tool.

Arguments are checked by the tool's own model before it runs, its answer by ``returns`` after. Whatever goes wrong becomes a
``ToolResult`` with an error kind: an executor never raises because of what a policy asked for or a tool did.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from certloop.agentrl.env.errors import EnvironmentFault
from certloop.agentrl.env.faults import Fault, FaultSource, alter, no_faults
from certloop.agentrl.trajectory import Action, ToolResult, is_json


class ErrorKind(StrEnum):
    """Why a call gave nothing."""

    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGS = "bad_args"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    RATE_LIMIT = "rate_limit"
    CRASHED = "crashed"


class ToolKind(StrEnum):
    TOOL = "tool"
    SKILL = "skill"
    RETRIEVAL = "retrieval"


class Args(BaseModel):
    """Base of a tool's arguments: unknown names and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ToolFailure(Exception):
    """What a tool raises to answer with an error kind of its own; ``kind`` is a stable word such as ``not_found``."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Tool:
    """A named thing to do. ``run`` takes the checked arguments and returns JSON; ``returns`` checks that JSON if given."""

    name: str
    args: type[Args]
    run: Callable[[Any], Any]
    description: str = ""
    kind: ToolKind = ToolKind.TOOL
    returns: type[BaseModel] | None = None
    timeout_s: float = 30.0

    def to_spec(self) -> dict[str, Any]:
        """Return what a policy is told about the tool: name, kind, description and the JSON schema of its arguments."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "description": self.description,
            "parameters": _schema(self.args),
        }


@cache
def _schema(args: type[Args]) -> dict[str, Any]:
    """A policy sees the tools at every step, and many episodes have the same."""
    return args.model_json_schema()


class Executor:
    """Runs actions on registered tools for one episode, with the faults of ``faults`` injected.

    ``timeout_s`` of a tool is judged when it returns (a running call is not interrupted: a tool that may hang must bound itself
    and raise TimeoutError). ``clock`` gives seconds.
    """

    def __init__(
        self, tools: Iterable[Tool], *, faults: FaultSource = no_faults, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not tool.name or tool.name in self._tools:
                raise EnvironmentFault(f"a tool needs a name of its own; {tool.name!r} is empty or registered twice")
            self._tools[tool.name] = tool
        self._faults, self._clock = faults, clock
        self.injected: list[tuple[int, Fault]] = []
        """The faults so far as (number of the call, fault); policies do not see this."""
        self._calls = 0

    @cached_property
    def specs(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(tool.to_spec() for tool in self._tools.values())

    def execute(self, action: Action) -> ToolResult:
        """Run one action. Every failure is a result: see :class:`ErrorKind`."""
        call, self._calls = self._calls, self._calls + 1
        tool = self._tools.get(action.tool)
        if tool is None:
            return ToolResult(False, {"known": sorted(self._tools)}, error_kind=ErrorKind.UNKNOWN_TOOL)
        if not is_json(dict(action.args)):
            return ToolResult(False, {"wrong": []}, error_kind=ErrorKind.BAD_ARGS)
        try:
            args = tool.args.model_validate_json(json.dumps(dict(action.args)))
        except ValidationError as error:
            wrong = [{"argument": ".".join(map(str, e["loc"])), "problem": e["type"]} for e in error.errors(include_input=False)]
            return ToolResult(False, {"wrong": wrong}, error_kind=ErrorKind.BAD_ARGS)
        fault = self._faults(call, action.tool)
        if fault is not None:
            self.injected.append((call, fault))
        if fault is Fault.TIMEOUT:
            return ToolResult(False, error_kind=ErrorKind.TIMEOUT, latency_ms=tool.timeout_s * 1000)
        if fault is Fault.RATE_LIMIT:
            return ToolResult(False, {"retry_after_s": 1}, error_kind=ErrorKind.RATE_LIMIT)
        return self._run(tool, args, fault, call)

    def _run(self, tool: Tool, args: Args, fault: Fault | None, call: int) -> ToolResult:
        start = self._clock()
        try:
            payload = tool.run(args)
            kind: str | None = None
        except ToolFailure as failure:
            payload, kind = None, failure.kind
        except TimeoutError:
            payload, kind = None, ErrorKind.TIMEOUT
        except Exception as error:  # noqa: BLE001 - a tool is foreign code: whatever it raises is an observation
            payload, kind = {"exception": type(error).__name__}, ErrorKind.CRASHED  # its text may hold document values
        latency_ms = max(0.0, (self._clock() - start) * 1000)
        if kind is None and latency_ms > tool.timeout_s * 1000:
            payload, kind = None, ErrorKind.TIMEOUT
        if kind is not None:
            return ToolResult(False, payload, error_kind=str(kind), latency_ms=latency_ms)
        if fault is Fault.MALFORMED or not _fits(tool, payload):
            text = json.dumps(payload, ensure_ascii=False) if is_json(payload) else ""
            return ToolResult(False, {"text": text[: len(text) // 2]}, error_kind=ErrorKind.MALFORMED, latency_ms=latency_ms)
        if fault is Fault.CHANGED:
            payload = alter(payload, call)
        return ToolResult(True, payload, latency_ms=latency_ms)


def _fits(tool: Tool, payload: Any) -> bool:
    if not is_json(payload):
        return False
    if tool.returns is None:
        return True
    try:
        tool.returns.model_validate(payload)
    except ValidationError:
        return False
    return True
