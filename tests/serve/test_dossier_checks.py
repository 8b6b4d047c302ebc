"""Audit mode (declared against printed), and the papers of one supplier against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from certloop.extract.result import Document, FieldResult, FieldStatus
from certloop.serve.dossier.compare import Match, check_expected, compare
from certloop.serve.errors import RequestError
from certloop.templates import load_types
from tests.serve.audit_world import CODE, LICENCE, PNG, World, licence, open_world

KIND = load_types().get("business_licence")
PERMIT = {
    "name": LICENCE["name"],
    "credit_code": CODE,
    "permit_no": "京样食药监械经营许20190001号",
    "person": LICENCE["person"],
    "residence": LICENCE["address"],
    "premises": "北京市海淀区另一条路9号",
    "valid_until": "2030年05月31日",
}


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        yield opened


def verdict(declared: dict[str, str], document: Document) -> dict[str, tuple[str, str]]:
    return {c.field: (c.match.value, c.cause.value) for c in compare(declared, document, KIND)}


@pytest.mark.parametrize(
    ("field", "declared", "printed", "expected"),
    [
        ("credit_code", CODE, CODE, ("match", "same_print")),
        ("credit_code", "９１１１０１０５ＭＡ０１ＡＢＣＤ５Ｆ", CODE, ("match", "same_print")),
        ("credit_code", CODE.lower(), CODE, ("match", "same_meaning")),
        ("credit_code", "91110105MA01ABCD5G", CODE, ("differs", "other_value")),
        ("established_on", "2019-03-05", "2019年03月05日", ("match", "same_print")),
        ("established_on", "二〇一九年三月五日", "2019年03月05日", ("match", "same_print")),
        ("established_on", "2019-03-06", "2019年03月05日", ("differs", "other_value")),
        ("registered_capital", "100万元", "壹佰万元整", ("match", "same_meaning")),
        ("registered_capital", "1000000元", "100万元人民币", ("match", "same_meaning")),
        ("registered_capital", "101万元", "壹佰万元整", ("differs", "other_value")),
        ("name", "样例甲商贸(北京)有限公司", "样例甲商贸（北京）有限公司", ("match", "same_print")),
        ("name", "样例甲商贸 有限公司", "样例甲商贸有限公司", ("match", "same_print")),
        ("name", "样例乙商贸有限公司", "样例甲商贸有限公司", ("differs", "other_value")),
        ("term", "2019-03-05至长期", "2019年03月05日至长期", ("match", "same_print")),
        ("term", "2019-03-05至2039-03-04", "2019年03月05日至长期", ("differs", "other_value")),
    ],
)
def test_declared_against_printed(field: str, declared: str, printed: str, expected: tuple[str, str]) -> None:
    assert verdict({field: declared}, licence(**{field: printed})) == {field: expected}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (FieldStatus.BLANK, ("differs", "printed_blank")),
        (FieldStatus.ABSENT, ("not_readable", "not_on_form")),
        (FieldStatus.UNREADABLE, ("not_readable", "unreadable")),
        (FieldStatus.MISSING_PAGE, ("not_readable", "missing_page")),
    ],
)
def test_what_cannot_be_read_is_said(status: FieldStatus, expected: tuple[str, str]) -> None:
    document = licence()
    document = replace(document, fields={**document.fields, "name": FieldResult("名称", None, status=status)})
    assert verdict({"name": "样例甲商贸有限公司"}, document) == {"name": expected}


def test_declared_fields_go_by_id_or_by_any_printed_label() -> None:
    assert check_expected({"统一社会信用代码": "a", "企业名称": "b", "住 所": "c", "person": "d"}, KIND) == {
        "credit_code": "a", "name": "b", "address": "c", "person": "d",
    }  # fmt: skip


@pytest.mark.parametrize(
    "declared",
    [
        {"nothing": "x"}, {"name": ""}, {"name": 7}, {"name": "x" * 20000}, {"name": "a", "名称": "b"}, {"name": "a\x00"},
        {"name": "\ud800"},
    ],
)  # fmt: skip
def test_a_declaration_that_makes_no_sense_is_refused_without_repeating_it(declared: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as refused:
        check_expected(declared, KIND)
    assert refused.value.code == "request_invalid" and "xxxx" not in refused.value.message


def test_a_certificate_of_unknown_type_answers_not_readable() -> None:
    (one,) = compare({"name": "x"}, Document("unknown", 1.0), None)
    assert one.match is Match.NOT_READABLE


def test_the_answer_says_where_to_look(world: World) -> None:
    certificate = world.certificate(licence(), doc_type="business_licence", expected='{"name": "样例乙商贸有限公司"}')
    with world.as_("operator") as operator:
        result = operator.get(f"/v1/documents/{certificate.split('.')[0]}/result").json()
    (comparison,) = result["documents"][0]["comparisons"]
    assert (comparison["match"], comparison["declared"]) == ("differs", "样例乙商贸有限公司")
    assert comparison["box"] and comparison["page"] == 0 and comparison["message_zh"] and comparison["message_en"]
    with world.as_("ann") as ann:
        (row,) = ann.get("/v1/reviews").json()["items"]
    assert [(r["reason"], r["field"]) for r in row["reasons"]] == [("declared_differs", "name")]


def dossier(world: World, *papers: Document, dossier: bool = True) -> tuple[str, list[str]]:
    """Hand in a supplier's papers as one batch and have them read; returns the batch and the certificates."""
    files = [("files", (f"{i}.png", PNG + f"{i}".encode(), "image/png")) for i in range(len(papers))]
    with world.as_("operator") as operator:
        made = operator.post("/v1/batches", files=files, data={"dossier": str(dossier).lower()})
        assert made.status_code == 202, made.text
        batch = made.json()["id"]
        ids = [row["id"] for row in operator.get(f"/v1/batches/{batch}/documents").json()["items"]]
    for document_id, paper in zip(ids, papers, strict=True):
        world.read(document_id, paper)
    return batch, [f"{document_id}.0" for document_id in ids]


