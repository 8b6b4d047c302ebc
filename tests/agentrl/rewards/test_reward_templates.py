"""Reward templates prove themselves without a model; foreign code is locked in and cannot talk a test into passing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.rewards.templates import (
    Case,
    CodeTask,
    FieldExtraction,
    RewardTemplate,
    SandboxLimits,
    Score,
    ServiceTask,
    call_function,
    register,
    service_reward,
    template_kind,
    template_kinds,
    validate,
)

GENEROUS = SandboxLimits(cpu_s=5, wall_s=30.0)
EXTRACTION = FieldExtraction({"名称": "甲公司", "编号": "A-17", "备注": "<blank>", "电话": None}, canonical={"企业名称": "名称"})
CODE = CodeTask(
    function="add",
    cases=(Case((1, 2), 3), Case((-1, 1), 0), Case((0.5, 0.25), 0.75), Case(("a", "b"), "ab")),
    solution="def add(a, b):\n    return a + b\n",
    limits=GENEROUS,
)


def customer(answer: str) -> str:
    return "谢谢，搞定了" if "24小时" in answer or "感谢" in answer else "不对，我问的是退款时间"


SERVICE = ServiceTask(
    required=("原路退回", "24小时"), solution="退款将原路退回，24小时内到账。", customer=customer, forbidden=("无法退款",)
)


@pytest.mark.parametrize("template", [EXTRACTION, CODE, SERVICE], ids=lambda t: t.kind)
def test_every_template_proves_itself(template: RewardTemplate) -> None:
    assert isinstance(template, RewardTemplate)
    validate(template)


@pytest.mark.parametrize("truth", [{}, {"备注": "<blank>"}, {"名称": "甲 "}, {"备注": "无"}, {"a": "1", "b": None}])
def test_any_truth_proves_itself(truth: dict[str, str | None]) -> None:
    validate(FieldExtraction(truth))


def test_kinds_are_known_by_name() -> None:
    assert {"extraction", "service", "code"} <= set(template_kinds())
    assert template_kind("code") is CodeTask
    with pytest.raises(CertloopError, match=r"known: .*extraction"):
        template_kind("poetry")


@dataclass(frozen=True)
class Careless:
    """A template with a flaw each: what ``validate`` must find."""

    kind: ClassVar[str] = "careless"
    flaw: str = ""

    def score(self, answer: str, /) -> Score:
        if self.flaw == "junk" and not answer:
            return Score(0.5, True)
        if self.flaw == "range" and answer == "decoy":
            return Score(1.5, True)
        if self.flaw == "decoy" and answer == "decoy":
            return Score(1.0, True)
        return Score(0.9 if self.flaw == "gold" else 1.0, self.flaw != "form") if answer == "gold" else Score(0.0, False)

    def gold(self) -> str:
        return "gold"

    def decoys(self) -> Iterator[str]:
        yield "decoy"


def test_a_sound_template_passes() -> None:
    validate(Careless())


@pytest.mark.parametrize("flaw", ["junk", "range", "decoy", "gold", "form"])
def test_a_careless_template_is_found_out(flaw: str) -> None:
    with pytest.raises(CertloopError) as caught:
        validate(Careless(flaw))
    assert caught.value.code == "reward_invalid"


def test_a_kind_cannot_be_taken_twice() -> None:
    with pytest.raises(CertloopError, match="already"):
        register(type("Other", (), {"kind": "code"}))


def test_extraction_gives_no_credit_for_a_repair() -> None:
    strict = replace(EXTRACTION, repaired=lambda key, printed, answered: key == "编号")
    answer = '{"名称": "甲公司", "编号": "A-18"}'
    assert strict.score(answer).parts["f1"] == pytest.approx(0.5)
    assert EXTRACTION.score(answer).parts["f1"] > 0.5


class TestService:
    def test_both_halves_count(self) -> None:
        assert SERVICE.score(SERVICE.solution).reward == 1.0
        assert service_reward(1.0, 1.0) == 1.0
        assert service_reward(0.0, 1.0) == 0.5  # solved, and the customer grumbles

    def test_charm_does_not_pay(self) -> None:
        assert SERVICE.score("非常感谢您的耐心！").parts == {"satisfaction": 1.0, "resolution": 0.0}
        assert SERVICE.score("非常感谢您的耐心！").reward == pytest.approx(0.1)

    def test_half_an_answer_and_a_forbidden_one(self) -> None:
        assert SERVICE.score("24小时内到账").reward == pytest.approx(0.6)  # 0.5 resolved, content: gated to 0.5 + 0.1
        assert SERVICE.score(SERVICE.solution + "无法退款").reward == pytest.approx(0.1)

    def test_parts_outside_of_their_range(self) -> None:
        with pytest.raises(CertloopError):
            service_reward(1.2, 0.5)


def call(code: str, arguments: Any = ((1,),), **limits: Any) -> list[tuple[Any, str | None]]:
    bounds = replace(GENEROUS, **limits)
    return [(r.value, r.error) for r in call_function(code, "f", list(arguments), bounds)]


class TestSandbox:
    def test_values_come_back(self) -> None:
        assert call("import math\ndef f(x):\n    print('noise')\n    return [x, math.floor(x / 2)]", ((5,), (7,))) == [
            ([5, 2], None), ([7, 3], None),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ("open('/etc/passwd').read()", "PermissionError"),
            ("open('/tmp/certloop_sandbox_probe', 'w')", "PermissionError"),
            ("__import__('os').listdir('/')", "PermissionError"),
            ("__import__('os').fork()", "PermissionError"),
            ("__import__('os').kill(1, 9)", "PermissionError"),
            ("__import__('os').execv('/bin/true', ['true'])", "PermissionError"),
            ("__import__('os').unlink('/tmp/x')", "PermissionError"),
            ("__import__('socket')", "ModuleNotFoundError"),
            ("__import__('_socket').socket()", None),
            ("__import__('subprocess')", "ModuleNotFoundError"),
            ("'a' * 10**10", "MemoryError"),
            ("f(x)", "RecursionError"),
            ("__import__('sys').exit(0)", "SystemExit"),
            ("__import__('os')._exit(0)", "stopped"),
            ("__import__('os')._exit(70)", "stopped"),
            ("float('nan')", "ValueError"),
            ("object()", "TypeError"),
            ("'a' * 10**7", "stopped"),  # more output than is read
        ],
    )
    def test_what_foreign_code_cannot_do(self, body: str, error: str | None) -> None:
        ((value, got),) = call(f"def f(x):\n    return {body}")
        assert value is None
        assert got is not None if error is None else got == error

    def test_an_endless_loop_ends_and_so_does_a_long_sleep(self) -> None:
        assert call("import time\ndef f(x): time.sleep(60)", wall_s=1.0) == [(None, "stopped")]
        assert call("def f(x):\n    while True: pass", ((1,), (2,)), cpu_s=1) == [(None, "stopped")] * 2

    def test_a_crash_keeps_the_calls_before_it(self) -> None:
        assert call("import os\ndef f(x):\n    return x if x < 2 else os._exit(1)", ((1,), (2,), (3,))) == [
            (1, None), (None, "stopped"), (None, "stopped"),
        ]  # fmt: skip

    def test_code_that_does_not_run(self) -> None:
        assert call("def f(x) return x")[0][1] == "SyntaxError"
        assert call("def g(x): return x")[0][1] == "KeyError"


class TestCode:
    def test_the_reward_is_the_share_of_passed_cases(self) -> None:
        assert CODE.score("def add(a, b):\n    return 3").reward == 0.25
        assert CODE.score("def add(a, b):\n    return a + b if a >= 0 else 1 / 0").parts == {"passed": 0.5}  # "a" >= 0 raises too

    def test_a_fenced_block_is_code(self) -> None:
        assert CODE.score(f"Here it is:\n```python\n{CODE.solution}```\n").reward == 1.0

    def test_true_is_not_one(self) -> None:
        assert replace(CODE, cases=(Case((1, 0), 1),)).score("def add(a, b): return True").reward == 0.0

    def test_a_task_needs_cases(self) -> None:
        with pytest.raises(CertloopError):
            CodeTask("add", (), "")
