"""Releases: what serves, how the next one is judged, tried out, and taken back.

schema.py      Release: an immutable record        registry.py   records, moves, pointers; append-only
artefacts.py   files by hash, verified at load     router.py     (tenant, document) -> release; answers under way
gate.py        promote | reject | insufficient     report.py     the gate's report with its forgetting table
canary.py      5 % -> 25 % -> all; low traffic     guards.py     business against judge, behaviour, latency
statistics.py  the tests behind these decisions
"""

from certloop.agentrl.release.artefacts import ArtefactStore
from certloop.agentrl.release.canary import CanaryAction, CanaryDecision, CanaryPolicy, CanaryState, decide, position
from certloop.agentrl.release.errors import (
    ArtefactError,
    GateError,
    RegistryDamagedError,
    ReleaseConflictError,
    ReleaseError,
    UnknownReleaseError,
)
from certloop.agentrl.release.gate import Approval, Bound, Evidence, GateConfig, GateResult, Origin, Pair, Verdict, judge
from certloop.agentrl.release.guards import Alarm, ArmWindow, Finding, GuardConfig, check
from certloop.agentrl.release.registry import LogRow, Move, Pointer, Registry
from certloop.agentrl.release.report import Forgetting, forgetting_table, report_html, report_json
from certloop.agentrl.release.router import Arm, Route, Router
from certloop.agentrl.release.schema import SHARED, Release

__all__ = [
    "SHARED", "Alarm", "Approval", "Arm", "ArmWindow", "ArtefactError", "ArtefactStore", "Bound", "CanaryAction",
    "CanaryDecision", "CanaryPolicy", "CanaryState", "Evidence", "Finding", "Forgetting", "GateConfig", "GateError",
    "GateResult", "GuardConfig", "LogRow", "Move", "Origin", "Pair", "Pointer", "Registry", "RegistryDamagedError",
    "Release", "ReleaseConflictError", "ReleaseError", "Route", "Router", "UnknownReleaseError", "Verdict", "check",
    "decide", "forgetting_table", "judge", "position", "report_html", "report_json",
]  # fmt: skip
