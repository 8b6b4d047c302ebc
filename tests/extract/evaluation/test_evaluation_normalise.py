"""When two readings are the same print, and what the rate of many is worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.extract.evaluation import (
    ConfidenceSample,
    dates_in,
    expected_calibration_error,
    reliability_table,
    same_value,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("label", "expected", "got"),
    [
        ("名称", "甲公司（北京）", "甲公司 (北京)"),
        ("经营范围", "零售、批发；安装：【甲】。★★", "零售,批发;安装:[甲]**"),
        ("统一社会信用代码", "91350100M000100Y43", "９１３５０１００Ｍ０００１００Ｙ４３"),
        ("成立日期", "二〇〇八年十月二十七日", "2008年10月27日"),
        ("成立日期", "二〇〇八年十月二十七日", "二零○八年十月二十七日"),
        ("成立日期", "2020年9月2日", "2020-09-02"),
        ("营业期限", "2003年05月20日 至 2018年01月18日止", "2003.05.20-2018.01.18"),
        ("营业期限", "2015年03月16日至长期", "2015-3-16 至 长期"),
        ("有效期限", "至2023年08月13日", "2023年08月13日"),
        ("营业期限", "无", "无"),
    ],
)  # fmt: skip
def test_the_same_print(label, expected, got) -> None:
    assert same_value(label, expected, got)


@pytest.mark.parametrize(
    ("label", "expected", "got"),
    [
        ("名称", "甲公司", "乙公司"),
        ("名称", "甲公司", None),
        ("名称", "甲公司", ""),
        ("名称", "**", ""),
        ("成立日期", "2020年9月2日", "2020年9月3日"),
        ("营业期限", "2015年03月16日至长期", "2015年03月16日"),
        ("营业期限", "2003年05月20日至2018年01月18日", "2003年05月20日"),
        ("营业期限", "长期", "2003年05月20日"),
        ("名称", "2020年9月2日", "2020-09-02"),
    ],
)
def test_not_the_same_print(label, expected, got) -> None:
    assert not same_value(label, expected, got)


def test_a_kind_of_date_compares_by_date_whatever_the_label() -> None:
    assert same_value("出生", "1990年1月2日", "1990-01-02", kind="date")
    assert not same_value("出生", "1990年1月2日", "1990-01-02")


def test_chinese_and_mixed_numerals() -> None:
    assert dates_in("二〇一三年十二月三十一日") == [(2013, 12, 31)]
    assert dates_in("20一三年1月十日") == [(2013, 1, 10)]
    assert dates_in("长期") == []


@given(st.text(alphabet="〇○零一十年月日至2０ Oo.-★", max_size=20), st.text(alphabet="十〇1年月日.", max_size=20))
def test_any_text_can_be_compared_and_equals_itself(a: str, b: str) -> None:
    same_value("成立日期", a, b)
    assert same_value("成立日期", a, a) == (a != "")


def test_wilson_interval_by_hand() -> None:
    low, high = wilson_interval(8, 10) or (0, 0)  # 8/10 is the textbook's (0.490, 0.943)
    assert (low, high) == (pytest.approx(0.4902, abs=5e-5), pytest.approx(0.9433, abs=5e-5))
    assert wilson_interval(0, 0) is None
    assert wilson_interval(0, 5)[0] == 0.0
    assert wilson_interval(5, 5)[1] == 1.0


def test_reliability_by_hand() -> None:
    samples = [
        ConfidenceSample("t", "f", c, ok) for c, ok in [(0.95, True), (0.93, False), (1.0, True), (0.1, False), (0.0, False)]
    ]
    table = reliability_table(samples)
    assert [b.n for b in table] == [1, 1, 0, 0, 0, 0, 0, 0, 0, 3]
    assert table[9].accuracy == pytest.approx(2 / 3)
    assert table[9].confidence == pytest.approx(0.96)
    assert expected_calibration_error(table) == pytest.approx(3 / 5 * (0.96 - 2 / 3) + 1 / 5 * 0.1)
    assert expected_calibration_error(reliability_table([])) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans())))
def test_every_answer_lands_in_one_bin_and_the_error_is_bounded(pairs) -> None:
    table = reliability_table([ConfidenceSample("t", "f", c, ok) for c, ok in pairs])
    assert sum(b.n for b in table) == len(pairs)
    ece = expected_calibration_error(table)
    assert (ece is None) == (not pairs)
    assert ece is None or 0 <= ece <= 1
