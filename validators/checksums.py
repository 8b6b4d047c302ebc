"""The four published check-character algorithms. Each takes the body without its check character, already normalised.

The caller guarantees the alphabet (a ``ValueError`` or ``KeyError`` here is a bug in the caller, not a bad document).
"""

from __future__ import annotations

USCC_ALPHABET = "0123456789ABCDEFGHJKLMNPQRTUWXY"
_USCC_WEIGHTS = (1, 3, 9, 27, 19, 26, 16, 17, 20, 29, 25, 13, 8, 24, 10, 30, 28)
_ORG_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ORG_WEIGHTS = (3, 7, 9, 10, 5, 8, 4, 2)
_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def uscc_check_character(body: str) -> str:
    """GB 32100-2015: the 18th character of a credit code from its first 17 (MOD 31, weights 3^(i-1))."""
    total = sum(USCC_ALPHABET.index(ch) * weight for ch, weight in zip(body, _USCC_WEIGHTS, strict=True))
    return USCC_ALPHABET[(31 - total % 31) % 31]


def org_code_check_character(body: str) -> str:
    """GB 11714: the ninth character of an organisation code from its first 8 (MOD 11; 10 is X, 11 is 0)."""
    total = sum(_ORG_ALPHABET.index(ch) * weight for ch, weight in zip(body, _ORG_WEIGHTS, strict=True))
    check = 11 - total % 11
    return {10: "X", 11: "0"}.get(check, str(check))


def id_check_character(body: str) -> str:
    """GB 11643-1999: the 18th character of a citizen's ID number from its first 17 digits (ISO 7064 MOD 11-2)."""
    return "10X98765432"[sum(int(ch) * weight for ch, weight in zip(body, _ID_WEIGHTS, strict=True)) % 11]


def mod_11_10_check_digit(digits: str) -> str:
    """ISO 7064 MOD 11,10 (GB/T 17710-1999), used by registration numbers (GS15-2006) and food permits."""
    product = 10
    for digit in digits:
        product = ((product + int(digit)) % 10 or 10) * 2 % 11
    return str((11 - product) % 10)
