"""Pairing of fields: the pins of METHODS §2, the sentinels, and what greedy and Hungarian must have in common."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certloop.agentrl.rewards import BLANK, UNREADABLE, RewardError, assign, match_fields

TRUTH = {"名称": "甲乙丙丁戊己庚辛壬癸", "法定代表人": "陈启明", "住所": "重庆市北部新区", "成立日期": "1998-02-23"}
KEYS = ["名称", "企业名称", "成立日期", "登记日期", "发证日期", "住所", "经营场所", "法定代表人"]
FIELDS = st.dictionaries(st.sampled_from(KEYS), st.text(alphabet="甲乙丙12", min_size=1, max_size=4), max_size=6)
BOTH = pytest.mark.parametrize("method", ["greedy", "hungarian"])
SIMILARITY = st.sampled_from([0.0, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0])


@BOTH
def test_perfect_one_wrong_character_one_missing_one_extra(method) -> None:
    assert match_fields(TRUTH, TRUTH, method=method).f1 == 1.0
    wrong = match_fields(TRUTH, TRUTH | {"名称": "甲乙丙丁戊己庚辛壬X"}, method=method)
    assert wrong.true_positives == pytest.approx(3.81)
    assert wrong.f1 == pytest.approx(0.9525)
    missing = match_fields(TRUTH, {k: v for k, v in TRUTH.items() if k != "住所"}, method=method)
    assert missing.f1 == pytest.approx(6 / 7)
    assert missing.missed == ("住所",)
    extra = match_fields(TRUTH, TRUTH | {"zz": "x"}, method=method)
    assert extra.f1 == pytest.approx(8 / 9)
    assert extra.extra == ("zz",)


def test_precision_recall_and_f1_are_those_of_the_definition() -> None:
    match = match_fields(TRUTH, {"名称": TRUTH["名称"], "zz": "x"})
    p, r = match.precision, match.recall
    assert (p, r) == (0.5, 0.25)
    assert match.f1 == pytest.approx(2 * p * r / (p + r))


def test_both_empty_is_one_and_one_side_empty_is_zero() -> None:
    assert match_fields({}, {}).f1 == 1.0
    assert match_fields(TRUTH, {}).f1 == 0.0
    assert match_fields({}, {"a": "1"}).f1 == 0.0


def test_a_key_half_alike_is_kept_and_less_is_dropped() -> None:
    assert len(match_fields({"企业名称": "甲"}, {"名称": "甲"}).pairs) == 1
    assert match_fields({"法定代表人": "甲"}, {"法人": "甲"}).pairs == ()
    assert match_fields({"住所": "甲"}, {"地址": "甲"}).pairs == ()
    assert assign([[0.5]], [[1.0]]) == [(0, 0)]
    assert assign([[0.4999]], [[1.0]]) == []


@pytest.mark.parametrize(
    "canonical", [{"法人": "法定代表人", "地址": "住所"}, lambda k: {"法人": "法定代表人", "地址": "住所"}.get(k, k)]
)
def test_the_alias_map_works_before_similarity(canonical) -> None:
    match = match_fields({"法定代表人": "甲", "住所": "乙"}, {"法人": "甲", "地 址": "乙"} if isinstance(canonical, dict) else
                         {"法人": "甲", "地址": "乙"}, canonical=canonical)  # fmt: skip
    assert match.f1 == 1.0


def test_two_aliases_of_one_field_are_a_hedge_and_cost_precision() -> None:
    match = match_fields({"住所": "乙"}, {"住所": "乙", "地址": "丙"}, canonical={"地址": "住所"})
    assert match.f1 == pytest.approx(2 / 3)


def test_a_truth_with_one_field_twice_is_refused_without_naming_values() -> None:
    with pytest.raises(RewardError, match="住所") as error:
        match_fields({"住所": "秘密", "地址": "丙"}, {}, canonical={"地址": "住所"})
    assert "秘密" not in str(error.value)
    with pytest.raises(RewardError, match="method"):
        match_fields({}, {}, method="magic")  # type: ignore[arg-type]


def test_greedy_and_hungarian_differ_as_pinned() -> None:
    keys = [[0.9, 0.8], [0.8, 0.0]]
    values = [[1.0, 1.0], [1.0, 1.0]]
    assert assign(keys, values) == [(0, 0)]
    assert assign(keys, values, method="hungarian") == [(0, 1), (1, 0)]


def test_greedy_breaks_ties_by_value_then_position() -> None:
    assert assign([[0.8, 0.8]], [[0.2, 0.9]]) == [(0, 1)]
    assert assign([[0.8, 0.8], [0.8, 0.8]], [[0.5, 0.5], [0.5, 0.5]]) == [(0, 0), (1, 1)]


@BOTH
def test_swapped_dates_are_wrong_although_their_labels_are_half_alike(method) -> None:
    truth = {"成立日期": "2015年06月01日", "登记日期": "2020年12月31日"}
    swapped = {"成立日期": truth["登记日期"], "登记日期": truth["成立日期"]}
    assert match_fields(truth, swapped, method=method).f1 < 0.6


@BOTH
@pytest.mark.parametrize("hidden", [None, "", "  ", BLANK, UNREADABLE])
def test_a_field_without_readable_value_is_scored_on_its_own(method, hidden) -> None:
    truth = TRUTH | {"注册号": hidden}
    silent = match_fields(truth, TRUTH, method=method)
    assert (silent.f1, silent.sentinels.total, silent.sentinels.respected) == (1.0, 1, 1)
    null = match_fields(truth, TRUTH | {"注册号": None}, method=method)
    assert null.f1 == 1.0
    assert len(null.pairs) == 4  # null = null is no match
    invented = match_fields(truth, TRUTH | {"注册号": "123"}, method=method)
    assert invented.f1 == pytest.approx(8 / 9)
    assert invented.invented == ("注册号",)
    assert invented.sentinels.respected == 0


def test_null_for_a_printed_value_is_a_miss_and_only_null_is_no_answer() -> None:
    match = match_fields(TRUTH, TRUTH | {"住所": None})
    assert match.f1 == pytest.approx(6 / 7)
    assert match.missed == ("住所",)
    assert match_fields({"a": None}, {"a": None}).f1 == 1.0  # nothing to read, nothing claimed
    assert match_fields({"a": None}, {"a": "1"}).f1 == 0.0


def test_an_invented_value_cannot_be_paired_with_a_neighbour() -> None:
    assert match_fields({"名称": None, "企业名称": "甲"}, {"名称": "甲"}).true_positives == 0.0


@BOTH
@given(truth=FIELDS, predicted=FIELDS)
@settings(deadline=None)
def test_scores_are_bounded_and_perfect_is_one(method, truth, predicted) -> None:
    match = match_fields(truth, predicted, method=method)
    assert 0.0 <= match.f1 <= 1.0
    assert 0.0 <= match.precision <= 1.0
    assert 0.0 <= match.recall <= 1.0
    assert len(match.pairs) + len(match.missed) == match.n_truth
    assert len(match.pairs) + len(match.extra) == match.n_predicted
    assert match_fields(truth, truth, method=method).f1 == 1.0


@given(data=st.data(), truth=FIELDS, predicted=FIELDS)
@settings(deadline=None)
def test_the_order_of_fields_does_not_change_the_score(data, truth, predicted) -> None:
    mixed = dict(data.draw(st.permutations(list(predicted.items()))))
    shuffled = dict(data.draw(st.permutations(list(truth.items()))))
    hungarian = match_fields(truth, predicted, method="hungarian").true_positives
    assert match_fields(shuffled, mixed, method="hungarian").true_positives == pytest.approx(hungarian, abs=1e-6)
    known = {k: v for k, v in predicted.items() if k in truth}
    known_mixed = {k: v for k, v in mixed.items() if k in truth}
    assert match_fields(shuffled, known_mixed).f1 == pytest.approx(match_fields(truth, known).f1)


@given(truth=FIELDS, predicted=FIELDS)
@settings(deadline=None)
def test_hungarian_never_counts_less_than_greedy(truth, predicted) -> None:
    greedy = match_fields(truth, predicted)
    hungarian = match_fields(truth, predicted, method="hungarian")
    assert hungarian.true_positives >= greedy.true_positives - 1e-6


@BOTH
@given(data=st.data(), rows=st.integers(1, 4), columns=st.integers(1, 4))
@settings(deadline=None)
def test_pairs_are_one_to_one_and_over_the_threshold(method, data, rows, columns) -> None:
    draw = st.lists(st.lists(SIMILARITY, min_size=columns, max_size=columns), min_size=rows, max_size=rows)
    keys, values = data.draw(draw), data.draw(draw)
    pairs = assign(keys, values, method=method)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert all(keys[i][j] >= 0.5 for i, j in pairs)
