"""Review: what a person must look at and why, who looks at it, what he changes and decides, and what that teaches.

triage.py     reasons for a review, as sentences           queue.py      opening, listing, claiming with a lease
edits.py      corrections, validated at once               decide.py     approve, reject, undo
signals.py    decisions as signals on the trajectory        history.py    who did what, appended only
double.py     decided reviews looked at by a second auditor, blindly; reliability
"""
