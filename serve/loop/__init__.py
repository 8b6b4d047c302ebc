"""The loop: what people decide becomes rules, confidences and weights, these become releases, releases are tried and taken back.

live.py                 the fast half: rules within the second, and what a document is read under
guidance_release.py     rules into releases            calibration_release.py  confidences into releases
online.py               weights: a training round      ground_truth.py         what a round may train on
examine.py              held-out pages for the gate    replicas.py             adapters on vLLM servers
trial.py, arms.py       a candidate's canary, and what both arms did
watch.py                what `certloop loop run` does  releases.py             the overview for people
newtype/                a document type from scans
simulate.py             a month of this life on one machine: drifts, erring auditors, a bad candidate
stream.py               the documents of that month    auditor.py              who answers them, and errs
systems.py              readers side by side           memo.py                 an engine that looks once
report.py               curves and decisions, as JSON and HTML
"""
