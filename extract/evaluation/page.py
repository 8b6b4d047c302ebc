"""The report as one HTML page: tables first, then the worst cases with their crops. It loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from certloop.extract.evaluation.crops import Crop, Region, crop_all
from certloop.extract.evaluation.report import FieldError, Report, Scores
from certloop.extract.evaluation.table import interval, percent, summary_lines

MAX_CASES = 200

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>certloop evaluation</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:15px/1.5 system-ui,"Noto Sans CJK SC","Microsoft YaHei",sans-serif;color:#222;
margin:2rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}
th,td{border-bottom:1px solid #ddd;padding:.3rem .6rem;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.value{overflow-wrap:anywhere;white-space:pre-wrap}
.expected{color:#0a6b2d}.got{color:#a3161f}.note{color:#777;font-size:.85rem}img{max-width:100%;border:1px solid #ccc}
.private{background:#fff4d6;padding:.5rem .8rem;border-left:4px solid #e0a800}
</style></head><body>
"""


def write_html(report: Report, images_dir: Path | str | None, path: Path | str, *, max_cases: int = MAX_CASES) -> Path:
    """Write the page and return its path. Up to ``max_cases`` errors are shown, the worst first.

    Crops come from the files of ``images_dir`` (None: no crops). The page shows printed values and pictures of documents.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render_html(report, images_dir, max_cases=max_cases), encoding="utf-8", errors="backslashreplace")
    return target


def render_html(report: Report, images_dir: Path | str | None, *, max_cases: int = MAX_CASES) -> str:
    """Return the page as text; everything that was read or labelled is escaped."""
    cases = report.errors[:max_cases]
    *lines, summary = summary_lines(report)
    parts = [
        _HEAD,
        "<h1>certloop evaluation</h1>",
        '<p class="private">This page shows real values and pieces of documents. Treat it like the documents.</p>',
        f"<p><strong>{escape(summary)}</strong></p>",
        *(f"<p>{escape(line)}</p>" for line in lines),
        _types(report),
        _fields(report),
        _causes(report),
        _confidences(report),
        f"<h2>Worst cases ({len(cases)} of {len(report.errors)} errors)</h2>",
        _cases(cases, _crops(cases, images_dir)) if cases else "<p>No errors.</p>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _types(report: Report) -> str:
    head = ("type", "docs", "strict", "rate", "95 %", "invented", "F1 greedy", "F1 Hungarian", "reward")
    rows: list[tuple[str, Scores]] = [*report.by_type.items(), ("all", report.overall)]
    body = [
        (name, s.documents, s.strict, percent(s.strict.rate), interval(s.strict), s.invented, *map(percent, s.means))
        for name, s in rows
    ]
    return _table("By type", head, body)


def _fields(report: Report) -> str:
    body = [
        (name, s.strict, percent(s.strict.rate), interval(s.strict), s.invented, s.causes_text)
        for name, s in report.by_field.items()
    ]
    return _table("By field", ("field", "strict", "rate", "95 %", "invented", "causes"), body)


def _causes(report: Report) -> str:
    return _table("Likely causes", ("cause", "errors"), [(cause.value, n) for cause, n in report.causes.items()])


def _confidences(report: Report) -> str:
    body = [(f"{b.low:.1f}-{b.high:.1f}", b.n, percent(b.confidence), percent(b.accuracy)) for b in report.reliability]
    return _table(f"Confidence (ECE {percent(report.ece)})", ("bin", "answers", "claimed", "right"), body)


def _table(title: str, head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    rows = [_row(head, "th"), *(_row(row, "td") for row in body)]
    return f"<h2>{escape(title)}</h2>\n<table>\n" + "\n".join(rows) + "\n</table>"


def _row(cells: Sequence[object], tag: str) -> str:
    first, *rest = cells
    numbers = "".join(f'<{tag} class="n">{escape(str(cell))}</{tag}>' for cell in rest)
    return f"<tr><{tag}>{escape(str(first))}</{tag}>{numbers}</tr>"


def _crops(cases: Sequence[FieldError], images_dir: Path | str | None) -> list[Crop]:
    by_file: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        by_file.setdefault(case.file, []).append(index)
    crops = [Crop()] * len(cases)
    for file, indices in by_file.items():
        regions = [Region(cases[i].box, cases[i].page or 0) for i in indices]
        for index, crop in zip(indices, crop_all(images_dir, file, regions), strict=True):
            crops[index] = crop
    return crops


def _cases(cases: Sequence[FieldError], crops: Sequence[Crop]) -> str:
    rows = [_case(case, crop) for case, crop in zip(cases, crops, strict=True)]
    head = "<tr><th>where</th><th>print</th><th>expected / got</th><th>cause</th></tr>"
    return f"<table>\n{head}\n" + "\n".join(rows) + "\n</table>"


def _case(case: FieldError, crop: Crop) -> str:
    picture = f'<img src="{crop.uri}" alt="">' if crop.uri else ""
    note = f'<div class="note">{escape(crop.note)}</div>' if crop.note else ""
    confidence = "" if case.confidence is None else f", confidence {case.confidence:.2f}"
    number = f" #{case.document + 1}" if case.document else ""
    return (
        f'<tr><td>{escape(case.file)}{number}<div class="note">{escape(case.doc_type)}</div>{escape(case.field)}</td>'
        f"<td>{picture}{note}</td>"
        f'<td class="value"><div class="expected">{_value(case.expected, "nothing to read")}</div>'
        f'<div class="got">{_value(case.got, "nothing")}</div></td>'
        f'<td>{escape(case.cause.value)}<div class="note">{case.similarity:.2f} alike{confidence}</div></td></tr>'
    )


def _value(value: str | None, nothing: str) -> str:
    return f'<span class="note">({nothing})</span>' if value is None else escape(value)
