"""Numbers with check digits, made (not checked) from their parts. Algorithms and sources: METHODS.md section 12."""

from __future__ import annotations

from random import Random

USCC_ALPHABET = "0123456789ABCDEFGHJKLMNPQRTUWXY"
_USCC_WEIGHTS = tuple(pow(3, i, 31) for i in range(17))
_ORG_WEIGHTS = (3, 7, 9, 10, 5, 8, 4, 2)
_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def uscc_check(body: str) -> str:
    """Check character of the first 17 characters (GB 32100-2015)."""
    total = sum(USCC_ALPHABET.index(c) * w for c, w in zip(body, _USCC_WEIGHTS, strict=True))
    return USCC_ALPHABET[-total % 31]


def organisation_check(body: str) -> str:
    """Check character of an eight-character organisation code (GB 11714)."""
    total = sum(int(c, 36) * w for c, w in zip(body, _ORG_WEIGHTS, strict=True))
    return "0X"[11 - total % 11 == 10] if (11 - total % 11) in (10, 11) else str(11 - total % 11)


def mod_11_10(body: str) -> str:
    """Check digit of ISO 7064 MOD 11,10 (GB/T 17710): registration numbers, JY and SC numbers."""
    p = 10
    for digit in body:
        p = (p + int(digit)) % 10 or 10
        p = p * 2 % 11
    return str((11 - p) % 10)


def make_uscc(rng: Random, region: str, *, kind: str = "1", since_2016: bool = True) -> str:
    """A unified social credit code: 9 (industry and commerce), kind (1 company, 2 individual, 3 cooperative), region,
    organisation code."""
    first = "MA" + "".join(rng.choice(USCC_ALPHABET) for _ in range(6)) if since_2016 else f"{rng.randint(10**7, 99999999)}"
    body = f"9{kind}{region}{first}{organisation_check(first)}"
    return body + uscc_check(body)


def make_registration_no(rng: Random, region: str, *, individual: bool = False) -> str:
    """A 15-digit registration number of the time before 2015 (GS15-2006)."""
    kind = rng.choice("6789") if individual else rng.choice("0123")
    body = f"{region}{kind}{rng.randint(0, 9999999):07d}"
    return body + mod_11_10(body)


def make_id_number(rng: Random, region: str, birth: str, male: bool) -> str:
    """An 18-character identity number (GB 11643); ``birth`` is YYYYMMDD, odd sequence numbers are male."""
    body = f"{region}{birth}{rng.randint(0, 498) * 2 + male:03d}"
    return body + "10X98765432"[sum(int(c) * w for c, w in zip(body, _ID_WEIGHTS, strict=True)) % 11]


def make_food_permit_no(rng: Random, region: str, form: str) -> str:
    """JY + business form (1 sale, 2 catering, 3 canteen) + region + sequence + check."""
    body = f"{form}{region}{rng.randint(1, 299999):06d}"
    return f"JY{body}{mod_11_10(body)}"


def make_food_production_no(rng: Random, region: str) -> str:
    """SC + food category (101 to 132) + region + sequence + check."""
    body = f"{rng.randint(101, 132)}{region}{rng.randint(1, 9999):04d}"
    return f"SC{body}{mod_11_10(body)}"


def spoil_check_digit(rng: Random, code: str) -> str:
    """Return ``code`` with another last character: a misprint that the label must keep."""
    alphabet = USCC_ALPHABET if any(c.isalpha() for c in code[2:]) else "0123456789"
    return code[:-1] + rng.choice([c for c in alphabet if c != code[-1]])
