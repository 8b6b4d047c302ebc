"""Confidence that means something: from an engine's confidence to the probability of being right, and to a threshold.

calibration.py  curves per kind of field, the threshold for an accepted error rate: pure lookups
fit.py          fits both from reviewed fields (isotonic regression, shrunk where samples are few)
versions.py     a tenant's calibrations in the database: fit, show, activate
report.py       what passes at which error rate, and what was found wrong among it
default.json    fitted on synthetic pages; what a tenant starts with
"""
