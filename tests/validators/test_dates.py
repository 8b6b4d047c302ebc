"""Dates and terms in every written form. Pins: METHODS §12."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.validators import (
    DateRange,
    Outcome,
    PartialDate,
    Severity,
    find_dates,
    normalise,
    parse_date,
    parse_date_range,
    passes,
    validate,
)
from certloop.validators.dates import last_day_of_term


@pytest.mark.parametrize(
    "text",
    [
        "2015年06月01日",
        "2015年6月1日",
        "二〇一五年六月一日",
        "二○一五年六月一日",
        "二零一五年六月一日",
        "二O一五年六月一日",
        "二〇一五年〇六月〇一日",
        "贰零壹伍年零陆月零壹日",
        "2015-6-1",
        "2015-06-01",
        "2015.06.01",
        "2015/06/01",
        "20150601",
        "２０１５年０６月０１日",
        "２０１５．０６．０１",
        "2015 年 06 月 01 日",
        "2 0 1 5 年 6 月 1 日",
        "2015\u3000年\u30006\u3000月\u30001\u3000日",
        "2O15年O6月O1日",
        "2015年06月01",
        "2015年6月1日止",
        "★2015年06月01日**",
        "2015年06月01日。",
        "2015年06月01号",
        "至2015年06月01日",
        "2015-06-01 00:00:00",
        "2015-06-01T08:30",
    ],
)
def test_each_written_form_is_the_same_day(text: str) -> None:
    assert parse_date(text) == PartialDate(2015, 6, 1)
    assert normalise("date", text) == "2015-06-01"
    assert passes(validate("date", text))


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("二零二〇年十二月三十一日", "2020-12-31"),
        ("二〇二四年十月二十日", "2024-10-20"),
        ("二〇二四年十一月十日", "2024-11-10"),
        ("二〇二四年二月廿九日", "2024-02-29"),
        ("贰零贰零年零壹拾月零壹日", "2020-10-01"),
        ("2020-02-29", "2020-02-29"),
        ("9999年12月31日", "9999-12-31"),
        ("99991231", "9999-12-31"),
        ("2015年06月", "2015-06"),
        ("2015.6", "2015-06"),
        ("2015年", "2015"),
    ],
)
def test_more_dates(text: str, iso: str) -> None:
    assert normalise("date", text) == iso
    assert passes(validate("date", text))


@pytest.mark.parametrize("text", ["2020年02月30日", "2021年2月29日", "2021-02-29", "20210229", "2015年13月1日", "2015年6月31日"])
def test_impossible_days_are_not_dates(text: str) -> None:
    assert parse_date(text) is None
    assert normalise("date", text) is None
    (verdict,) = validate("date", text)
    assert verdict.rule == "date.calendar"
    assert verdict.severity is Severity.SOFT


@pytest.mark.parametrize("text", ["15年6月1日", "15-06-01", "15.6.1", "一五年六月一日", "'15年06月01日"])
def test_two_digit_years_are_refused(text: str) -> None:
    assert parse_date(text) is None
    assert [verdict.rule for verdict in validate("date", text)] == ["date.four_digit_year"]


@pytest.mark.parametrize(
    "text", ["12015年6月1日", "2015-06-01-2020-06-01", "2015-06-001", "0215年6月1日", "今天", "6月1日", "2015年6月1日或2日"]
)
def test_other_texts_are_not_one_date(text: str) -> None:
    assert parse_date(text) is None
    assert not passes(validate("date", text))


def test_month_precision_is_said_and_still_passes() -> None:
    date = parse_date("2015年06月")
    assert date is not None
    assert date.precision == "month"
    assert {v.rule: v.outcome for v in validate("date", "2015年06月")}["date.day_precision"] is Outcome.NOT_APPLICABLE


def test_long_term_is_a_value_of_a_date_field() -> None:
    for text in ("长期", "永久", "无固定期限", "不约定期限", "长期有效"):
        assert passes(validate("date", text))
        assert normalise("date", text) is None


def test_implausible_years_are_flagged_softly() -> None:
    assert [v.rule for v in validate("date", "3015年6月1日") if v.failed] == ["date.plausible_year"]


def test_find_dates_in_a_sentence() -> None:
    text = "自2015年6月1日起，至二〇二〇年五月三十一日止；2020年2月30日除外，签发于2015.06.02"
    assert [date.iso() for date in find_dates(text)] == ["2015-06-01", "2020-05-31", "2015-06-02"]


def range_json(start: str | None, end: str | None, open_ended: bool = False) -> dict[str, str | bool | None]:
    return {"start": start, "end": end, "open_ended": open_ended}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2015.06.01-2035.06.01", range_json("2015-06-01", "2035-06-01")),
        ("2015.06.01—2035.06.01", range_json("2015-06-01", "2035-06-01")),
        ("2015.06.01～2035.06.01", range_json("2015-06-01", "2035-06-01")),
        ("2015.06.01一2035.06.01", range_json("2015-06-01", "2035-06-01")),
        ("2015-06-01-2035-06-01", range_json("2015-06-01", "2035-06-01")),
        ("2015.6.1 2035.6.1", range_json("2015-06-01", "2035-06-01")),
        ("20150601-20350601", range_json("2015-06-01", "2035-06-01")),
        ("2015-06-2035-06", range_json("2015-06", "2035-06")),
        ("2003年05月20日 至 2018年01月18日止", range_json("2003-05-20", "2018-01-18")),
        ("自2015年6月1日起至2020年5月31日止", range_json("2015-06-01", "2020-05-31")),
        ("二〇〇八年十二月五日 至 二〇一八年十二月四日", range_json("2008-12-05", "2018-12-04")),
        ("2015年06月01日到2035年05月31日", range_json("2015-06-01", "2035-05-31")),
        ("2015年06月01日至9999年12月31日", range_json("2015-06-01", "9999-12-31")),
        ("至2023年08月13日", range_json(None, "2023-08-13")),
        ("2015年6月1日至长期", range_json("2015-06-01", None, True)),
        ("2015.06.01-长期", range_json("2015-06-01", None, True)),
        ("2015年06月01日 至 无固定期限", range_json("2015-06-01", None, True)),
        ("长期", range_json(None, None, True)),
        ("永久", range_json(None, None, True)),
        ("不约定期限", range_json(None, None, True)),
    ],
)
def test_terms(text: str, expected: dict[str, str | bool | None]) -> None:
    assert normalise("date_range", text) == expected
    assert passes(validate("date_range", text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50至2062年", range_json(None, "2062")),
        ("2015年6月1日至", range_json("2015-06-01", None)),
        ("自2015年6月1日至****", range_json("2015-06-01", None)),
        ("2020年02月30日至2030年01月01日", range_json(None, "2030-01-01")),
        ("2015年6月1日至6月30日", range_json("2015-06-01", None)),
        ("2035-06-01", range_json(None, "2035-06-01")),
    ],
)
def test_terms_of_which_only_a_part_is_readable(text: str, expected: dict[str, str | bool | None]) -> None:
    assert normalise("date_range", text) == expected
    assert [v.rule for v in validate("date_range", text) if v.failed] == ["date_range.complete"]


def test_a_missing_end_is_not_an_open_end() -> None:
    assert parse_date_range("2015年6月1日至") == DateRange(PartialDate(2015, 6, 1), None, open_ended=False, partial=True)
    assert parse_date_range("2015年6月1日至长期") == DateRange(PartialDate(2015, 6, 1), None, open_ended=True, partial=False)


def test_term_that_ends_before_it_starts() -> None:
    assert [v.rule for v in validate("date_range", "2035.06.01-2015.06.01") if v.failed] == ["date_range.order"]


def test_terms_in_words_are_not_judged_and_unreadable_ones_fail() -> None:
    assert [v.outcome for v in validate("date_range", "自签署之日起一年")] == [Outcome.NOT_APPLICABLE]
    assert [v.rule for v in validate("date_range", "15年6月1日至20年6月1日")] == ["date_range.readable"]
    assert normalise("date_range", "自签署之日起一年") is None


def test_last_day_of_a_five_year_term() -> None:
    def after(year: int, month: int, day: int) -> str | None:
        last = last_day_of_term(PartialDate(year, month, day), 5)
        return last and last.iso()

    assert after(2019, 6, 1) == "2024-05-31"
    assert after(2019, 6, 15) == "2024-06-14"
    assert after(2019, 1, 1) == "2023-12-31"
    assert after(2016, 3, 1) == "2021-02-28"
    assert after(2019, 3, 1) == "2024-02-29"
    assert after(2020, 2, 29) == "2025-02-28"
    assert last_day_of_term(PartialDate(9999, 6, 1), 5) is not None
    assert last_day_of_term(PartialDate(2019, 6), 5) is None


HAN = "〇一二三四五六七八九"


def han(number: int) -> str:
    tens, ones = divmod(number, 10)
    return ("" if tens == 0 else "十" if tens == 1 else HAN[tens] + "十") + (HAN[ones] if ones else "")


@given(st.dates(datetime.date(1840, 1, 1), datetime.date(2099, 12, 31)))
def test_any_day_is_read_in_every_form(day: datetime.date) -> None:
    year = "".join(HAN[int(digit)] for digit in str(day.year))
    forms = [
        f"{day.year}年{day.month}月{day.day}日",
        f"{day.year}年{day.month:02d}月{day.day:02d}日",
        f"{year}年{han(day.month)}月{han(day.day)}日",
        f"{day.year}.{day.month}.{day.day}",
        f"{day:%Y/%m/%d}",
        f"{day:%Y%m%d}",
        day.isoformat(),
    ]
    assert {normalise("date", form) for form in forms} == {day.isoformat()}


@given(st.dates(datetime.date(1840, 1, 1), datetime.date(2099, 12, 31)), st.integers(0, 20000), st.sampled_from("至-—~到"))
def test_any_term_is_read(start: datetime.date, days: int, separator: str) -> None:
    end = start + datetime.timedelta(days=days)
    expected = range_json(start.isoformat(), end.isoformat())
    for form in (
        "{:%Y.%m.%d}{}{:%Y.%m.%d}",
        "{:%Y年%m月%d日} {} {:%Y年%m月%d日}",
        "{:%Y%m%d}{}{:%Y%m%d}",
        "{:%Y-%m-%d}{}{:%Y-%m-%d}",
    ):
        assert normalise("date_range", form.format(start, separator, end)) == expected
