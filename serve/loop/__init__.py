"""The loop: what auditors say becomes rules, rules become releases, releases are tried out and taken back.

simulate.py   a month of this life on one machine: drifts, erring auditors, a bad candidate
stream.py     the documents of that month       auditor.py   who answers them, and errs
memo.py       an engine that looks once         report.py    curves and decisions, as JSON and HTML
"""
