"""The kind of firm that a licence's words tell: what its type, its name and its code say about it."""

from __future__ import annotations

import re

FAMILIES = (
    frozenset({"company", "foreign"}),
    frozenset({"partnership"}),
    frozenset({"sole"}),
    frozenset({"individual"}),
    frozenset({"branch"}),
)
"""Forms of firms that share a printed form: the same labels stand before the same rows."""

_BRANCH = re.compile("分公司|分支机构")
_BRANCH_NAME = re.compile("(?:分公司|分店|分部|分厂)$")
_BRACKETED = re.compile(r"[(（][^()（）]*[)）]")
_PARTNERS = re.compile("[(（](?:有限|普通|特殊普通)合伙[)）]$|合伙企业$")
_LEGAL_PERSON = re.compile("法人|股份|合作社|全民所有制|集体所有制")
_FROM_ABROAD = re.compile("外国|外商|港澳|台港|台商|中外")


def form_told(type_text: str = "", name: str = "", code: str = "") -> str | None:
    """The form (one of ``firms.FORMS``) that the printed type tells, else the name's ending, else the code; None: nothing does.

    The second character of a unified social credit code says who registers what: 2 is an individual business (GB 32100-2015,
    table 1); an individual without such a code is printed with an identity number.
    """
    return _of_type(type_text) or _of_name(name) or _of_code(code)


def family_of(form: str) -> frozenset[str]:
    """The forms that are printed as ``form`` is."""
    return next((family for family in FAMILIES if form in family), frozenset({form}))


def _of_type(text: str) -> str | None:
    base = _BRACKETED.sub("", text)
    if _BRANCH.search(text):
        return "branch"
    if "个体" in base or "个体工商户" in text:
        return "individual"
    if "公司" in base:
        return "foreign" if _FROM_ABROAD.search(text) else "company"
    if "合伙" in text:
        return "partnership"
    if "个人独资" in text or "私营独资" in text:
        return "sole"
    return "company" if _LEGAL_PERSON.search(text) else None


def _of_name(name: str) -> str | None:
    if _BRANCH_NAME.search(name):
        return "branch"
    if _PARTNERS.search(name):
        return "partnership"
    return "company" if name.endswith("公司") else None


def _of_code(code: str) -> str | None:
    individual = re.fullmatch("92[0-9A-Z]{16}", code) or re.fullmatch(r"[1-8]\d{16}[\dX]", code)
    return "individual" if individual else None
