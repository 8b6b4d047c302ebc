"""Errors of the evaluation: a labels or results file that cannot be used. Messages name files and lines, never values."""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class EvaluationError(CertloopError, ValueError):
    """Something about an evaluation makes no sense (code evaluation_invalid)."""

    code = "evaluation_invalid"


class LabelsError(EvaluationError):
    """The labels file is missing or not well formed (code labels_invalid)."""

    code = "labels_invalid"


class ResultsError(EvaluationError):
    """The results file is missing or not well formed (code results_invalid)."""

    code = "results_invalid"
