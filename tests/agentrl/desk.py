"""A second, tiny domain: a parts desk. "How many metres of cable does article B7 have?"

It proves that nothing knows certificates.
Tools: ``lookup`` (retrieval: the article's card in inches), ``convert`` (a tool), ``round_off`` (a skill). Two paths are golden.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from certloop.agentrl.env import Action, Args, Decision, Grade, Sampled, Task, Tool, ToolFailure, ToolKind, View
from certloop.agentrl.trajectory import Role, Turn

GOLDEN = (("lookup", "convert", "round_off", "emit"), ("lookup", "convert", "emit"))


class Lookup(Args):
    article: str


class Convert(Args):
    inches: float


class RoundOff(Args):
    number: float


class Card(BaseModel):
    inches: float


def parts_tasks(seed: int) -> Iterator[Task]:
    rng = random.Random(seed)
    while True:
        yield parts_task(f"B{rng.randrange(100)}", rng.randrange(1, 500))


def parts_task(article: str = "B7", inches: int = 100) -> Task:
    metres = round(inches * 0.0254, 2)

    def lookup(args: Lookup) -> dict[str, float]:
        if args.article != article:
            raise ToolFailure("not_found")
        return {"inches": inches}

    def make_tools() -> Sequence[Tool]:
        return (
            Tool("lookup", Lookup, lookup, "an article's card", ToolKind.RETRIEVAL, returns=Card),
            Tool("convert", Convert, lambda a: {"metres": a.inches * 0.0254}, "inches to metres"),
            Tool("round_off", RoundOff, lambda a: {"number": round(a.number, 2)}, "two digits", ToolKind.SKILL),
        )

    def grade(answer: str) -> Grade | None:
        try:
            said = json.loads(answer)
        except ValueError:
            return None
        right = isinstance(said, dict) and said.get("metres") == metres
        return Grade(1.0 if right else 0.0, form=isinstance(said, dict) and set(said) == {"metres"})

    return Task(
        task_id=f"parts/{article}", kind="parts_desk", prompt=f"metres of {article}?", golden_paths=GOLDEN, make_tools=make_tools,
        grade=grade, observation="the desk is open", answer_as="emit",
    )  # fmt: skip


@dataclass
class Clerk:
    """Does the work, tries a failed call again, and gives up after three failures."""

    failures: int = 0
    article: str = "B7"

    def decide(self, view: View) -> Decision:
        last = view.history[-1] if view.history else None
        if last is None or last.tool_result is None or last.action is None:
            return self._call("lookup", article=self.article)
        if not last.tool_result.ok:
            self.failures += 1
            return Decision("give up", refused=True) if self.failures == 3 else Decision("again", last.action)
        got = last.tool_result.payload
        if last.action.tool == "lookup":
            return self._call("convert", inches=got["inches"])
        return Decision("that is it", answer=json.dumps({"metres": round(got["metres"], 2)}))

    def _call(self, tool: str, **args: Any) -> Decision:
        return Decision(f"I need {tool}", Action(tool, args))


@dataclass
class Script:
    """A policy that says what it was told to, in order."""

    decisions: list[Decision | Exception]
    seen: list[View] = field(default_factory=list)

    def decide(self, view: View) -> Decision:
        self.seen.append(view)
        said = self.decisions[len(self.seen) - 1]
        if isinstance(said, Exception):
            raise said
        return said


@dataclass
class TokenClerk:
    """A clerk that samples: one token a character, context as a chat template would lay it out."""

    inner: Clerk = field(default_factory=Clerk)
    logprob: Callable[[int], float] = lambda i: -0.25

    def decide(self, view: View) -> Decision:
        said = self.inner.decide(view)
        text = f"{said.thought}|{said.answer or said.action}"
        if view.history:
            context = (Turn(Role.OBSERVATION, encode(view.observation)),)
        else:
            context = (Turn(Role.SYSTEM, encode("be exact")), Turn(Role.USER, encode(view.prompt)))
        ids = encode(text)
        head = len(said.thought) + 1
        offsets = ((0, 0),) * head + tuple((i, i + 1) for i in range(len(ids) - head)) if said.answer is not None else ()
        sampled = Sampled(context, ids, tuple(self.logprob(i) for i in range(len(ids))), offsets)
        return Decision(said.thought, said.action, said.answer, said.refused, sampled)


def encode(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))
