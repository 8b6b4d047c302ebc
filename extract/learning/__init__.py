"""Learning from a correction: what an auditor's edit says about the form, as a rule that the next reading follows.

case.py      Case: the lines of a page and what is truly printed, enough to read its layout again
propose.py   from a corrected field to rules that would have read it
replay.py    does a rule help here, and break nothing elsewhere?
rules.py     the closed list of what can be learned, and its checks
"""

from certloop.extract.learning.case import Case, case_of, read_case
from certloop.extract.learning.propose import propose
from certloop.extract.learning.replay import Replay, learn, replay
from certloop.extract.learning.rules import KINDS, PATTERNS, guidance_of, hint_of

__all__ = ["KINDS", "PATTERNS", "Case", "Replay", "case_of", "guidance_of", "hint_of", "learn", "propose", "read_case", "replay"]
