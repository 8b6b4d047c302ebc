"""The F1^4 reward: pins of METHODS §2 and what JSON text may and may not do."""

import json
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certloop.agentrl.rewards import RewardError, f1_power, f1_power_reward, f1_power_rewards, group_advantages, parse_answer

TRUTH = {"名称": "甲乙丙丁戊己庚辛壬癸", "法定代表人": "陈启明", "住所": "重庆市北部新区", "成立日期": "1998-02-23"}


@pytest.mark.parametrize(
    ("f1", "reward"),
    [(0, 0.05), (0.5, 0.109375), (0.8, 0.43912), (0.85, 0.545906), (0.9, 0.673295), (0.95, 0.823781), (0.99, 0.962566), (1, 1.0)],
)
def test_the_curve(f1: float, reward: float) -> None:
    assert f1_power(f1) == pytest.approx(reward, abs=5e-7)


def test_gap_and_slope_near_the_top() -> None:
    assert f1_power(1) - f1_power(0.9) == pytest.approx(0.95 * 0.3439)  # the F1^4 gap is 0.3439
    h = 1e-6
    assert (f1_power(0.9 + h) - f1_power(0.9 - h)) / (2 * h) == pytest.approx(2.7702, abs=1e-4)
    assert (f1_power(1.0) - f1_power(1.0 - h)) / h == pytest.approx(3.8, abs=1e-3)


def test_lower_powers_for_comparison() -> None:
    assert f1_power(0.8, 1) == pytest.approx(0.81)
    assert f1_power(0.8, 2) == pytest.approx(0.658)
    for f1, k in ((1.2, 4), (-0.1, 4), (float("nan"), 4), (0.5, 0), (0.5, float("inf"))):
        with pytest.raises(RewardError):
            f1_power(f1, k)


@pytest.mark.parametrize(
    ("change", "reward"),
    [({}, 1.0), ({"名称": "甲乙丙丁戊己庚辛壬X"}, 0.831958), ({"住所": None}, 0.562786), ({"zz": "x"}, 0.64308)],
)
def test_four_field_pins(change, reward: float) -> None:
    answer = {k: v for k, v in (TRUTH | change).items() if v is not None}
    assert f1_power_reward(TRUTH, json.dumps(answer)).reward == pytest.approx(reward, abs=5e-7)
    assert f1_power_reward(TRUTH, answer).reward == pytest.approx(reward, abs=5e-7)


def test_empty_object_earns_the_floor_and_no_object_earns_nothing() -> None:
    assert f1_power_reward(TRUTH, "{}").reward == 0.05
    for text in ("", "no", "[]", "null", '"x"', '{"a": "b"', '{"a": NaN}', "```json\n{}\n```", "{} {}", "[" * 100_000):
        got = f1_power_reward(TRUTH, text)
        assert (got.reward, got.f1, got.matching) == (0.0, 0.0, None)


def test_a_key_written_twice_keeps_the_last_and_pays() -> None:
    text = json.dumps(TRUTH)[:-1] + ', "住所": "错"}'
    twice = f1_power_reward(TRUTH, text)
    once = f1_power_reward(TRUTH, TRUTH | {"住所": "错"})
    assert twice.penalised
    assert not twice.strict
    assert twice.reward == pytest.approx(once.reward - 0.05)
    assert f1_power_reward(TRUTH, text, format_penalty=0.2).reward == pytest.approx(once.reward - 0.2)
    assert f1_power_reward(TRUTH, '{"a":"1","a":"2"}').reward == 0.0


def test_keys_written_twice_are_found_at_any_depth_and_in_any_number() -> None:
    nested = parse_answer('{"a": {"x": "1", "x": "2"}, "b": [{"y": 1, "y": 2}], "c": "t"}')
    assert nested is not None
    assert set(nested.duplicates) == {"x", "y"}
    many = parse_answer("{" + ",".join(['"a": "1"', '"b": "2"'] * 100_000) + "}")
    assert many is not None
    assert (set(many.duplicates), many.fields) == ({"a", "b"}, {"a": "1", "b": "2"})
    for depth in (900, 100_000):
        parse_answer('{"a": ' + "[" * depth + "]" * depth + "}")  # read or refused, never raised


def test_values_that_are_not_text_are_compared_as_written() -> None:
    parsed = parse_answer('{"a": 007}') or parse_answer(
        '{"a": 7.50, "b": null, "c": ["x"], "d": true, "e": "t", "f": ' + "9" * 5000 + "}"
    )
    assert parsed is not None
    assert parsed.fields["a"] == "7.50"
    assert (parsed.fields["b"], parsed.fields["c"], parsed.fields["d"], parsed.fields["e"]) == (None, '["x"]', "true", "t")
    assert parsed.not_text == ("a", "c", "d", "f")
    assert not parsed.strict
    assert f1_power_reward({"电话": "12331"}, '{"电话": 12331}').reward == 1.0


def test_the_log_never_holds_a_value_or_a_label_of_the_model() -> None:
    got = f1_power_reward(TRUTH | {"注册号": None}, {"名称": "秘密公司", "张三110105": "x", "注册号": "9"})
    log = json.dumps(got.to_log(), ensure_ascii=False)
    assert "秘密" not in log
    assert "张三" not in log
    assert got.to_log()["fields"]["住所"] == 0.0
    assert got.to_log()["sentinels"] == {"total": 1, "respected": 0}
    assert f1_power_reward({}, "x").to_log() == {"reward": 0.0, "k": 4, "parsed": False}


