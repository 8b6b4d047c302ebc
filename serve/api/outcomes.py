"""Business outcomes: what became of it. They guard releases and never enter a reward."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Body, Bool, Open
from certloop.serve.feedback import outcomes
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission

router = APIRouter(prefix="/v1", tags=["feedback"])
Teller = Annotated[Actor, Depends(allowed(Permission.OUTCOMES_WRITE))]
Learner = Annotated[Actor, Depends(allowed(Permission.LEARNING_READ))]
_OUTCOME: dict[str, JsonValue] = {
    "outcome_id": "order-2026-0117",
    "trajectory_id": "doc_18c0f3a2b4d5e6f708192a3b4c5d6e7f.0",
    "kind": "supplier_accepted",
    "good": True,
}


class OutcomeIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": _OUTCOME})
    trajectory_id: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="of the certificate, as in its result")
    kind: str = Field(pattern=r"^[a-z][a-z0-9_]{1,63}$", description="a word for what is told; `first_pass` is the service's own")
    good: Bool
    outcome_id: str | None = Field(
        None, min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$", description="yours; the same id again adds nothing"
    )


class OutcomeOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": _OUTCOME | {"at": "2026-03-01T08:00:00.000000+00:00"}})
    outcome_id: str
    trajectory_id: str
    kind: str
    good: bool
    at: str


class RateOut(BaseModel):
    kind: str
    good: int
    all: int


class RatesOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [{"kind": "supplier_accepted", "good": 41, "all": 44}]}})
    items: list[RateOut]


@router.post(
    "/outcomes",
    status_code=201,
    summary="Tell a business outcome",
    responses={
        404: {},
        410: {},
        200: {"model": OutcomeOut, "description": "Told before"},
        409: {"description": "The id stands for another outcome"},
    },
)
def add_outcome(service: Open, actor: Teller, body: OutcomeIn, response: Response) -> OutcomeOut:
    """A supplier was accepted, a contract signed, a complaint made. It guards releases; it never trains."""
    made, new = outcomes.record(service, actor, body.trajectory_id, body.kind, good=body.good, outcome_id=body.outcome_id)
    response.status_code = 201 if new else 200
    return OutcomeOut(outcome_id=made.outcome_id, trajectory_id=made.trajectory_id, kind=made.kind, good=made.good, at=made.at)


@router.get("/outcomes", summary="Outcomes in numbers")
def get_outcomes(service: Open, actor: Learner) -> RatesOut:
    """How many were good, by kind."""
    found = outcomes.rates(service, actor)
    return RatesOut(items=[RateOut(kind=kind, good=counts["good"], all=counts["all"]) for kind, counts in found.items()])
