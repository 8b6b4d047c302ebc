"""Amounts of money in the forms that licences print."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certloop.validators import Money, normalise, parse_money, passes, validate


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("壹仟贰佰万元整", "12000000.00"),
        ("人民币 伍佰万元整", "5000000.00"),
        ("人民币伍佰万圆整", "5000000.00"),
        ("1000万元", "10000000.00"),
        ("1000 万元人民币", "10000000.00"),
        ("1000.000000万人民币", "10000000.00"),
        ("１０００万元", "10000000.00"),
        ("￥1,000,000.00", "1000000.00"),
        ("RMB 500万", "5000000.00"),
        ("500(万元)", "5000000.00"),
        ("(人民币)壹佰万元", "1000000.00"),
        ("万元：500", "5000000.00"),
        ("5000000", "5000000.00"),
        ("5千万元", "50000000.00"),
        ("1亿2000万元", "120000000.00"),
        ("壹亿零伍拾万元整", "100500000.00"),
        ("壹万亿元", "1000000000000.00"),
        ("壹仟零壹拾万伍仟元整", "10105000.00"),
        ("十万元", "100000.00"),
        ("拾伍万元", "150000.00"),
        ("叁萬圓整", "30000.00"),
        ("贰佰零叁元", "203.00"),
        ("壹佰元零伍分", "100.05"),
        ("壹佰贰拾叁元肆角伍分", "123.45"),
        ("伍角整", "0.50"),
        ("零元", "0.00"),
        ("333.33335万元", "3333333.50"),
        ("0.1234567万元", "1234.567"),
        ("人民币3万元整★", "30000.00"),
        ("1000万元(人民币壹仟万元整)", "10000000.00"),
        ("伍零零万元", "5000000.00"),
        ("陆佰陆拾陆.陆陆万元", "6666600.00"),
        ("壹佰贰拾点零伍万元整", "1200500.00"),
        ("叁佰万零仟零佰零拾零元零角零分", "3000000.00"),
    ],
)
def test_yuan(text: str, amount: str) -> None:
    assert normalise("money", text) == {"amount": amount, "currency": "CNY"}
    assert passes(validate("money", text))


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("美元300.0000万", "3000000.00", "USD"),
        ("300万美元", "3000000.00", "USD"),
        ("USD 3,000,000", "3000000.00", "USD"),
        ("US$50万", "500000.00", "USD"),
        ("壹佰万美元整", "1000000.00", "USD"),
        ("港币100万元", "1000000.00", "HKD"),
        ("100万港元", "1000000.00", "HKD"),
        ("欧元20万", "200000.00", "EUR"),
        ("5000万日元", "50000000.00", "JPY"),
        ("新台币100万元", "1000000.00", "TWD"),
    ],
)
def test_other_currencies(text: str, amount: str, currency: str) -> None:
    assert normalise("money", text) == {"amount": amount, "currency": currency}


@pytest.mark.parametrize(
    "text",
    [
        "3万5元",  # 35000 or 30005
        "12角",
        "万元",
        "1,00万元",
        "-5万元",
        "壹佰贰佰元",
        "1万2亿元3万",
        "$5 ¥6",
        "1000万元(人民币壹佰万元整)",
        "一百二三元",
        "若干",
        "点伍万元",
        "壹点伍点伍万元",
        "1.2.3元",
        "9" * 19,
        "9" * 4000 + "元",
        "万" * 4000,
    ],
)
def test_unreadable_ambiguous_or_contradictory_amounts(text: str) -> None:
    assert parse_money(text) is None
    assert normalise("money", text) is None
    assert [verdict.rule for verdict in validate("money", text) if verdict.failed] == ["money.readable"]


def test_parsed_amount_is_a_decimal_in_units_of_the_currency() -> None:
    assert parse_money("美元300.0000万") == Money(Decimal(3_000_000), "USD")


DIGITS = "零壹贰叁肆伍陆柒捌玖"


def capital(number: int) -> str:
    """Capital numerals of 1..99999999, written independently of the parser."""
    high, low = divmod(number, 10000)
    text = f"{_section(high)}万" if high else ""
    if low:
        text += ("零" if high and (low < 1000 or high % 10 == 0) else "") + _section(low)
    return text


def _section(number: int) -> str:
    text, zero = "", False
    for size, unit in ((1000, "仟"), (100, "佰"), (10, "拾"), (1, "")):
        digit = number // size % 10
        if digit:
            text += ("零" if zero and text else "") + DIGITS[digit] + unit
        zero = digit == 0
    return text


@given(st.integers(1, 99_999_999))
def test_capital_numerals_and_figures_agree(number: int) -> None:
    expected = {"amount": f"{number}.00", "currency": "CNY"}
    for text in (
        f"{capital(number)}元整",
        f"人民币{capital(number)}圆整",
        f"{number}元",
        f"¥{number:,}.00",
        f"{number}元({capital(number)}元)",
    ):
        assert normalise("money", text) == expected


@given(st.decimals(0, 9_999_999, places=4))
def test_figures_in_ten_thousands(number: Decimal) -> None:
    money = parse_money(f"{number}万元")
    assert money is not None
    assert money.amount == number * 10000
