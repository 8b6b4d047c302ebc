"""The report as text for a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from certloop.extract.evaluation.report import Count, Report, Scores


def render_table(report: Report, *, width: int = 120) -> str:
    """Return the summary and the tables by type, by field, of causes and of confidences, ``width`` columns wide, uncoloured."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    for table in (_by_type(report), _by_field(report), _causes(report), _confidences(report)):
        if table.row_count:
            console.print(table)
    for line in summary_lines(report):
        console.print(Text(line))
    return out.getvalue()


def summary_lines(report: Report) -> list[str]:
    """Return the numbers that are no table; the last line is the summary."""
    files, documents = report.files, report.documents
    lines = [
        f"files: {files.labelled} labelled, {files.missing} without result, {files.failed} failed, {files.unlabelled} unlabelled",
        f"documents: {documents.found} of {documents.expected}, right number in {documents.files} files; types {report.types}",
    ]
    wrong = [f"{a} read as {b}: {n}" for (a, b), n in report.confusion.items() if a != b]
    if wrong:
        lines.append("types mixed up: " + "; ".join(wrong))
    if report.skipped:
        lines.append("not scored: " + ", ".join(f"{label} x{n}" for label, n in report.skipped.items()))
    if report.scored:
        lines.append("by document, 95 % bootstrap: " + "; ".join(f"{name} {i}" for name, i in report.intervals().items()))
    if report.answers.asked:
        answers = report.answers
        marks = "".join(f", {mark} {n}" for mark, n in answers.marks.items())
        lines.append(f"answers: valid JSON {answers.valid}, as asked for {answers.strict}, {answers.tokens} tokens{marks}")
    return [*lines, report.summary()]


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def interval(count: Count) -> str:
    return "-" if count.interval is None else f"{count.interval[0]:.3f}-{count.interval[1]:.3f}"


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _by_type(report: Report) -> Table:
    table = _table("By type", "type", "docs", "strict", "rate", "95 %", "invented", "F1 greedy", "F1 Hungarian", "reward")
    rows: list[tuple[str, Scores]] = [*report.by_type.items(), ("all", report.overall)]
    for name, s in rows if report.by_type else []:
        cells = (str(s.documents), str(s.strict), percent(s.strict.rate), interval(s.strict), str(s.invented))
        table.add_row(Text(name), *cells, *map(percent, s.means))
    return table


def _by_field(report: Report) -> Table:
    table = _table("By field", "field", "strict", "rate", "95 %", "invented", "causes")
    for name, s in report.by_field.items():
        table.add_row(Text(name), str(s.strict), percent(s.strict.rate), interval(s.strict), str(s.invented), s.causes_text)
    return table


def _causes(report: Report) -> Table:
    table = _table("Likely causes", "cause", "errors")
    for cause, n in report.causes.items():
        table.add_row(cause.value, str(n))
    return table


def _confidences(report: Report) -> Table:
    table = _table(f"Confidence (ECE {percent(report.ece)})", "bin", "answers", "claimed", "right")
    for b in report.reliability:
        if b.n:
            table.add_row(f"{b.low:.1f}-{b.high:.1f}", str(b.n), percent(b.confidence), percent(b.accuracy))
    return table
