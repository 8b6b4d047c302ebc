"""Field rewards a CPU second on one core: answers of 15 fields, as JSON text, in groups of 8 samples a document.

    python benchmarks/rewards.py [--rewards N] [--json FILE]

No answer stands twice in a group, so nothing is won by remembering answers. The mixes: ``trained`` (about 3 of 15 fields wrong
by one or two characters: what a model writes after distillation), ``all wrong`` (every field misread in several places), ``all
wrong, cut and grown`` (characters lost and added in every field, too), ``another document's`` (every value is another one
altogether), ``foreign labels`` (every label unknown, so all are compared with all). CPU seconds of this one thread; parsing,
matching and scoring are in.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from certloop.agentrl.rewards import f1_power_reward, f1_power_rewards

MIN_PER_SECOND = 10_000
GROUP = 8
CHARS = "技术开发服务咨询转让推广货物进出口零售批发食品经营有限公司北京上海市区路号0123456789ABCDEFG"
LENGTHS = {
    "企业名称": 14, "统一社会信用代码": 18, "类型": 12, "法定代表人": 3, "注册资本": 8, "成立日期": 11, "营业期限自": 11,
    "营业期限至": 11, "住所": 32, "经营范围": 220, "登记机关": 14, "发证日期": 11, "证照编号": 15, "副本编号": 5, "备注": 20,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``target`` says what it should be, ``met`` whether it is (None: nothing to compare)."""

    name: str
    value: str
    target: str = ""
    met: bool | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewards", type=int, default=8000, help="answers per measurement")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    lines = list(measure(args.rewards))
    for line in lines:
        print(f"{ {True: 'ok  ', False: 'MISS', None: '    '}[line.met] } {line.name:<44} {line.value:<44} {line.target}")
    if args.json:
        args.json.write_text(json.dumps([asdict(line) for line in lines], ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def measure(count: int) -> Iterator[Line]:
    rng = random.Random(1)
    truths = [{label: _text(rng, n) for label, n in LENGTHS.items()} for _ in range(max(1, count // GROUP))]
    batch_truths = [truth for truth in truths for _ in range(GROUP)]
    mixes: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
        "trained": lambda truth: _trained(rng, truth),
        "all wrong": lambda truth: {label: _damaged(rng, text, max(2, len(text) // 12)) for label, text in truth.items()},
        "all wrong, cut and grown": lambda truth: {
            label: _shaken(rng, text, max(2, len(text) // 12)) for label, text in truth.items()
        },
        "another document's": lambda truth: {label: _text(rng, len(text)) for label, text in truth.items()},
        "foreign labels": lambda truth: {f"{label}乙丙": text for label, text in _trained(rng, truth).items()},
    }
    for name, make in mixes.items():
        answers = [json.dumps(make(truth), ensure_ascii=False) for truth in batch_truths]
        batch_s = cpu_s(lambda a=answers: f1_power_rewards(batch_truths, a))  # type: ignore[misc]
        rate, target = len(answers) / batch_s, f">= {MIN_PER_SECOND:,}"
        value = f"{rate:,.0f} rewards/s ({batch_s:.2f} CPU s for {len(answers):,})"
        yield Line(f"batch, {name}", value, target, rate >= MIN_PER_SECOND)
    answers = [json.dumps(_trained(rng, truth), ensure_ascii=False) for truth in batch_truths]
    single_s = cpu_s(lambda: [f1_power_reward(t, a) for t, a in zip(batch_truths, answers, strict=True)])
    yield Line("one by one, trained", f"{len(answers) / single_s:,.0f} rewards/s ({single_s:.2f} CPU s for {len(answers):,})")
    hungarian_s = cpu_s(lambda: f1_power_rewards(batch_truths, answers, method="hungarian"))
    yield Line(
        "batch, trained, hungarian", f"{len(answers) / hungarian_s:,.0f} rewards/s ({hungarian_s:.2f} CPU s for {len(answers):,})"
    )


def _trained(rng: random.Random, truth: dict[str, str]) -> dict[str, str]:
    answer = dict(truth)
    for label in rng.sample(list(truth), rng.randint(2, 4)):
        answer[label] = _damaged(rng, truth[label], rng.randint(1, 2))
    if rng.random() < 0.2:
        del answer[rng.choice(list(answer))]
    return answer


def _damaged(rng: random.Random, text: str, times: int) -> str:
    chars = list(text)
    for _ in range(times):
        chars[rng.randrange(len(chars))] = rng.choice(CHARS)
    return "".join(chars)


def _shaken(rng: random.Random, text: str, times: int) -> str:
    chars = list(text)
    for _ in range(times):
        at = rng.randrange(len(chars)) if chars else 0
        chars[at : at + rng.randint(0, 1)] = rng.choice(CHARS) * rng.randint(0, 1)
    return "".join(chars)


def _text(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(CHARS) for _ in range(length))


def cpu_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
