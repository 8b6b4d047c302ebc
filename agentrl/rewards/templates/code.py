"""Code that must pass tests: the share of cases whose returned value is right, run in a locked process (``sandbox.py``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.templates.base import Score, register
from certloop.agentrl.rewards.templates.sandbox import SandboxLimits, call_function

_FENCE = re.compile(r"```(?:python|py)?\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Case:
    """One test: arguments (JSON) and the value that must come back. Numbers may differ by 1e-9 of their size."""

    arguments: tuple[Any, ...]
    expected: Any


@register
@dataclass(frozen=True)
class CodeTask:
    """One function to write. The answer is Python source, or one fenced block of it; expected values never reach its process."""

    kind: ClassVar[str] = "code"
    function: str
    cases: tuple[Case, ...]
    solution: str
    limits: SandboxLimits = field(default_factory=SandboxLimits)

    def __post_init__(self) -> None:
        if not self.cases or not self.function.isidentifier():
            raise RewardError("a code task needs the name of a function and at least one case")

    def score(self, answer: str, /) -> Score:
        """Return the share of passed cases. Raises SandboxUnavailable where foreign code cannot be locked in."""
        code = _source(answer)
        if self.function not in code:
            return Score(0.0, False, {"passed": 0.0})
        results = call_function(code, self.function, [case.arguments for case in self.cases], self.limits)
        passed = sum(r.error is None and _same(r.value, case.expected) for r, case in zip(results, self.cases, strict=True))
        form = not all(r.error in ("SyntaxError", "KeyError", "stopped") for r in results)
        return Score(passed / len(self.cases), form, {"passed": passed / len(self.cases)})

    def gold(self) -> str:
        return self.solution

    def decoys(self) -> Iterator[str]:
        """Code that ends early, answers one constant, claims to equal everything, or looks for the tests."""
        name = self.function
        yield f"import sys\ndef {name}(*args):\n    sys.exit(0)\n"
        yield f"import os\nos._exit(0)\ndef {name}(*args): pass\n"
        yield f"def {name}(*args):\n    return True\n"
        yield f"class Any:\n    def __eq__(self, other): return True\ndef {name}(*args):\n    return Any()\n"
        yield f"def {name}(*args):\n    return open(__file__).read()\n"


def _source(answer: str) -> str:
    blocks = _FENCE.findall(answer)
    return str(blocks[0]) if len(blocks) == 1 else answer


def _same(value: Any, expected: Any) -> bool:
    """Equality of JSON values in which true is not 1."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, (int, float)) and isinstance(expected, (int, float)):
        return value == expected or (abs(value) < 1e300 > abs(expected) and math.isclose(value, expected, rel_tol=1e-9))
    if isinstance(value, list) and isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(map(_same, value, expected))
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(_same(value[key], expected[key]) for key in expected)
    return type(value) is type(expected) and bool(value == expected)
