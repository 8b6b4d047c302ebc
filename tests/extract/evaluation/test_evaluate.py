"""The evaluation on small hand-made sets: every number here was counted by hand."""

import json

import pytest

from certloop.extract.evaluation import (
    Cause,
    Count,
    EvaluationError,
    LabelDocument,
    LabelRow,
    Schema,
    evaluate,
    guess_cause,
    type_schema,
)
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result

LICENCE = type_schema(
    "licence",
    "营业执照",
    [
        ("code", "统一社会信用代码", "uscc", ("信用代码",)),
        ("name", "名称", "text", ("企业名称",)),
        ("person", "法定代表人", "text", ("负责人",)),
        ("address", "住所", "text", ()),
        ("scope", "经营范围", "long_text", ()),
        ("founded", "成立日期", "date", ()),
        ("issued", "登记日期", "date", ("发证日期",)),
    ],
)
PERMIT = type_schema("permit", "许可证", [("name", "经营者名称", "text", ()), ("no", "许可证编号", "licence_no", ())])
SCHEMA = Schema({t.id: t for t in (LICENCE, PERMIT)})
TRUTH = {
    "统一社会信用代码": "91350100M000100Y43",
    "名称": "甲公司",
    "负责人": "陈启明",
    "住所": "重庆市北部新区星光大道60号",
    "发证日期": "2020年1月2日",
}


def document(values, doc_type="licence", confidence=0.9) -> Document:
    fields = {
        label: FieldResult(label, value, None, FieldStatus.READ if value else FieldStatus.ABSENT, confidence if value else 0.0)
        for label, value in values.items()
    }
    return Document(doc_type, 1.0, fields)


def result(file, *documents, status=FileStatus.OK) -> Result:
    return Result(file, status, tuple(documents))


def label(file, fields, doc_type="营业执照", uncertain=(), absent=()) -> LabelRow:
    return LabelRow(file, (LabelDocument(doc_type, fields, frozenset(uncertain), tuple(absent)),))


def one(values, fields=None, **more):
    return evaluate([result("a.jpg", document(values))], [label("a.jpg", TRUTH if fields is None else fields, **more)], SCHEMA)


def test_the_truth_itself_is_perfect() -> None:
    report = one(TRUTH)
    assert report.overall.strict == Count(5, 5)
    assert report.overall.invented == Count(0, 0)
    assert report.overall.means == (1.0, 1.0, 1.0)
    assert report.codes == Count(1, 1)
    assert report.types == Count(1, 1)
    assert report.errors == ()
    assert list(report.by_field) == ["住所", "名称", "法定代表人", "登记日期", "统一社会信用代码"]
    assert report.ece == pytest.approx(0.1)


def test_another_print_of_the_same_value_is_right_for_the_soft_score_too() -> None:
    report = one(TRUTH | {"发证日期": "２０２０－０１－０２", "名称": "甲 公司★"})
    assert report.overall.strict == Count(5, 5)
    assert report.overall.means == (1.0, 1.0, 1.0)


def test_errors_carry_their_cause_and_the_worst_come_first() -> None:
    given = {
        "名称": "甲公司类型有限",
        "负责人": None,
        "住所": "重庆市北部新区",
        "发证日期": "2020年1月3日",
        "统一社会信用代码": "91350100M000100Y4B",
        "经营范围": "无",
    }
    report = one(given, TRUTH | {"经营范围": None})
    assert report.overall.strict == Count(0, 5)
    assert report.overall.invented == Count(1, 1)
    assert report.errors[0].field == "经营范围"
    assert report.errors[-1].cause is Cause.MISSED
    assert {e.field: e.cause for e in report.errors} == {
        "经营范围": Cause.INVENTED,
        "名称": Cause.SWALLOWED,
        "住所": Cause.WRAP_LOST,
        "登记日期": Cause.WRONG,
        "统一社会信用代码": Cause.WRONG,
        "法定代表人": Cause.MISSED,
    }
    assert report.causes == {Cause.INVENTED: 1, Cause.WRONG: 2, Cause.SWALLOWED: 1, Cause.WRAP_LOST: 1, Cause.MISSED: 1}
    assert report.by_field["名称"].causes == {Cause.SWALLOWED: 1}


