"""Rules on certificate values: codes, numbers, dates, money, and agreement between fields and documents.

Pure functions without I/O. A rule answers with verdicts and never changes a value. A pass proves little (about one wrong
value in thirty passes a checksum) and a fail may be the paper's own misprint: see METHODS §1.5 before rewarding either.
"""

from .dates import DateRange, PartialDate, find_dates, parse_date, parse_date_range
from .documents import check_document
from .dossiers import check_dossier
from .kinds import KINDS, Kind, UnknownKindError, normalise, passes, validate
from .money import Money, parse_money
from .outcome import Outcome, Severity, Verdict

__all__ = [
    "KINDS",
    "DateRange",
    "Kind",
    "Money",
    "Outcome",
    "PartialDate",
    "Severity",
    "UnknownKindError",
    "Verdict",
    "check_document",
    "check_dossier",
    "find_dates",
    "normalise",
    "parse_date",
    "parse_date_range",
    "parse_money",
    "passes",
    "validate",
]
