"""``certloop reward --truth FILE --prediction FILE``: what one answer earns, and why."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from certloop.agentrl.rewards import F1Reward
    from certloop.extract.engine.answer_parser import Mark


class MatchingMethod(StrEnum):
    GREEDY = "greedy"
    HUNGARIAN = "hungarian"


def reward(
    truth: Annotated[Path, typer.Option(metavar="FILE", help="The printed values: a JSON object of label and text.")],
    prediction: Annotated[Path, typer.Option(metavar="FILE", help="The answer as the model wrote it, or - for standard input.")],
    doc_type: Annotated[
        str | None, typer.Option("--type", metavar="T", help="A document type: its labels' other names count as the same field.")
    ] = None,
    power: Annotated[float, typer.Option(min=0.1, max=16, help="The exponent of F1 (1 and 2 are for comparison).")] = 4.0,
    method: Annotated[MatchingMethod, typer.Option(help="How fields are paired.")] = MatchingMethod.GREEDY,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Score an answer against the truth: 0.05 + 0.95 * F1 ** 4, and 0 without a whole JSON object. Exits 0 whatever the score.

    Reasoning before the JSON costs nothing, as in training; anything else around it (fences, a second object, text after it)
    costs the 0.05 and is named.
    In the truth, null, "<blank>" and "<unreadable>" stand for a field without a value that can be read. With --type, a code that
    was made valid although the printed one is not ("repaired") earns nothing for its field.
    """
    from certloop.agentrl.rewards import RewardError, f1_power_reward, parse_answer
    from certloop.extract.engine.answer_parser import read_answer

    printed = parse_answer(_read(truth))
    if printed is None or printed.duplicates:
        raise RewardError(f"{truth} must hold one JSON object of labels and texts, each label once")
    options: dict[str, Any] = {}
    if doc_type is not None:
        options["canonical"], options["repaired"] = _of_type(doc_type)
    answer = read_answer(_read(prediction))
    whole = answer.json_text if answer.complete and answer.json_text is not None else ""
    got = f1_power_reward(printed.fields, whole, k=power, method=method.value, **options)
    unpunished = f1_power_reward(printed.fields, whole, k=power, method=method.value, **options | {"repaired": None})
    report = _report(got, unpunished, answer.marks)
    typer.echo(json.dumps(report, ensure_ascii=False) if as_json else _lines(report))


def _read(path: Path) -> str:
    from certloop.errors import UsageError

    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return data.decode("utf-8-sig", errors="replace")


def _of_type(name: str) -> tuple[Callable[[str], str], Callable[[str, str, str], bool]]:
    """The alias map and the test for repaired codes of a type given by id or title."""
    from certloop.extract.evaluation import schema_from_registry
    from certloop.extract.repairs import repair_test
    from certloop.settings import Settings
    from certloop.templates import load_types

    registry = load_types(Settings.load().template_path)
    schema = schema_from_registry(registry).find(name)
    doc_type = registry.get(name if schema is None else schema.id)
    assert schema is not None
    return schema.canonical, repair_test([doc_type])


def _report(got: F1Reward, unpunished: F1Reward, marks: Collection[Mark]) -> dict[str, Any]:
    """``unpunished`` is the same answer scored with its repairs taken for good."""
    from certloop.agentrl.rewards import FLOOR
    from certloop.extract.engine.answer_parser import FORM_FAULTS

    form = sorted(FORM_FAULTS & set(marks))
    score = max(0.0, got.reward - FLOOR) if form else got.reward
    report: dict[str, Any] = {"score": round(score, 6), "parsed": got.matching is not None, "form": form}
    alike = {} if unpunished.matching is None else {p.truth_key: p.value_similarity for p in unpunished.matching.pairs}
    if (match := got.matching) is None:
        return report | {"f1": 0.0, "precision": 0.0, "recall": 0.0, "pairs": [], "missed": [], "extra": [], "invented": []}
    return report | {
        "strict": got.strict,
        "penalised": got.penalised,
        "f1": round(match.f1, 6),
        "precision": round(match.precision, 6),
        "recall": round(match.recall, 6),
        "pairs": [
            {
                "truth": pair.truth_key,
                "prediction": pair.predicted_key,
                "key_similarity": round(pair.key_similarity, 4),
                "value_similarity": round(pair.value_similarity, 4),
                "repaired": pair.value_similarity < alike.get(pair.truth_key, 0.0),
            }
            for pair in match.pairs
        ],
        "missed": list(match.missed),
        "extra": [key for key in match.extra if key not in match.invented],
        "invented": list(match.invented),
    }


def _lines(report: dict[str, Any]) -> str:
    head = "   ".join(f"{name} {report[name]:.6f}" for name in ("score", "f1", "precision", "recall"))
    if not report["parsed"]:
        return head + "\nthe prediction holds no whole JSON object"
    lines = [head]
    lines += [f"form     {', '.join(report['form'])}: costs 0.05"] if report["form"] else []
    lines += [f"pair     {p['value_similarity']:.4f}  {p['truth']}" + _remarks(p) for p in report["pairs"]]
    for name in ("missed", "extra", "invented"):
        lines += [f"{name:<8} {key}" for key in report[name]]
    return "\n".join(lines)


def _remarks(pair: dict[str, Any]) -> str:
    other = "" if pair["truth"] == pair["prediction"] else f"  <- {pair['prediction']} ({pair['key_similarity']:.2f})"
    return other + ("  repaired: the printed one is not valid" if pair["repaired"] else "")
