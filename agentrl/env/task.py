"""Tasks and policies: what is asked, and what answers. Everything a domain must bring stands in :class:`Task`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from certloop.agentrl.env.errors import EnvironmentFault
from certloop.agentrl.env.tools import Tool
from certloop.agentrl.trajectory import Action, Step, Turn


@dataclass(frozen=True, slots=True)
class Grade:
    """How good an answer is: ``quality`` in [0, 1], and whether its ``form`` is the one that was asked for."""

    quality: float
    form: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do.

    ``observation`` is what the policy sees first, ``golden_paths`` the tool sequences that solve the task (several may be right),
    ``make_tools`` makes the tools of one episode (state lives in their closures), ``grade`` scores an answer's text; it returns
    None when the text cannot be read at all. The truth stays inside ``grade``. Work whose truth nobody knows has no ``grade`` and
    needs no golden path: its episodes have no reward. ``answer_as`` names the answer as a step of the path ("emit"); None when
    golden paths end before it.
    """

    task_id: str
    kind: str
    prompt: str
    golden_paths: tuple[tuple[str, ...], ...]
    make_tools: Callable[[], Sequence[Tool]]
    grade: Callable[[str], Grade | None] | None
    observation: str = ""
    image_sha256: tuple[str, ...] = ()
    answer_as: str | None = None

    def __post_init__(self) -> None:
        if (self.grade is not None and not self.golden_paths) or not all(self.golden_paths):
            raise EnvironmentFault(f"task {self.task_id!r} needs at least one golden path, and none may be empty")


class TaskGenerator(Protocol):
    """Makes tasks from a seed; the same seed makes the same tasks."""

    def __call__(self, seed: int, /) -> Iterator[Task]: ...


@dataclass(frozen=True, slots=True)
class View:
    """What a policy may know when it decides: never the golden paths, the truth or the injected faults."""

    prompt: str
    observation: str
    history: tuple[Step, ...]
    tools: tuple[Mapping[str, Any], ...]
    guidance: str
    steps_left: int
    tokens_left: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """The tokens of one decision: ``context`` what the policy's context gained before it, then the sampled tokens.

    ``answer_offsets`` gives, for a decision that answers, the characters of the answer each token covers (``(0, 0)``: none).
    """

    context: tuple[Turn, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    answer_offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One thought and exactly one of: an action, an answer (its text), a refusal. None of them is a malformed decision."""

    thought: str = ""
    action: Action | None = None
    answer: str | None = None
    refused: bool = False
    sampled: Sampled | None = None
    cost: int = field(default=0)
    """Tokens spent, for a policy that does not hand them over."""

    @property
    def tokens(self) -> int:
        return len(self.sampled.token_ids) if self.sampled is not None else self.cost

    @property
    def well_formed(self) -> bool:
        return [self.action is not None, self.answer is not None, self.refused].count(True) == 1


class Policy(Protocol):
    """Decides the next step. It may raise: the episode then ends as FAILED."""

    def decide(self, view: View, /) -> Decision: ...
