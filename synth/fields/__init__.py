"""Consistent, fictional values for every document type: firms, persons, places, numbers, dates, scopes."""

from certloop.synth.fields.builders import BUILDERS, Order, build_facts
from certloop.synth.fields.facts import Fact, Money, Term
from certloop.synth.fields.firms import Firm, make_firm
from certloop.synth.fields.printing import print_fact

__all__ = ["BUILDERS", "Fact", "Firm", "Money", "Order", "Term", "build_facts", "make_firm", "print_fact"]