def test_one_wrong_character_of_ten_gives_the_pinned_f1() -> None:
    truth = {"名称": "甲乙丙丁戊己庚辛壬癸", "法定代表人": "陈启明", "住所": "重庆", "成立日期": "1998-02-23"}
    report = one(truth | {"名称": "甲乙丙丁戊己庚辛壬X"}, truth)
    assert report.overall.greedy_f1 == pytest.approx(0.9525)
    assert report.overall.reward == pytest.approx(0.831958, abs=5e-7)
    assert one({k: v for k, v in truth.items() if k != "住所"}, truth).overall.greedy_f1 == pytest.approx(6 / 7)


def test_invented_values_cost_and_what_was_not_transcribed_does_not() -> None:
    truth = {"名称": "甲公司", "法定代表人": "陈启明", "住所": "重庆", "成立日期": None}
    assert one(truth, truth).overall.greedy_f1 == 1.0
    invented = one(truth | {"成立日期": "2020-01-01"}, truth)
    assert invented.overall.invented == Count(1, 1)
    assert invented.overall.greedy_f1 == pytest.approx(6 / 7)
    absent = one(truth | {"经营范围": "本执照须年检"}, truth, absent=["经营范围"])
    assert absent.overall.invented == Count(1, 2)
    assert absent.overall.greedy_f1 == pytest.approx(6 / 7)
    untold = one(truth | {"经营范围": "零售"}, truth)
    assert untold.overall.invented == Count(0, 1)
    assert untold.overall.greedy_f1 == 1.0


def test_doubtful_skipped_and_foreign_labels_are_left_out_and_said_so() -> None:
    fields = TRUTH | {"证照名称": "营业执照", "股东": "乙", "经营方式": "零售"}
    report = one(TRUTH | {"名称": "错"}, fields, uncertain=["企业名称"])
    assert report.overall.strict == Count(4, 4)
    assert report.overall.greedy_f1 == 1.0
    assert report.skipped == {"证照名称": 1, "股东": 1, "经营方式": 1}


def test_a_type_can_be_unknown_and_known_types_can_be_missed() -> None:
    labels = [
        label("a.png", {"发票号码": "1"}, "增值税发票"),
        label("b.png", {"发票号码": "1"}, "增值税发票"),
        label("c.png", TRUTH),
        label("d.png", TRUTH),
    ]
    results = [
        result("a.png", document({}, "unknown")),
        result("b.png", document({"名称": "甲"})),
        result("c.png", document({"经营者名称": "甲公司"}, "permit")),
        result("d.png", status=FileStatus.FAILED),
    ]
    report = evaluate(results, labels, SCHEMA)
    assert report.unknown == Count(1, 2)
    assert report.types == Count(0, 2)
    assert report.confusion == {("licence", "nothing found"): 1, ("licence", "permit"): 1}
    assert report.causes == {Cause.WRONG_TYPE: 10}
    assert report.overall.reward == pytest.approx((0.05 + 0.0) / 2)  # answered wrongly, and not answered at all
    assert report.files.failed == 1


def test_missing_and_unlabelled_files() -> None:
    report = evaluate([result("x/z.jpg", document(TRUTH))], [label("a.jpg", TRUTH)], SCHEMA)
    assert (report.files.labelled, report.files.missing, report.files.unlabelled) == (1, 1, 1)
    assert report.overall.strict == Count(0, 5)
    assert report.overall.reward == 0.0


def test_files_are_told_apart_by_their_paths() -> None:
    labels = [label("x/a.jpg", TRUTH), label("y/a.jpg", {"名称": "乙"})]
    report = evaluate([result("/d/y/a.jpg", document({"名称": "乙"})), result("/d/x/a.jpg", document(TRUTH))], labels, SCHEMA)
    assert report.overall.strict == Count(6, 6)
    with pytest.raises(EvaluationError, match="full path"):
        evaluate([result("/d/a.jpg"), result("/e/a.jpg")], [label("a.jpg", TRUTH)], SCHEMA)
    with pytest.raises(EvaluationError, match="full path"):
        evaluate([result("a.jpg")], labels, SCHEMA)


def several(*truths) -> list[LabelRow]:
    return [LabelRow("m.jpg", tuple(LabelDocument(doc_type, fields) for doc_type, fields in truths))]


