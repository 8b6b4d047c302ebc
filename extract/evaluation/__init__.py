"""How good the reading is, against labels: strict exact matches, soft F1, inventions, confidence, causes of errors.

schema = schema_from_registry(load_types())
report = evaluate(read_results("out.jsonl"), read_labels("labels.jsonl"), schema)
print(report.to_table()); json.dumps(report.to_json()); write_html(report, "images", "report.html")
"""

from certloop.extract.evaluation.bootstrap import Interval, mean_interval, paired_interval, ratio_interval
from certloop.extract.evaluation.calibration import (
    ConfidenceSample,
    ReliabilityBin,
    expected_calibration_error,
    reliability_table,
    wilson_interval,
)
from certloop.extract.evaluation.causes import Cause, guess_cause
from certloop.extract.evaluation.errors import EvaluationError, LabelsError, ResultsError
from certloop.extract.evaluation.labels import LabelDocument, LabelRow, read_labels
from certloop.extract.evaluation.normalise import comparable, dates_in, same_value
from certloop.extract.evaluation.page import render_html, write_html
from certloop.extract.evaluation.report import (
    AnswerCounts,
    Count,
    DocumentCounts,
    DocumentScore,
    FieldError,
    FieldScores,
    FileCounts,
    Report,
    Scores,
)
from certloop.extract.evaluation.results import read_results
from certloop.extract.evaluation.schema import Schema, TypeSchema, schema_from_registry, type_schema
from certloop.extract.evaluation.score import DEVPACK_SKIP, evaluate

__all__ = [
    "DEVPACK_SKIP", "AnswerCounts", "Cause", "ConfidenceSample", "Count", "DocumentCounts", "DocumentScore",
    "EvaluationError", "FieldError", "FieldScores", "FileCounts", "Interval", "LabelDocument", "LabelRow", "LabelsError",
    "ReliabilityBin", "Report", "ResultsError", "Schema", "Scores", "TypeSchema", "comparable", "dates_in", "evaluate",
    "expected_calibration_error", "guess_cause", "mean_interval", "paired_interval", "ratio_interval", "read_labels",
    "read_results", "reliability_table", "render_html", "same_value", "schema_from_registry", "type_schema",
    "wilson_interval", "write_html",
]  # fmt: skip
