"""Rewards and page sampling of GSPO, with numbers from METHODS §2 or worked out by hand."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from certloop.train.config import GspoStage
from certloop.train.gspo_reward import FieldReward, FieldStats, RandomReward, agreed_fields, make_reward, score_answers
from certloop.train.gspo_sampling import HardSampler

TRUTH: dict[str, str | None] = {"名称": "示例贸易有限公司东城", "类型": "有限", "住所": "东城路一号", "日期": "2015年06月01日"}
GOLD = json.dumps(TRUTH, ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (GOLD, 1.0),
        (f"名称在第一行。\n{GOLD}", 1.0),
        (json.dumps(TRUTH | {"名称": "示例贸易有限公司东区"}, ensure_ascii=False), 0.831958),  # METHODS §2: one of ten characters
        (json.dumps({k: v for k, v in TRUTH.items() if k != "类型"}, ensure_ascii=False), 0.562786),  # one field missing
        ("{}", 0.05),
        (GOLD[:-1], 0.0),  # cut
        ("没有", 0.0),
        (f"```json\n{GOLD}\n```", 0.95),  # the form is part of the task
        (f"{GOLD}\n{GOLD}", 0.95),
        (f"{GOLD} 完", 0.95),
    ],
)
def test_an_answer_earns_what_the_method_says(text: str, reward: float) -> None:
    assert score_answers([TRUTH], [text])[0][0] == pytest.approx(reward, abs=1e-6)


def test_the_power_is_the_stage_s() -> None:
    half = json.dumps({"名称": TRUTH["名称"], "类型": "有限"}, ensure_ascii=False)  # P = 1, R = 1/2: F1 = 2/3
    for power in (1, 2, 4):
        assert score_answers([TRUTH], [half], power)[0][0] == pytest.approx(0.05 + 0.95 * (2 / 3) ** power)


def test_every_field_is_logged_and_counted() -> None:
    logs: dict[str, float] = {}
    stats = FieldStats(decay=0.5)
    reward = FieldReward(stats=stats)
    said = [[{"role": "assistant", "content": t}] for t in (GOLD, json.dumps(TRUTH | {"类型": "个体"}, ensure_ascii=False))]
    got = reward(completions=said, ground_truth=[GOLD, GOLD], log_metric=logs.__setitem__)
    assert got[0] == 1.0 > got[1]
    assert logs["exact/类型"] == 0.5
    assert logs["exact/名称"] == 1.0
    assert logs["parsed"] == 1.0
    assert stats.exact["名称"] == 0.875  # 0.5 -> 0.75 -> 0.875
    assert stats.exact["类型"] == 0.375  # 0.5 -> 0.75 -> 0.375


def test_an_episode_is_scored_by_its_last_answer() -> None:
    talk = [
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "name": "zoom", "content": GOLD},
        {"role": "assistant", "content": [{"type": "text", "text": "{}"}]},
    ]
    assert FieldReward()(completions=[talk], ground_truth=[GOLD]) == [0.05]


def test_a_field_that_nobody_knows_costs_nothing() -> None:
    """Else a model without labels learns to leave out what is hard. What two reads agree on is scored as ever, so is the form."""
    reward = FieldReward(column="second_read")
    known = json.dumps({"名称": TRUTH["名称"], "类型": "有限"}, ensure_ascii=False)

    def earned(text: str) -> float:
        return reward(completions=[text], second_read=[known])[0]

    assert earned(GOLD) == earned(f"看。\n{known}") == 1.0
    assert earned(json.dumps(TRUTH | {"名称": "示例贸易有限公司东区"}, ensure_ascii=False)) == pytest.approx(
        earned(json.dumps({"名称": "示例贸易有限公司东区", "类型": "有限"}, ensure_ascii=False))
    )
    assert earned(json.dumps({"住所": "东城路一号"}, ensure_ascii=False)) == pytest.approx(0.05), "nothing of what is known"
    assert earned(f"```json\n{GOLD}\n```") == pytest.approx(0.95)
    assert earned(GOLD[:-1] + ', "类型": "有限"}') == pytest.approx(0.95), "a key twice"
    assert earned(GOLD[:-1]) == 0.0
    assert FieldReward()(completions=[GOLD], ground_truth=[known])[0] < 1.0, "with labels an extra field is invented"


def test_the_control_arm_knows_nothing_of_the_answer() -> None:
    texts = [[{"role": "assistant", "content": GOLD}]] * 4
    assert RandomReward(1)(completions=texts) == RandomReward(1)(completions=["x"] * 4)
    stage = GspoStage(kind="gspo", learning_rate=1e-5, batch_size=8, steps=1, reward="random")
    assert isinstance(make_reward(stage, 0), RandomReward)


def test_without_labels_the_truth_is_what_two_reads_saw_and_no_rule_contradicts() -> None:
    first = {"名称": "甲", "代码": "123", "住所": "一号", "日期": None}
    second = {"名称": "甲", "代码": "123", "住所": "二号", "日期": None}
    assert agreed_fields(first, second) == {"名称": "甲", "代码": "123"}
    assert agreed_fields(first, second, lambda label, value: label == "代码") == {"名称": "甲"}


LONG = "一二三四五六七八九十一二三四五六"
PAGES: list[dict[str, str | None]] = [{"名称": "短"}, {"名称": LONG}, {"类型": "有限"}, {"类型": "有限"}] * 5


def sampler(hard: float, seed: int = 0) -> HardSampler:
    return HardSampler(PAGES, batch=4, group=3, repeats=2, hard=hard, seed=seed)


def test_without_hard_sampling_every_page_comes_once_a_pass() -> None:
    drawn = list(sampler(0.0))
    assert len(drawn) == len(sampler(0.0)) == 20 * 3 * 2
    assert set(Counter(drawn).values()) == {6}
    block = drawn[:24]
    assert block[:12] == block[12:]  # the same generation for both updates
    assert [block[i] for i in range(0, 12, 3)] == [block[i + 2] for i in range(0, 12, 3)]  # groups stand together
    assert len(set(block)) == 4


def test_hard_fields_and_long_texts_get_more_of_the_budget() -> None:
    made = sampler(1.0)
    made.note({"名称": 0.2, "类型": 0.95}, {})
    for _ in range(20):
        list(made)
    by_page = [sum(made.drawn[i] for i in range(k, 20, 4)) for k in range(4)]
    assert by_page[1] > by_page[0] > 3 * by_page[2]
    assert made.weight(1) == pytest.approx(0.8 * 1.5 + 0.01)
    assert made.weight(0) == pytest.approx(0.8 + 0.01)


def test_a_settled_page_waits_until_it_differs_again() -> None:
    made = sampler(1.0)
    open_weight = made.weight(0)
    made.note({}, {0: False})
    assert made.weight(0) == pytest.approx(open_weight / 4)
    made.note({}, {0: True})
    assert made.weight(0) == open_weight


def test_sampling_is_seeded_and_its_state_is_plain_json() -> None:
    assert list(sampler(0.5, 3)) == list(sampler(0.5, 3)) != list(sampler(0.5, 4))
    made = sampler(0.5)
    made.note({"名称": 0.7}, {2: False})
    other = sampler(0.5)
    other.restore(json.loads(json.dumps(made.state())))
    assert (other.exact, other.settled) == ({"名称": 0.7}, {2})


def test_too_few_pages_for_a_generation_are_refused() -> None:
    with pytest.raises(ValueError, match="20 rows for generations of 21"):
        HardSampler(PAGES, batch=21, group=2, repeats=1, hard=0.0, seed=0)


def test_weights_survive_rates_of_one() -> None:
    made = sampler(1.0)
    made.note({"名称": 1.0, "类型": 1.0}, dict.fromkeys(range(20), False))
    assert len(list(made)) == 120
