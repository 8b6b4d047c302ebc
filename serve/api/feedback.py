"""The next message of a conversation about a certificate, as feedback on the answer before it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field

from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Body, Open
from certloop.serve.feedback import messages
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission

router = APIRouter(prefix="/v1", tags=["feedback"])
Speaker = Annotated[Actor, Depends(allowed(Permission.FEEDBACK_WRITE))]
TrajectoryId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,100}$", examples=["doc_18c0f3a2b4d5e6f708192a3b4c5d6e7f.0"])]


class MessageIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"message": "不对，有效期应为2035-05-31", "message_id": "m-17"}})
    message: str = Field(max_length=4000, description="what the user said next")
    previous_request: str | None = Field(None, max_length=4000, description="what was asked before; finds rephrased requests")
    message_id: str | None = Field(
        None, min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$", description="the same id again adds nothing"
    )


class HeardOut(BaseModel):
    """``value``: 1 content, -1 not content, 0 says nothing about the answer, null an empty message. ``hint`` says where to look,
    without the answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "value": -1.0, "confidence": 0.9, "rule": "wrong", "field": "有效期至", "hint": "有效期应为…",
                "signals": ["0d5f7c3e9a1b2c4d6e8f0a1b2c3d4e5f"], "judged_by": "rules", "judge_error": None, "repeated": False,
            }
        }
    )  # fmt: skip
    value: float | None
    confidence: float
    rule: str
    field: str | None
    hint: str | None
    signals: list[str]
    judged_by: str
    judge_error: str | None
    repeated: bool


@router.post(
    "/conversations/{trajectory_id}/messages", status_code=201, summary="The next message as feedback", responses={410: {}}
)
def add_message(service: Open, actor: Speaker, trajectory_id: TrajectoryId, body: MessageIn) -> HeardOut:
    """Thanks count for the answer, a correction against it; a message that says how it should have been done leaves a hint."""
    heard = messages.hear(
        service, actor, trajectory_id, body.message, previous_request=body.previous_request, message_id=body.message_id
    )
    return HeardOut(
        value=heard.value,
        confidence=heard.confidence,
        rule=heard.rule,
        field=heard.field,
        hint=heard.hint,
        signals=list(heard.signals),
        judged_by=heard.judged_by,
        judge_error=heard.judge_error,
        repeated=heard.repeated,
    )
