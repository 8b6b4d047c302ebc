"""What was learned from decisions, and the releases that answer: looking, taking out, taking back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from certloop.agentrl.memory import Item
from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import PLAIN, Body, Open
from certloop.serve.loop import releases
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission

router = APIRouter(prefix="/v1", tags=["learning"])
Learner = Annotated[Actor, Depends(allowed(Permission.LEARNING_READ))]
Releaser = Annotated[Actor, Depends(allowed(Permission.RELEASES_MANAGE))]
RuleId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", examples=["18c0f3a2b4d5e6f708192a3b4c5d6e7f"])]
Why = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PLAIN)]
_RULE: dict[str, JsonValue] = {
    "id": "18c0f3a2b4d5e6f708192a3b4c5d6e7f", "kind": "label", "doc_type": "business_licence",
    "rule": {"field": "name", "label": "主体全称"}, "state": "trial", "passed": 2, "failed": 0,
    "evidence": ["doc_18c0f3a2b4d5e6f708192a3b4c5d6e7f.0"], "by": "usr_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
    "at": "2026-03-01T08:00:00.000000+00:00",
}  # fmt: skip
_POINTER: dict[str, JsonValue] = {
    "active": "v2", "previous": "embedded", "candidate": "v3", "share": 0.05, "since": "2026-03-01T08:00:00.000000+00:00",
}  # fmt: skip


class RuleOut(BaseModel):
    """One rule. It names labels, places and shapes of a form, never a value of a document. ``passed`` and ``failed`` count the
    approved documents on which it was followed."""

    model_config = ConfigDict(json_schema_extra={"example": _RULE})
    id: str
    kind: str
    doc_type: str
    rule: dict[str, Any]
    state: str
    passed: int
    failed: int
    evidence: list[str]
    by: str
    at: str


class RulesOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_RULE]}})
    items: list[RuleOut]


class ReasonIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"reason": "learned from a prank"}})
    reason: Why


class PointerOut(BaseModel):
    """Who answers: ``active`` everybody, but ``candidate`` the ``share`` of documents that a hash chooses."""

    model_config = ConfigDict(json_schema_extra={"example": _POINTER})
    active: str
    previous: str
    candidate: str
    share: float
    since: str


class ReleaseOut(BaseModel):
    id: str
    engine: str
    base_model: str
    parent: str
    notes: str
    artefacts: dict[str, str] = Field(description="SHA-256 of its files by name")
    data_manifest_sha256: str
    gate_report_sha256: str


class MoveOut(BaseModel):
    at: str
    by: str
    move: str
    release: str
    reason: str


class ReleasesOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "pointer": _POINTER,
                "releases": [
                    {
                        "id": "embedded", "engine": "ocr", "base_model": "", "parent": "", "notes": "the embedded reader",
                        "artefacts": {}, "data_manifest_sha256": "", "gate_report_sha256": "",
                    }
                ],
                "history": [
                    {
                        "at": "2026-03-01T08:00:00.000000+00:00", "by": "serve:loop", "move": "adopted", "release": "embedded",
                        "reason": "the first release of this service",
                    }
                ],
            }
        }
    )  # fmt: skip
    pointer: PointerOut
    releases: list[ReleaseOut]
    history: list[MoveOut] = Field(description="the latest first")


@router.get("/memory", summary="Rules learned from decisions")
def list_rules(service: Open, actor: Learner) -> RulesOut:
    """Everything that was ever learned for this tenant, oldest first; `trial` and `active` rules are in use."""
    return RulesOut(items=[_rule(item) for item in service.loop.rules(actor)])


@router.post("/memory/{rule_id}/remove", summary="Take a rule out of use")
def remove_rule(service: Open, actor: Releaser, rule_id: RuleId, body: ReasonIn) -> RuleOut:
    """From the next document on. Its history stays."""
    return _rule(service.loop.remove_rule(actor, rule_id, body.reason))


@router.get("/releases", summary="Releases, who answers, and every move")
def list_releases(service: Open, actor: Learner) -> ReleasesOut:
    """Those of this tenant and those that everybody shares."""
    return ReleasesOut.model_validate(releases.overview(service, actor))


@router.post("/releases/rollback", summary="Take a release back for this tenant", responses={409: {}})
def roll_back(service: Open, actor: Releaser, body: ReasonIn) -> PointerOut:
    """The candidate on trial, else the active release: this tenant's next document is answered by the one before. Documents being
    read finish where they began. Fails with `release_invalid` when there is nothing to go back to."""
    return PointerOut.model_validate(releases.roll_back(service, actor, body.reason))


def _rule(item: Item) -> RuleOut:
    return RuleOut(
        id=item.item_id, kind=item.kind, doc_type=item.key, rule=dict(item.body), state=str(item.state), passed=item.passed,
        failed=item.failed, evidence=list(item.evidence), by=item.actor, at=item.at,
    )  # fmt: skip