@given(st.text(max_size=60))
def test_any_text_scores_within_bounds(text: str) -> None:
    assert 0.0 <= f1_power_reward(TRUTH, text).reward <= 1.0


@given(
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.none(), st.text(max_size=5), st.integers(), st.lists(st.booleans())), max_size=5
    )
)
@settings(deadline=None)
def test_any_object_scores_between_floor_and_one(answer) -> None:
    assert 0.05 <= f1_power_reward(TRUTH, json.dumps(answer)).reward <= 1.0


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([1, 2, 4]))
def test_better_f1_is_never_worth_less(a: float, b: float, k: int) -> None:
    assert (f1_power(a, k) <= f1_power(b, k)) or a > b


def test_two_values_normalise_alike_whatever_the_power() -> None:
    for k in (1, 2, 4):
        assert group_advantages([f1_power(0.9, k), f1_power(1.0, k)]) == pytest.approx([-1, 1])


def test_with_three_values_only_the_convexity_shows() -> None:
    f1 = [0.8, 0.9, 1.0]
    assert group_advantages(f1) == pytest.approx([-1.2247, 0, 1.2247], abs=5e-5)
    assert group_advantages([f1_power(x, 1) for x in f1]) == pytest.approx([-1.2247, 0, 1.2247], abs=5e-5)
    assert group_advantages([f1_power(x) for x in f1]) == pytest.approx([-1.1522, -0.1341, 1.2863], abs=5e-5)


def test_the_floor_separates_parsable_from_not_in_an_all_zero_group() -> None:
    rewards = [f1_power_reward(TRUTH, text).reward for text in ("{}", "garbage")]
    assert group_advantages(rewards) == pytest.approx([1, -1])


def test_population_and_sample_deviation_and_equal_groups() -> None:
    assert group_advantages([1, 0, 0, 0]) == pytest.approx([1.7320508] + [-0.5773503] * 3)
    assert group_advantages([1, 0, 0, 0], sample_std=True) == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert group_advantages([0.3, 0.3]) == [0.0, 0.0]
    assert group_advantages([0.7]) == [0.0]
    assert group_advantages([1, 0], scale="none") == [0.5, -0.5]
    for bad in ([], [float("nan")]):
        with pytest.raises(RewardError):
            group_advantages(bad)
    with pytest.raises(RewardError):
        group_advantages([1], scale="batch")  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=8), st.floats(0.1, 5), st.floats(-2, 2))
def test_affine_changes_have_no_effect_under_group_scaling(rewards, slope: float, shift: float) -> None:
    if max(rewards) - min(rewards) < 1e-3:
        return
    changed = group_advantages([slope * r + shift for r in rewards])
    assert changed == pytest.approx(group_advantages(rewards), abs=1e-6)
    assert sum(changed) == pytest.approx(0, abs=1e-6)


def test_equal_answers_earn_equal_rewards_wherever_their_faults_stand() -> None:
    """One value with one wrong character of seven, one with three: their place must not decide by a rounding error."""
    truth = dict.fromkeys(("甲一", "乙二", "丙三", "丁四"), "0123456")
    answers = [truth | {a: "012345X", b: "0123XYZ"} for a, b in permutations(truth, 2)]
    rewards = [f1_power_reward(truth, answer).reward for answer in answers]
    assert len(set(rewards)) == 1
    assert [r.reward for r in f1_power_rewards([truth] * len(answers), answers)] == rewards
    assert group_advantages(rewards) == [0.0] * len(rewards)


def test_rounding_makes_no_advantage() -> None:
    assert group_advantages([0.1 + 0.2, 0.3]) == [0.0, 0.0]
    assert group_advantages([1e-9, 2e-9]) == pytest.approx([-1, 1])
    assert group_advantages([1e308, 1e308, 1e308, -1e308]) == pytest.approx([0.5773503] * 3 + [-1.7320508])


@pytest.mark.parametrize("truth", [{"a": 1}, {"a": ["1"]}, {1: "1"}, ["a"], None, {"a": float("nan")}])
def test_a_truth_that_is_no_map_of_texts_is_refused(truth) -> None:
    with pytest.raises(RewardError):
        f1_power_reward(truth, "{}")


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ({"a": 12}, 1.0),
        ({1: "12"}, 0.05),
        ({"a": ["12"]}, 0.05 + 0.95 * (2 / 6) ** 8),
        ({"a": float("nan")}, 0.05),
        ({"a": {1, 2}}, 0.0),
        ({"a": object()}, 0.0),
        ({"a": 10**5000}, 0.0),
        (["a"], 0.0),
        (b'{"a": "12"}', 0.0),
        (None, 0.0),
    ],
)
def test_an_answer_that_was_parsed_elsewhere_is_scored_and_never_raises(answer, reward: float) -> None:
    assert f1_power_reward({"a": "12"}, answer).reward == pytest.approx(reward)
    assert f1_power_rewards([{"a": "12"}], [answer])[0].reward == pytest.approx(reward)


@pytest.mark.parametrize("option", [{"format_penalty": -1.0}, {"format_penalty": float("nan")}, {"key_threshold": float("nan")}])
def test_settings_that_could_lift_a_reward_above_one_are_refused(option) -> None:
    with pytest.raises(RewardError):
        f1_power_reward(TRUTH, json.dumps(TRUTH), **option)
