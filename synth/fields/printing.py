"""How facts are written on paper: Chinese or Arabic numerals, padded or not, 长期 or 永久."""

from __future__ import annotations

from datetime import date
from random import Random

from certloop.synth.fields.facts import Fact, Money, Term

_DIGITS = "〇一二三四五六七八九"
_CAPITALS = "零壹贰叁肆伍陆柒捌玖"
DATE_STYLES = ("padded", "plain", "numeral", "dash", "dot", "spaced")
_TERM_STYLES = {
    "to": ("{a}至{b}",), "spaced_to": ("{a} 至 {b}",), "from_to": ("自{a}至{b}",), "long": ("长期",), "stop": ("{a} 至 {b}止",),
    "tilde": ("{a}-{b}",), "until": ("至{b}",),
}  # fmt: skip
TERM_STYLES = tuple(_TERM_STYLES)
MONEY_STYLES = ("capital", "capital_cny", "cny_capital", "digits", "digits_cny", "decimal", "round", "bracket")


def print_fact(fact: Fact, style: str, rng: Random) -> str:
    """Write ``fact`` in ``style``: a date style, ``term:date`` styles joined by a colon, a money style; text stays as it is."""
    if isinstance(fact, Money):
        return print_money(fact, style or rng.choice(MONEY_STYLES))
    if isinstance(fact, Term):
        form, _, day_style = (style or "to:padded").partition(":")
        return print_term(fact, form, day_style or "padded", rng)
    if isinstance(fact, date):
        return print_date(fact, style or "padded")
    return fact


def print_date(day: date, style: str) -> str:
    """Write a date; ``numeral`` is 二〇〇八年十月二十七日."""
    match style:
        case "plain":
            return f"{day.year}年{day.month}月{day.day}日"
        case "spaced":
            return f"{day.year} 年 {day.month:02d} 月 {day.day:02d} 日"
        case "numeral":
            year = "".join(_DIGITS[int(c)] for c in str(day.year))
            return f"{year}年{_small_numeral(day.month)}月{_small_numeral(day.day)}日"
        case "dash":
            return day.isoformat()
        case "dot":
            return f"{day.year}.{day.month:02d}.{day.day:02d}"
        case _:
            return f"{day.year}年{day.month:02d}月{day.day:02d}日"


def print_term(term: Term, form: str, day_style: str, rng: Random) -> str:
    """Write a period; an open end is 长期 (or, rarely, another of its words)."""
    open_word = "长期" if form == "tilde" else rng.choices(["长期", "永久", "无固定期限", "不约定期限"], [90, 3, 4, 3])[0]
    if form == "long" and term.end is None:
        return open_word
    end = print_date(term.end, day_style) if term.end else open_word
    pattern = _TERM_STYLES["to" if form == "long" or (form == "stop" and term.end is None) else form][0]
    return pattern.format(a=print_date(term.start, day_style), b=end)


def print_money(money: Money, style: str) -> str:
    """Write a capital: 壹佰万元整, 人民币壹佰万元, 100万元人民币, 500.000000万人民币."""
    n, yuan = money.ten_thousands, "" if money.currency == "人民币" else money.currency
    capital = _capital_numeral(n)
    if yuan:
        return f"{yuan}{n:.4f}万" if style == "decimal" else f"{n}万{yuan}"
    return {
        "capital": f"{capital}万元整", "capital_cny": f"{capital}万元人民币", "cny_capital": f"人民币{capital}万元",
        "digits": f"{n}万元", "digits_cny": f"{n}万元人民币", "decimal": f"{n}.000000万人民币", "round": f"{capital}万圆整",
        "bracket": f"{capital}万元（人民币）",
    }[style]  # fmt: skip


def _small_numeral(n: int) -> str:
    tens, units = divmod(n, 10)
    return ("" if tens == 0 else "十" if tens == 1 else _DIGITS[tens] + "十") + (_DIGITS[units] if units or not tens else "")


def _capital_numeral(n: int) -> str:
    """1200 -> 壹仟贰佰, 1005 -> 壹仟零伍; up to 9999 (and 亿 by 万万 is not needed for capitals)."""
    out, pending_zero = "", False
    for unit, name in ((1000, "仟"), (100, "佰"), (10, "拾"), (1, "")):
        digit = n // unit % 10
        if digit:
            out += ("零" if pending_zero and out else "") + _CAPITALS[digit] + name
            pending_zero = False
        elif out:
            pending_zero = True
    return out
