"""What a model tries when it learns that a number is looked at: none of it pays."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.agentrl.rewards import f1_power, f1_power_reward, f1_power_rewards, match_fields, text_similarity
from certloop.agentrl.rewards.matching import Matching, claims_nothing
from certloop.agentrl.rewards.pairing import assign
from certloop.agentrl.rewards.text import fold

TRUTH = {"企业名称": "上海甲乙有限公司", "注册号": "914403001922038211", "住所": "上海市某路1号", "成立日期": "2019年3月5日"}
RIGHT = json.dumps(TRUTH, ensure_ascii=False)


def reward(answer: object, **options) -> float:
    return f1_power_reward(TRUTH, answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False), **options).reward


def is_repair(key: str, printed: str, answered: str) -> bool:
    """Handed in by the domain: the printed code fails its check digit and the answer differs in just that digit."""
    return key == "注册号" and printed[:-1] == answered[:-1]


def test_extra_fields_cost() -> None:
    rewards = [reward(TRUTH | {f"备注{i}": "无" for i in range(n)}) for n in range(6)]
    assert rewards[0] == 1.0
    assert rewards == sorted(rewards, reverse=True)
    assert len(set(rewards)) == 6


def test_missing_fields_cost() -> None:
    kept = [dict(list(TRUTH.items())[:n]) for n in (4, 3, 2, 1, 0)]
    rewards = [reward(fields) for fields in kept]
    assert rewards == sorted(rewards, reverse=True)
    assert len(set(rewards)) == 5


def test_a_key_written_many_times_costs_and_only_the_last_counts() -> None:
    twice = '{"住所": "上海市某路1号", ' + RIGHT[1:]
    assert reward(twice) == pytest.approx(0.95)
    guesses = "{" + ", ".join(f'"注册号": "{n}"' for n in range(100)) + "}"
    assert reward(guesses) == max(0.0, reward({"注册号": "99"}) - 0.05)


def test_alias_keys_of_one_field_count_once() -> None:
    aliases = {"名称": "企业名称", "单位名称": "企业名称"}
    many = TRUTH | {"名称": TRUTH["企业名称"], "单位名称": TRUTH["企业名称"]}
    assert reward(many, canonical=aliases) < reward(TRUTH, canonical=aliases) == 1.0


def test_an_empty_object_earns_the_floor_and_no_object_nothing() -> None:
    assert reward("{}") == pytest.approx(0.05)
    for text in ("", "[]", "null", "好的", RIGHT + RIGHT, RIGHT[:-1], f"```json\n{RIGHT}\n```"):
        assert reward(text) == 0.0


def test_a_repaired_check_digit_earns_nothing_for_its_field() -> None:
    repaired = TRUTH | {"注册号": "914403001922038216"}
    without = {key: value for key, value in TRUTH.items() if key != "注册号"}
    assert reward(repaired, repaired=is_repair) < reward(without, repaired=is_repair) < 1.0
    got = f1_power_reward(TRUTH, repaired, repaired=is_repair)
    assert got.matching is not None
    assert {p.truth_key: p.value_similarity for p in got.matching.pairs}["注册号"] == 0.0
    assert reward(TRUTH, repaired=is_repair) == 1.0  # the verbatim code, valid or not, is the right answer
    misread = TRUTH | {"注册号": "914403001922038271"[:-1] + "9"}
    assert reward(misread, repaired=lambda *_: False) > reward(misread, repaired=lambda *_: True)


def test_an_endless_answer_is_worth_nothing_and_does_not_hang() -> None:
    endless = [
        '{"住所": "' + "路" * 2_000_000,
        json.dumps(TRUTH | {"住所": "路" * 1_000_000}, ensure_ascii=False),
        json.dumps(TRUTH | {"住所": TRUTH["住所"] * 100_000}, ensure_ascii=False),
        json.dumps({f"键{i}": "值" for i in range(20_000)}, ensure_ascii=False),
        "[" * 1_000_000,
    ]
    rewards = [reward(text) for text in endless]
    assert rewards[0] == rewards[4] == 0.0
    assert max(rewards[1], rewards[2]) <= f1_power(0.75) + 1e-4  # three of four fields
    assert rewards[3] == pytest.approx(0.05, abs=1e-6)


def test_values_under_the_wrong_keys_earn_little() -> None:
    shifted = dict(zip(TRUTH, [*list(TRUTH.values())[1:], TRUTH["企业名称"]], strict=True))
    everything = dict.fromkeys(TRUTH, "".join(TRUTH.values()))
    assert reward(shifted) < 0.06
    assert reward(everything) < 0.06


def test_the_batch_scores_exactly_like_one_by_one() -> None:
    other = {"甲": "1", "乙": None, "丙": "<blank>"}
    answers = [RIGHT, "{}", "x", RIGHT, '{"甲": "1", "乙": "2"}', {"甲": "1"}, RIGHT]
    truths = [TRUTH, TRUTH, TRUTH, TRUTH, other, other, dict(TRUTH)]
    batch = f1_power_rewards(truths, answers, k=2, method="hungarian", repaired=is_repair)
    single = [f1_power_reward(t, a, k=2, method="hungarian", repaired=is_repair) for t, a in zip(truths, answers, strict=True)]
    assert batch == single
    with pytest.raises(ValueError, match="truths for"):
        f1_power_rewards([TRUTH], [])


KEYS = st.text(alphabet="名称日期 ab1１", max_size=4)
VALUES = st.none() | st.text(alphabet="甲乙丙12 \u0301e", max_size=5) | st.sampled_from(["<blank>", "<unreadable>"])


def plain(truth: dict, predicted: dict, aliases: dict[str, str]) -> Matching:
    """METHODS §2 to the letter: every key against every key, then ``assign``."""
    rename = {fold(a): fold(b) for a, b in aliases.items()}
    key = lambda k: rename.get(fold(k), fold(k))  # noqa: E731
    hidden = {key(k) for k, v in truth.items() if claims_nothing(v)}
    wanted = [(key(k), v) for k, v in truth.items() if key(k) not in hidden]
    claimed = [(key(k), v) for k, v in predicted.items() if not claims_nothing(v)]
    answers = [(k, v) for k, v in claimed if k not in hidden]
    keys = [[text_similarity(w, a) for a, _ in answers] for w, _ in wanted]
    values = [[text_similarity(w, a) for _, a in answers] for _, w in wanted]
    found = assign(keys, values)
    tp = sum(values[i][j] ** 2 for i, j in found)
    return Matching((), tp, len(wanted), len(claimed))


@given(st.dictionaries(KEYS, VALUES, max_size=6), st.dictionaries(KEYS, VALUES, max_size=8), st.booleans())
def test_the_fast_matching_is_the_plain_one(truth: dict, predicted: dict, renamed: bool) -> None:
    aliases = {"名": "名称", "a": "ab"} if renamed else {}
    try:
        got = match_fields(truth, predicted, canonical=aliases)
    except ValueError:  # two truth fields with one key
        return
    expected = plain(truth, predicted, aliases)
    assert (got.n_truth, got.n_predicted) == (expected.n_truth, expected.n_predicted)
    assert got.true_positives == pytest.approx(expected.true_positives)


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_a_hundred_thousand_invented_neighbours_do_not_stall_the_best_assignment() -> None:
    truth = {"成立日期": "1", "登记日期": "2", "发证日期": "3"}  # each is half alike to every key below
    keys = [chr(0x4E00 + i // 200) + chr(0x5E00 + i % 200) + "日期" for i in range(100_000)]
    got = f1_power_reward(truth, dict.fromkeys(keys, "9"), method="hungarian")
    assert got.reward == pytest.approx(0.05)
    assert len(got.matching.pairs) == 3  # type: ignore[union-attr]


def test_a_batch_of_answers_that_claim_thousands_of_values_stays_small() -> None:
    truth = {"成立日期": "甲乙丙丁戊" * 180}
    answers = [
        {chr(0x4E00 + i // 200) + chr(0x5E00 + i % 200) + "日期": f"{n}:{i}" for i in range(1500)} for n in range(40)
    ]  # all values differ, and each may be compared with the printed one
    tracemalloc.start()
    try:
        rewards = f1_power_rewards([truth] * len(answers), answers)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {reward.reward for reward in rewards} == {0.05}
    assert peak_bytes < 150 << 20
