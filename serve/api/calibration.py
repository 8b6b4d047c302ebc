"""Confidence: the calibration in force, what passes at which error rate, fitting a new one and putting it in force."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Body, Bool, Open
from certloop.serve.confidence import report, versions
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission

router = APIRouter(prefix="/v1", tags=["confidence"])
Learner = Annotated[Actor, Depends(allowed(Permission.LEARNING_READ))]
Releaser = Annotated[Actor, Depends(allowed(Permission.RELEASES_MANAGE))]
VersionName = Annotated[str, Path(pattern=r"^(cal_[0-9a-f]{32}|builtin)$", examples=["builtin"])]
_VERSION: dict[str, JsonValue] = {
    "version": "cal_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
    "active": True,
    "created_at": "2026-03-01T08:00:00.000000+00:00",
    "fields": 5210,
    "source": "reviewed fields",
    "report": {"ece_before": 0.031, "ece_after": 0.009},
}


class VersionOut(BaseModel):
    """``report`` is about fields that the curves were not fitted on."""

    model_config = ConfigDict(json_schema_extra={"example": _VERSION})
    version: str
    active: bool
    created_at: str | None
    fields: int = Field(description="fitted on so many reviewed fields")
    source: str
    report: dict[str, Any]


class VersionsOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_VERSION]}})
    items: list[VersionOut]


class ThroughOut(BaseModel):
    accepted_error: float
    threshold: float | None = Field(description="a value passes from this probability on; null: nothing can be shown to be safe")
    passed: int
    rate: float | None


class PassedOut(BaseModel):
    threshold: float | None
    fields: int
    passed: int
    wrong: int
    error: float | None
    error_wilson_95: list[float] | None


class ReviewedOut(BaseModel):
    fields: int
    right: int
    ece_before: float | None
    ece_after: float | None


class CalibrationOut(BaseModel):
    """``straight_through``: of the last certificates, how many pass at each accepted error rate (sampling aside).
    ``passed_and_sampled``: fields of certificates that would have passed and were reviewed at random; what was wrong there is
    what slips through. ``ece``: expected calibration error of raw and calibrated confidence on reviewed fields."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "version": "builtin-1", "source": "synthetic pages of every type and treatment", "accepted_error": 0.02,
                "all_fields": False, "certificates": 200,
                "straight_through": [{"accepted_error": 0.02, "threshold": 0.94, "passed": 131, "rate": 0.655}],
                "passed_and_sampled": {
                    "threshold": 0.94, "fields": 310, "passed": 280, "wrong": 2, "error": 0.00714,
                    "error_wilson_95": [0.00196, 0.02566],
                },
                "reviewed": {"fields": 1220, "right": 1160, "ece_before": 0.03, "ece_after": 0.01},
            }
        }
    )  # fmt: skip
    version: str
    source: str
    accepted_error: float
    all_fields: bool
    certificates: int
    straight_through: list[ThroughOut]
    passed_and_sampled: PassedOut
    reviewed: ReviewedOut


class FitIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"activate": False}})
    activate: Bool = Field(False, description="put it in force at once")


@router.get("/calibration", summary="Straight-through rate and calibration")
def get_calibration(
    service: Open, actor: Learner, last: Annotated[int, Query(ge=1, le=2000, description="certificates to look at")] = 200
) -> CalibrationOut:
    """How many certificates pass without a person, at the error rate that the tenant accepts and at others."""
    return CalibrationOut.model_validate(report.report(service, actor, last=last))


@router.get("/calibration/versions", summary="Versions of the calibration")
def list_versions(service: Open, actor: Learner) -> VersionsOut:
    """The newest first; `builtin`, fitted on synthetic pages, is what everybody starts with."""
    return VersionsOut(items=[VersionOut.model_validate(versions.to_json(v)) for v in versions.versions(service, actor)])


@router.post("/calibration/versions", status_code=201, summary="Fit a calibration on reviewed fields")
def fit_version(service: Open, actor: Releaser, body: FitIn | None = None) -> VersionOut:
    """Fails with `calibration_invalid` while too little was reviewed."""
    made = versions.fit_reviewed(service, actor, activate=body is not None and body.activate)
    return VersionOut.model_validate(versions.to_json(made))


@router.post("/calibration/versions/{version}/activate", summary="Put a calibration in force")
def activate_version(service: Open, actor: Releaser, version: VersionName) -> VersionOut:
    """From now on; certificates that passed or went to review already stay where they are."""
    return VersionOut.model_validate(versions.to_json(versions.put_in_force(service, actor, version)))
