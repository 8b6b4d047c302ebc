"""The engineers' tabs in a real browser: a release taken back by click, a rule taken out, pages drawn, nothing for operators."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live import ACME, Live
from playwright.sync_api import expect

from certloop.serve.desk import synthesis
from certloop.serve.desk.synthesis import Choice
from certloop.synth.dataset import make

pytestmark = pytest.mark.slow
expect.set_options(timeout=300_000)
OUT = os.environ.get("SCREENSHOTS", "")
"""A folder to keep a picture of each screen in, to look at."""
SCRIPT = "<img src=x onerror=window.hacked=1>"
PASSWORD = "a long sentence is best"
GATE = {
    "verdict": "promote", "baseline": "embedded", "reasons": ["the target got better, nothing else got worse"],
    "forgetting": [
        {"group": "business_licence", "part": "name", "origin": "real", "before": 0.5, "after": 0.75,
         "change": {"n": 8, "mean": 0.25, "lower": 0.1, "upper": 0.4}}
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Tenant acme with an engineer and an operator; a release on trial, and a rule in use."""
    from certloop.agentrl.release import Release
    from certloop.serve.people import users
    from certloop.serve.people.actor import Actor
    from certloop.serve.people.roles import Role

    live = Live(tmp_path_factory.mktemp("learned"), desk=True, work=False)
    live.key()
    with live.open() as service:
        admin = Actor.of(ACME, "cli:uid-0", Role.ADMIN)
        for login, role in (("eve", Role.ENGINEER), ("olga", Role.OPERATOR)):
            users.create(service, admin, login, role, PASSWORD)
        gate = tmp_path_factory.mktemp("gate")
        (gate / "gate.json").write_text(json.dumps(GATE), encoding="utf-8")
        registry = service.loop.registry
        artefacts = {"gate": registry.artefacts.add(gate)}
        registry.register(Release("v2", "ocr", artefacts=artefacts, parent="embedded", notes="3 rules"), scope=ACME)
        registry.stage("v2", 0.05, actor="test", reason="gate passed", scope=ACME)
        body = {"field": "name", "label": "主体全称"}
        service.loop.memory.add(
            ACME, "label", "business_licence", body, evidence=["doc_1.0"], actor="test", replay=lambda _: None
        )
    with live:
        yield live


def shot(page: Any, name: str) -> None:
    if OUT:
        page.screenshot(path=str(Path(OUT) / f"{name}.png"), full_page=True)


def opened(visitor: Any, login: str, tab: str) -> Any:
    page = visitor.log_in(login)
    page.get_by_role("tab", name=tab, exact=True).click()
    return page


def test_a_release_is_taken_back_and_a_rule_taken_out_by_click(learned: Live, visit: Callable[..., Any]) -> None:
    page = opened(visit(learned), "eve", "学习")
    expect(page.locator("[data-test=cards]")).to_contain_text("v2")
    expect(page.locator("table[data-table=rules]")).to_contain_text("主体全称")
    page.locator("#gate-choice input").click()
    page.get_by_role("option", name="v2").click()
    expect(page.locator("table[data-table=forgetting]")).to_contain_text("+0.250")
    shot(page, "learning")
    page.locator("#rollback").click()
    expect(page.locator("#learning-said [role=alert]")).to_be_visible()  # no reason, no move
    page.locator("#rollback-reason textarea, #rollback-reason input").first.fill(f"日期读错了{SCRIPT}")
    page.locator("#rollback").click()
    expect(page.locator("#learning-said")).to_contain_text("已回退")
    expect(page.locator("table[data-table=history]")).to_contain_text(f"日期读错了{SCRIPT}")
    assert page.evaluate("window.hacked") is None and page.locator("img[src=x]").count() == 0
    page.locator("#rule-choice input").click()
    page.get_by_role("option").first.click()
    page.locator("#rule-reason textarea, #rule-reason input").first.fill("学错了")
    page.locator("#rule-remove").click()
    expect(page.locator("#learning-said")).to_contain_text("规则已停用")
    expect(page.locator("table[data-table=rules]")).to_contain_text("学错了")
    with learned.open() as service:
        assert service.loop.registry.pointer(ACME).candidate == ""
        assert service.loop.memory.in_use(ACME) == ()
        moves = [row for row in service.loop.registry.history(ACME) if str(row.move) == "rolled_back"]
        assert moves[0].details["reason"] == f"日期读错了{SCRIPT}" and moves[0].actor.startswith("usr_")


