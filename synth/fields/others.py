"""Facts for documents outside the schema (invoice, notice, quotation): they exist to be recognised as unknown."""

from __future__ import annotations

from random import Random

from certloop.synth.fields.domain import EVERYTHING, Domain
from certloop.synth.fields.facts import Fact
from certloop.synth.fields.firms import Firm, make_firm

_GOODS = ("*纸制品*复印纸", "*办公设备*打印机", "*软件服务*技术服务费", "*餐饮服务*餐费", "*金属制品*货架")


def build_other_facts(rng: Random, firm: Firm, domain: Domain = EVERYTHING) -> dict[str, Fact]:
    """Values that any of the other documents may print."""
    buyer = make_firm(rng, domain=domain)
    cents, tax = rng.randint(4000, 900000), 0
    tax = cents * 6 // 100

    def digits(n: int) -> str:
        return "".join(rng.choice("0123456789") for _ in range(n))

    return {
        "invoice_code": "0" + digits(11),
        "invoice_no": digits(8),
        "check_code": " ".join(digits(5) for _ in range(4)),
        "issued_on": firm.issued_on,
        "buyer": buyer.name,
        "buyer_code": buyer.credit_code,
        "seller": firm.name,
        "seller_code": firm.credit_code,
        "item": rng.choice(_GOODS),
        "item_two": rng.choice(_GOODS),
        "amount": f"{cents / 100:.2f}",
        "tax": f"{tax / 100:.2f}",
        "total": f"¥{(cents + tax) / 100:.2f}",
        "total_words": "人民币见小写",
        "seller_bank": f"江南银行城西支行 {digits(16)}",
        "firm": firm.name,
        "person": firm.person.name,
        "phone": f"0{rng.randint(10, 99)}1-8{digits(6)}",
        "name": firm.name,
        "credit_code": firm.credit_code,
    }
