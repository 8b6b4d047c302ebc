"""The next message as feedback, by rules (METHODS §5): the documented default when no judge is configured.

In this order: an empty next state gives no sample; a message that says something is wrong, or asks for a change, a redo, or the
same thing in other words is -1 (also behind a "thank you"); thanks and approval are +1; everything else is 0 (a new request,
a question). A tool's answer is judged by its role: success is +1, a call that the policy got wrong is -1, a failure of the
world 0. The phrases stand in ``phrases.toml``, Chinese and English. They know no irony: measure them against labelled messages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from certloop.agentrl.rewards import fold, text_similarity
from certloop.agentrl.signals.emit import Origin
from certloop.agentrl.signals.hints import field_named, without_answer
from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source, validate
from certloop.agentrl.trajectory import ToolResult, Trajectory, field_token_span

REPHRASE_SIMILARITY = 0.6
"""From this similarity on, a message repeats the request before it."""
MIN_ADVICE_CHARS = 4
_WONDERS = re.compile(r"对不对|是不是|是否|有没有|(错|对|问题|正确|准确|完整|一致|清楚)了?[吗么吧]")
_COMPLAINS = re.compile(r"不对[，,。！]|错了[，,。！]")


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a next message says: ``value`` in {-1, 0, 1}, ``rule`` why, ``hint`` the correction in the user's words."""

    value: float
    confidence: float
    rule: str
    hint: str | None = None


def classify_message(message: str, *, previous_request: str | None = None) -> Feedback | None:
    """Judge the user's next message; None for an empty one (no sample)."""
    text = message.strip()
    if not fold(text):
        return None
    remainder = _phrases("fine").sub(" ", text)
    for rule, confidence in (("wrong", 0.9), ("change", 0.9), ("redo", 0.8)):
        if _phrases(rule).search(remainder) and not (rule == "wrong" and _asks(remainder)):
            return Feedback(-1.0, confidence, rule, _advice(text))
    if previous_request is not None and text_similarity(previous_request, text) >= REPHRASE_SIMILARITY:
        return Feedback(-1.0, 0.7, "rephrase")
    if _phrases("good").search(text) and not _phrases("doubt").search(text):
        return Feedback(1.0, 0.9, "approval")
    return Feedback(0.0, 0.5, "other")


def classify_tool_result(result: ToolResult) -> Feedback:
    """Judge the environment's answer to an action: its role matters, for what a tool found was not known before."""
    if result.ok:
        return Feedback(1.0, 0.6, "tool_success")
    if result.error_kind in ("bad_args", "unknown_tool"):
        return Feedback(-1.0, 0.9, "bad_call")
    return Feedback(0.0, 0.5, "tool_failure")


def next_message_signals(
    origin: Origin,
    message: str,
    *,
    labels: Mapping[str, Sequence[str]] | None = None,
    previous_request: str | None = None,
    trajectory: Trajectory | None = None,
    feedback: Feedback | None = None,
) -> list[Signal]:
    """Return the signals of the next message: one on the trajectory, and one on the field its correction names, if it names one.

    ``labels`` are the printed names of each field; ``trajectory`` gives the field signal its token span; ``feedback`` is what a
    judge found, instead of the rules. Hints go in without the answer; ``evidence.hint_with_answer`` keeps the other variant.
    """
    found = feedback or classify_message(message, previous_request=previous_request)
    if found is None:
        return []
    whole = Signal(
        traj_id=origin.traj_id,
        source=Source.IMPLICIT,
        scope=Scope.TRAJECTORY,
        value=found.value,
        confidence=found.confidence,
        reason=Reason.NEXT_MESSAGE,
        actor=origin.actor,
        at=origin.at,
        hint=without_answer(found.hint) if found.hint else None,
        evidence={"rule": found.rule} | ({"hint_with_answer": found.hint} if found.hint else {}),
    )
    name = field_named(message, labels or {}) if found.value < 0 else None
    if name is None:
        return [validate(whole)]
    span = field_token_span(trajectory, name) if trajectory is not None else None
    return [validate(whole), validate(replace(whole, scope=Scope.FIELD, field=name, span=span))]


def _asks(text: str) -> bool:
    """Whether the message wonders ("对不对？") rather than complains."""
    return bool(_WONDERS.search(text)) and not _COMPLAINS.search(text)


def _advice(text: str) -> str | None:
    """Return the clauses that say what to do instead, without a leading "不对，"; None when the user only complains."""
    lead = re.compile(rf"^({_phrases('lead').pattern})?[\s，,。.!！：:]*", re.IGNORECASE)
    kept = []
    for clause in re.findall(r"[^。；;!！?？\n]+", text):
        rest = lead.sub("", clause.strip(), count=1).strip(" .")
        if len(fold(rest)) >= MIN_ADVICE_CHARS and (_phrases("change").search(rest) or _phrases("advice").search(rest)):
            kept.append(rest)
    return "；".join(kept) or None


@cache
def _phrases(rule: str) -> re.Pattern[str]:
    words = _lexicon()[rule]
    english = [rf"\b(?:{phrase})(?!\w)" for phrase in words["en"]]
    return re.compile("|".join([*words["zh"], *english]), re.IGNORECASE)


@cache
def _lexicon() -> dict[str, dict[str, list[str]]]:
    text = resources.files("certloop.agentrl.signals").joinpath("phrases.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