def checks(world: World, batch: str) -> list[dict[str, Any]]:
    with world.as_("operator") as operator:
        found: list[dict[str, Any]] = operator.get(f"/v1/batches/{batch}").json()["checks"]
    return found


def test_papers_that_agree_pass_and_their_agreement_is_shown(world: World) -> None:
    batch, _ = dossier(world, licence(), licence(doc_type="device_operation_permit", **PERMIT))
    found = checks(world, batch)
    assert {check["rule"]: check["agrees"] for check in found} == {
        "dossier.name": True, "dossier.credit_code": True, "dossier.person": True, "dossier.address": True,
    }  # fmt: skip
    with world.as_("ann") as ann:
        assert ann.get("/v1/reviews").json()["items"] == []


def test_papers_that_disagree_go_to_review_with_both_places(world: World) -> None:
    permit = PERMIT | {"name": "样例乙商贸有限公司", "residence": "上海市某区样例路1号"}
    batch, (licence_id, permit_id) = dossier(world, licence(), licence(doc_type="device_operation_permit", **permit))
    wrong = [check for check in checks(world, batch) if not check["agrees"]]
    assert {check["rule"] for check in wrong} == {"dossier.name", "dossier.address"}
    name = next(check for check in wrong if check["rule"] == "dossier.name")
    assert (name["reference"]["certificate_id"], name["compared"]["certificate_id"]) == (licence_id, permit_id)
    assert (name["reference"]["value"], name["compared"]["value"]) == (LICENCE["name"], "样例乙商贸有限公司")
    assert name["reference"]["box"] and name["compared"]["box"] and name["message_zh"]
    with world.as_("ann") as ann:
        rows = ann.get("/v1/reviews", params={"reason": "dossier_disagrees"}).json()["items"]
    assert {row["certificate_id"] for row in rows} == {licence_id, permit_id}
    assert {r["field"] for row in rows for r in row["reasons"]} == {"name", "address", "residence"}


def test_an_address_may_leave_out_the_province(world: World) -> None:
    permit = PERMIT | {"residence": "朝阳区样例路1号"}
    batch, _ = dossier(world, licence(), licence(doc_type="device_operation_permit", **permit))
    assert all(check["agrees"] for check in checks(world, batch))


def test_a_batch_that_is_no_dossier_is_not_compared(world: World) -> None:
    permit = PERMIT | {"name": "样例乙商贸有限公司"}
    batch, _ = dossier(world, licence(), licence(doc_type="device_operation_permit", **permit), dossier=False)
    assert checks(world, batch) is None


def test_a_correction_brings_the_verdicts_up_to_date(world: World) -> None:
    permit = PERMIT | {"name": "样例乙商贸有限公司"}
    batch, (_, permit_id) = dossier(world, licence(), licence(doc_type="device_operation_permit", **permit))
    with world.as_("ann") as ann:
        tag = ann.get(f"/v1/reviews/{permit_id}").headers["etag"]
        edited = ann.patch(f"/v1/reviews/{permit_id}", json={"fields": {"name": LICENCE["name"]}}, headers={"If-Match": tag})
        approved = ann.post(f"/v1/reviews/{permit_id}/approve", headers={"If-Match": edited.headers["etag"]})
        assert approved.status_code == 200
    assert all(check["agrees"] for check in checks(world, batch))


def test_a_deleted_paper_leaves_the_verdicts(world: World) -> None:
    permit = PERMIT | {"name": "样例乙商贸有限公司"}
    batch, (_, permit_id) = dossier(world, licence(), licence(doc_type="device_operation_permit", **permit))
    with world.as_("operator") as operator:
        assert operator.delete(f"/v1/documents/{permit_id.split('.')[0]}").status_code == 204
    assert checks(world, batch) == []