def test_pages_are_drawn_and_a_run_ends(learned: Live, visit: Callable[..., Any]) -> None:
    page = opened(visit(learned), "eve", "数据引擎")
    expect(page.locator("#synth-gallery .cl-empty")).to_be_visible()
    page.locator("#synth-pages input[type=number]").fill("2")
    page.locator("#synth-pages input[type=number]").press("Enter")
    page.locator("#synth-preview").click()
    expect(page.locator("#synth-gallery figure img")).to_have_count(2)
    assert page.evaluate("[...document.querySelectorAll('#synth-gallery img')].every((i) => i.naturalWidth > 300)")
    page.locator("#synth-count input").fill("2")
    page.locator("#synth-count input").press("Tab")
    page.locator("#synth-run").click()
    expect(page.locator("[data-test=manifest]")).to_contain_text("生成完毕")
    (manifest,) = (learned.folder / "synthetic" / ACME).glob("run_*/manifest.json")
    assert json.loads(manifest.read_text(encoding="utf-8"))["count"] == 2
    shot(page, "data_engine")


def test_a_run_that_was_cut_off_goes_on_by_click(learned: Live, visit: Callable[..., Any]) -> None:
    folder = learned.folder / "synthetic" / ACME / "run_cut"
    page = opened(visit(learned), "eve", "数据引擎")
    expect(page.locator("#synth-preview")).to_be_visible()
    expect(page.locator("#synth-resume")).to_have_count(0)  # nothing to go on with
    with learned.open() as service, pytest.raises(KeyboardInterrupt):
        make(synthesis._config(service, Choice("business_licence", "", "clean", 6, 3), folder), cut)
    page.reload()
    page.get_by_role("tab", name="数据引擎", exact=True).click()
    page.locator("#synth-resume").click()
    expect(page.locator("[data-test=manifest]")).to_contain_text("生成完毕：6 份")
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["count"] == 6
    expect(page.locator("#synth-resume")).to_have_count(0)


def cut(done: int, _wanted: int) -> None:
    if done >= 4:
        raise KeyboardInterrupt


def test_a_scan_becomes_a_template_beside_it(learned: Live, visit: Callable[..., Any]) -> None:
    page = opened(visit(learned), "eve", "数据引擎")
    scan = Path(__file__).resolve().parents[2] / "examples" / "licence_2019_scan.jpg"
    with page.expect_file_chooser() as chooser:
        page.locator("#blank-scan").click()
    chooser.value.set_files(str(scan))
    expect(page.locator("[data-test=template] img")).to_have_count(2)
    copies = [file for file in Path(tempfile.gettempdir()).glob("certloop-desk-*/**/*") if file.is_file()]
    assert all(file.read_bytes() != scan.read_bytes() for file in copies)  # nothing of the scan is left beside the blobs
    shot(page, "template")


def test_an_operator_sees_no_tab_of_engineers(learned: Live, visit: Callable[..., Any]) -> None:
    visitor = visit(learned)
    page = visitor.log_in("olga")
    page.get_by_role("tab", name="上传识别").wait_for()
    page.wait_for_load_state("networkidle")
    for name in ("学习", "数据引擎"):
        expect(page.get_by_role("tab", name=name, exact=True)).to_have_count(0)


@pytest.mark.parametrize(("tab", "name"), [("学习", "learning"), ("数据引擎", "data_engine")])
def test_the_tabs_fit_a_phone(learned: Live, visit: Callable[..., Any], tab: str, name: str) -> None:
    page = opened(visit(learned, 390, 844), "eve", tab)
    expect(page.locator("[data-test=cards]" if name == "learning" else "#synth-preview")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shot(page, f"{name}_390")
