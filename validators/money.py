"""Amounts of money as licences print them (壹仟贰佰万元整, 美元300.0000万, 1000万元) to a decimal and a currency."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from .printed import MAX_VALUE_CHARS, code_text

_CURRENCIES: tuple[tuple[str, str], ...] = (
    ("人民币", "CNY"), ("RMB", "CNY"), ("CNY", "CNY"), ("CN¥", "CNY"), ("¥", "CNY"),
    ("港币", "HKD"), ("港元", "HKD"), ("港圆", "HKD"), ("HKD", "HKD"), ("HK$", "HKD"),
    ("新加坡元", "SGD"), ("新元", "SGD"), ("SGD", "SGD"), ("S$", "SGD"),
    ("澳门元", "MOP"), ("MOP", "MOP"), ("新台币", "TWD"), ("台币", "TWD"), ("TWD", "TWD"), ("NT$", "TWD"),
    ("澳大利亚元", "AUD"), ("澳元", "AUD"), ("AUD", "AUD"), ("加拿大元", "CAD"), ("加元", "CAD"), ("CAD", "CAD"),
    ("欧元", "EUR"), ("EUR", "EUR"), ("€", "EUR"), ("英镑", "GBP"), ("GBP", "GBP"), ("£", "GBP"),
    ("日元", "JPY"), ("日圆", "JPY"), ("JPY", "JPY"), ("韩元", "KRW"), ("KRW", "KRW"),
    ("瑞士法郎", "CHF"), ("CHF", "CHF"),
    ("美元", "USD"), ("美金", "USD"), ("USD", "USD"), ("US$", "USD"), ("$", "USD"),
)  # fmt: skip
_CODES = dict(_CURRENCIES)
_CURRENCY = re.compile("|".join(re.escape(name) for name, _ in sorted(_CURRENCIES, key=lambda pair: -len(pair[0]))))
_VARIANTS = str.maketrans("貳參叄陸萬億圓圆園仟佰拾圎", "贰叁叁陆万亿元元元千百十元")
_DIGITS = dict(zip("〇零○一二三四五六七八九壹贰叁肆伍陆柒捌玖两", (0, 0, 0, *range(1, 10), *range(1, 10), 2), strict=True))
_SMALL = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10**4, "亿": 10**8}
_ARABIC = r"[0-9]{1,3}(?:,[0-9]{3}){1,6}(?:\.[0-9]{1,8})?|[0-9]{1,18}(?:\.[0-9]{1,8})?"
_TOKEN = re.compile(
    rf"(?P<arabic>{_ARABIC})|(?P<han>[{''.join(_DIGITS)}]+)|[.点](?P<fraction>[{''.join(_DIGITS)}]{{1,8}})|(?P<unit>[十百千万亿])"
)
_NUMBER = r"[0-9,.点十百千万亿" + "".join(_DIGITS) + r"]+"
_AMOUNT = re.compile(
    rf"(?:(?P<yuan>{_NUMBER})(?:元|\Z))?(?:(?P<jiao>[0-9{''.join(_DIGITS)}])角)?零?(?:(?P<fen>[0-9{''.join(_DIGITS)}])分)?[整正]?"
)
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_UNIT_FIRST = re.compile(r"^(元|万元|亿元)[:]?([0-9].*)$")
_JUNK = " ★☆※*。.,、;:·'\"|_整正"
_LIMIT = Decimal(10) ** 18


@dataclass(frozen=True, slots=True)
class Money:
    """``amount`` in units of the currency (not in 万). ``currency`` is an ISO 4217 code, CNY where none is printed."""

    amount: Decimal
    currency: str

    def amount_text(self) -> str:
        """Plain decimal with at least two places: 5000000.00."""
        places = max(2, -int(self.amount.normalize().as_tuple().exponent))
        return f"{self.amount:.{places}f}"


def parse_money(text: str) -> Money | None:
    """The amount that the text states, or None: unreadable, negative, of two currencies, or in two forms that disagree."""
    if len(text) > MAX_VALUE_CHARS:
        return None
    folded = code_text(text).translate(_VARIANTS)
    currencies = {_CODES[name] for name in _CURRENCY.findall(folded)}
    if len(currencies) > 1:
        return None
    bare = _CURRENCY.sub("", folded)
    main = _PARENTHESES.sub("", bare)
    inner = [part for part in _PARENTHESES.findall(bare) if part.strip(_JUNK)]
    units = [part for part in inner if part in ("元", "万元", "亿元", "万")]
    if units and not re.search("[元万亿]", main):
        main += units[0]
    stated = [main] if main.strip(_JUNK) else []
    stated += [part for part in inner if part not in units]
    amounts = [_amount(part) for part in stated]
    if not amounts or amounts[0] is None or any(amount != amounts[0] for amount in amounts):
        return None
    return Money(amounts[0], currencies.pop() if currencies else "CNY")


def _amount(text: str) -> Decimal | None:
    text = _UNIT_FIRST.sub(r"\2\1", text.strip(_JUNK))
    found = _AMOUNT.fullmatch(text)
    if found is None or not (found["yuan"] or found["jiao"] or found["fen"]):
        return None
    total = Decimal(0)
    if found["yuan"]:
        yuan = _number(found["yuan"])
        if yuan is None:
            return None
        total = yuan
    for part, value in (("jiao", Decimal("0.1")), ("fen", Decimal("0.01"))):
        if found[part]:
            digit = found[part]
            total += value * (_DIGITS[digit] if digit in _DIGITS else int(digit))
    return total if total < _LIMIT else None


def _number(text: str) -> Decimal | None:
    """An Arabic or Chinese number, or both mixed (5千万, 1亿2000万), whose units must fall from left to right."""
    total = section = Decimal(0)
    pending: Decimal | None = None
    smallest, largest, position, last_unit, zero_led = 10**4, 10**12, 0, 1, False
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            return None
        position = found.end()
        if found["fraction"]:
            if position == len(found[0]) or (pending or 0) % 1:
                return None
            pending = (pending or 0) + Decimal(f"0.{_han_digits(found['fraction'])}")
        elif found["unit"] is None:
            number = _literal(found)
            if pending or (found["han"] and section and number >= 10):
                return None  # two numbers in a row, or 一百二三
            pending, zero_led = number, found[0][0] in "0〇零○"
        elif (size := _SMALL.get(found["unit"])) is not None:
            if size >= smallest or (pending is None and size != 10) or (pending or 0) >= 10:
                return None
            section += (Decimal(1) if pending is None else pending) * size
            pending, smallest, last_unit = None, size, size
        else:
            size = _LARGE[found["unit"]]
            grown = section + (pending or 0)
            if size == 10**8 and largest == 10**4:
                total, largest = (total + grown) * size, 10**8  # 壹万亿: the 万 before it is multiplied too
            elif size >= largest or (grown == 0 and pending is None):
                return None
            else:
                total, largest = total + grown * size, size
            section, pending, smallest, last_unit = Decimal(0), None, 10**4, size
    if pending and last_unit > 1 and (pending >= last_unit or (not zero_led and pending * 10 < last_unit)):
        return None  # 3万5 may mean 35000 or 30005
    return total + section + (pending or 0)


def _literal(found: re.Match[str]) -> Decimal:
    if found["arabic"]:
        return Decimal(found["arabic"].replace(",", ""))
    return Decimal(_han_digits(found["han"][:30]))


def _han_digits(text: str) -> str:
    return "".join(str(_DIGITS[ch]) for ch in text)