def test_found_documents_are_assigned_to_the_true_ones_whatever_their_order() -> None:
    permit = {"经营者名称": "乙食堂", "许可证编号": "JY34113810003689"}
    labels = several(("许可证", permit), ("营业执照", TRUTH), ("营业执照", {"名称": "丙公司"}))
    found = (document({"名称": "丙公司"}), document(TRUTH), document(permit, "permit"))
    report = evaluate([result("m.jpg", *found)], labels, SCHEMA)
    assert report.overall.strict == Count(8, 8)
    assert (report.documents.expected, report.documents.found, report.documents.files) == (3, 3, Count(1, 1))
    less = evaluate([result("m.jpg", *found[:2])], labels, SCHEMA)
    assert less.overall.strict == Count(6, 8)
    assert (less.documents.found, less.documents.files) == (2, Count(0, 1))


def test_a_page_that_was_not_split_answers_each_truth_and_one_truth_takes_every_part() -> None:
    labels = several(("许可证", {"许可证编号": "JY1"}), ("营业执照", {"名称": "甲公司"}))
    report = evaluate([result("m.jpg", document({"名称": "甲公司", "许可证编号": "JY1"}))], labels, SCHEMA)
    assert report.overall.strict == Count(2, 2)
    assert report.documents.files == Count(0, 1)
    halves = [document({"名称": "甲公司"}), document({"名称": "乙", "住所": TRUTH["住所"]})]
    split = evaluate([result("a.jpg", *halves)], [label("a.jpg", {"名称": "甲公司", "住所": TRUTH["住所"]})], SCHEMA)
    assert split.overall.strict == Count(2, 2)
    assert split.documents.files == Count(0, 1)


def test_confidence_counts_answers_only_and_an_invention_is_a_wrong_answer() -> None:
    values = document({"名称": "甲公司", "成立日期": "2020-01-01"}, confidence=0.8)
    report = evaluate([result("a.jpg", values)], [label("a.jpg", {"名称": "甲公司", "成立日期": None, "住所": "重庆"})], SCHEMA)
    assert [(s.confidence, s.correct) for s in report.samples] == [(0.8, True), (0.8, False)]
    assert report.reliability[8].n == 2
    assert report.ece == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("expected", "got", "right_type", "cause"),
    [
        (None, "x", True, Cause.INVENTED),
        ("甲乙丙", None, True, Cause.MISSED),
        ("甲乙丙", None, False, Cause.WRONG_TYPE),
        ("甲乙丙", "名称甲乙丙", True, Cause.SWALLOWED),
        ("甲乙丙", "甲乙", True, Cause.WRAP_LOST),
        ("甲乙丙", "乙丙", True, Cause.PARTIAL),
        ("甲乙丙", "丁", False, Cause.WRONG),
        ("甲乙丙", "**", True, Cause.WRONG),
    ],
)
def test_causes(expected, got, right_type, cause) -> None:
    assert guess_cause(expected, got, right_type=right_type) is cause


def test_the_report_as_json_and_as_a_table() -> None:
    report = one(TRUTH | {"名称": "[red]甲[/red]", "成立日期": "2020-01-01"}, TRUTH | {"成立日期": None})
    data = json.loads(json.dumps(report.to_json(), ensure_ascii=False))
    assert data["overall"]["strict"] == {"ok": 4, "n": 5, "rate": 0.8, "wilson_95": [0.375535, 0.963776]}
    assert data["overall"]["invented"]["ok"] == 1
    assert [(e["field"], e["cause"]) for e in data["errors"]] == [("成立日期", "invented"), ("名称", "wrong")]
    assert len(data["confidence"]["bins"]) == 10
    table = report.to_table(width=120)
    assert "strict exact 4/5 = 0.800 [0.376, 0.964]; codes 1/1; invented 1/1; unknown types 0/0" in table
    assert "法定代表人" in table
    assert "\x1b" not in table


def test_an_empty_evaluation_has_no_rates() -> None:
    report = evaluate([], [label("a", {})], SCHEMA)
    assert report.overall.strict.rate is None
    assert "strict exact 0/0 = -" in report.to_table()
    assert report.to_json()["confidence"]["ece"] is None


def test_aliases_of_one_certificate_are_not_tried_on_another_beside_it() -> None:
    permit = {"经营者名称": "乙", "信用代码": "9111"}
    labels = several(("许可证", {"经营者名称": "乙"}), ("营业执照", {"统一社会信用代码": None, "名称": "甲公司"}))
    report = evaluate([result("m.jpg", document(permit, "permit"))], labels, SCHEMA)
    assert report.overall.invented == Count(0, 1)
    assert report.overall.strict == Count(1, 2)
