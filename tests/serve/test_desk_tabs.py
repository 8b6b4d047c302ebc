"""The tabs for engineers: every function behind them refuses other roles and tenants, and what they show is what was recorded."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from starlette.requests import Request

from certloop.agentrl.release import Release
from certloop.serve.desk import charts, data_engine, learned, learning, learning_html, parts, shell, synthesis
from certloop.serve.desk.context import Desk, Language
from certloop.serve.desk.said import in_words
from certloop.serve.desk.synthesis import Choice
from certloop.serve.errors import ConflictError, ForbiddenError, RequestError
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Role
from certloop.synth.dataset import make
from tests.serve.audit_world import World, licence, open_world

ONE = Choice("business_licence", "", "clean", 1, 7)
READS: tuple[Callable[..., Any], ...] = (learned.signals_by_day, learned.exact_rates)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("tabs")) as opened:
        yield opened


def engineer(tenant: str = "acme") -> Actor:
    return Actor.of(tenant, "eve", Role.ENGINEER)


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.AUDITOR])
def test_other_roles_are_refused_in_every_function(world: World, role: Role) -> None:
    service, actor = world.service, Actor.of("acme", "olga", role)
    calls: tuple[Callable[[], Any], ...] = (
        *(lambda f=f: f(service, actor) for f in READS),
        lambda: learned.gate_report(service, actor, "embedded"),
        lambda: learned.synthetic_scores(actor),
        lambda: synthesis.layouts_of(service, actor, ONE.type_id),
        lambda: synthesis.preview(service, actor, ONE),
        lambda: synthesis.start(service, actor, ONE),
        lambda: synthesis.latest(service, actor),
        lambda: synthesis.folder_of(service, actor),
        lambda: synthesis.template(service, actor, b"x", ".png", ONE.type_id),
    )
    for call in calls:
        with pytest.raises(ForbiddenError):
            call()
    assert not synthesis.folder_of(service, engineer()).exists()


@pytest.mark.parametrize("language", Language)
def test_handlers_called_by_an_operator_or_a_stranger_do_nothing(world: World, language: Language) -> None:
    """Each handler of both tabs, called with an event of its own: of an operator, of somebody whose session is over."""
    service = world.service
    service.loop.registry.register(Release("v-denied", "ocr"), scope="acme")
    if not service.loop.registry.pointer("acme").candidate:  # so that there is something to take back
        service.loop.registry.stage("v-denied", 0.5, actor="test", reason="a trial", scope="acme")
    before = service.loop.registry.pointer("acme")
    for actor in (Actor.of("acme", "olga", Role.OPERATOR), None):
        desk = Known(Desk(None, service, language), actor)  # type: ignore[arg-type]
        with gr.Blocks() as page:
            for tab in (learning, data_engine):
                with gr.Tab("x"):
                    tab.build(desk)  # type: ignore[arg-type]
        handlers = [f for f in page.fns.values() if f.fn is not None and "request" in f.fn.__annotations__]
        assert len(handlers) >= 10
        for one in handlers:
            assert one.api_visibility == "private"
            names = one.fn.__code__.co_varnames[: one.fn.__code__.co_argcount]
            values = {
                "number": 1,
                "n": 1,
                "text": "because",
                "type_id": "business_licence",
                "how": "clean",
                "path": None,
                "release_id": "embedded",
            }
            asked = [event() if name == "request" else values.get(name, "") for name in names]
            said = json.dumps(one.fn(*asked), ensure_ascii=False, default=str)
            if one.fn.__name__ not in ("show", "layouts") or "cl-say" in said:
                assert "cl-bad" in said, (one.fn.__name__, said[:200])
        tabs = [block for block in page.blocks.values() if isinstance(block, gr.Tab)]
        assert [tab.visible for tab in tabs] == [False, False]
    assert service.loop.registry.pointer("acme") == before


class Known:
    """A desk whose events come from somebody known, or from nobody."""

    def __init__(self, desk: Desk, actor: Actor | None) -> None:
        self.desk, self.known = desk, actor
        self.service, self.language, self.say = desk.service, desk.language, desk.say

    def actor(self, request: gr.Request) -> Actor:
        if self.known is None:
            from certloop.serve.errors import UnauthenticatedError

            raise UnauthenticatedError("this session is over")
        return self.known


def event() -> gr.Request:
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b"", "client": ("203.0.113.9", 1)}
    return gr.Request(Request(scope))


def test_signals_and_exact_rates_are_those_of_the_tenant(world: World) -> None:
    for name in ("样例甲商贸有限公司", "样例乙商贸有限公司"):
        certificate = world.certificate(licence(sure=0.3, name=name))
        with world.as_("ann") as ann:
            tag = ann.get(f"/v1/reviews/{certificate}").headers["etag"]
            if "乙" in name:
                fields = {"fields": {"name": "样例丙商贸有限公司"}}
                tag = ann.patch(f"/v1/reviews/{certificate}", json=fields, headers={"If-Match": tag}).headers["etag"]
            done = ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": tag})
            assert done.status_code == 200, done.text
    rates = {rate.field: rate for rate in learned.exact_rates(world.service, engineer())}
    assert (rates["name"].exact, rates["name"].audited) == (1, 2)
    assert (rates["person"].exact, rates["person"].audited) == (2, 2)
    assert next(iter(rates)) == "name"  # the least exact first
    signals = learned.signals_by_day(world.service, engineer())
    stored = [s for c in world.service.tenant("acme").trajectories() for s in c.signals]
    assert signals.total == len(stored) > 0
    assert sum(day[1].get("auditor", 0) for day in signals.days) == sum(str(s.source) == "auditor" for s in stored) > 0
    assert learned.exact_rates(world.service, engineer("other")) == ()
    assert learned.signals_by_day(world.service, engineer("other")).total == 0


def test_a_gate_report_of_another_tenant_is_not_found(world: World, tmp_path: Path) -> None:
    from certloop.agentrl.release import UnknownReleaseError

    registry = world.service.loop.registry
    report = {
        "verdict": "promote", "baseline": "embedded", "reasons": ["<b>better</b>"],
        "forgetting": [
            {"group": "business_licence", "part": "name", "origin": "real", "before": 0.5, "after": 0.75,
             "change": {"n": 4, "mean": 0.25, "lower": 0.1, "upper": 0.4}}
        ],
    }  # fmt: skip
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "gate.json").write_text(json.dumps(report), encoding="utf-8")
    digest = registry.artefacts.add(tmp_path / "gate")
    registry.register(Release("v-gate", "ocr", artefacts={"gate": digest}), scope="acme")
    found = learned.gate_report(world.service, engineer(), "v-gate")
    assert found == report
    desk = Desk(None, world.service, Language.EN)  # type: ignore[arg-type]
    page = learning_html.gate(desk, "v-gate", found)
    assert "&lt;b&gt;better" in page and "<b>better" not in page and "+0.250 [+0.100, +0.400]" in page
    assert learned.gate_report(world.service, engineer(), "embedded") is None
    with pytest.raises(UnknownReleaseError):
        learned.gate_report(world.service, engineer("other"), "v-gate")


@pytest.mark.parametrize(
    "wrong",
    [
        {"type_id": "../../etc"}, {"layout": "../x"}, {"profile": "nothing"}, {"count": 0}, {"count": 13}, {"seed": -1},
    ],
)  # fmt: skip
def test_only_known_names_and_bounded_numbers_are_drawn(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        synthesis.preview(world.service, engineer(), replace(ONE, **wrong))


def test_pages_are_previewed_and_a_run_ends_with_a_manifest(world: World) -> None:
    service, eve = world.service, engineer()
    ((caption, data),) = synthesis.preview(service, eve, ONE)
    assert caption in synthesis.layouts_of(service, eve, ONE.type_id)
    assert data[:2] == b"\xff\xd8"
    run = synthesis.start(service, eve, ONE)
    with pytest.raises(ConflictError):
        synthesis.start(service, eve, ONE)
    assert synthesis.latest(service, engineer("other")) is None
    for thread in threading.enumerate():
        if thread.name == "synthesis":
            thread.join(300)
    done = synthesis.latest(service, eve)
    assert done is not None and done.manifest is not None
    assert (done.state, done.done, done.manifest["count"]) == ("done", 1, 1)
    folder = synthesis.folder_of(service, eve) / run.name
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"] == done.manifest["files"]


def test_a_run_that_was_cut_off_goes_on_where_it_stood(world: World) -> None:
    service, eve = world.service, engineer("cut")
    choice = replace(ONE, count=9)
    folder = synthesis.folder_of(service, eve) / "run_cut"
    config = synthesis._config(service, choice, folder)
    with pytest.raises(KeyboardInterrupt):
        make(config, stop_after(4))
    kept = {path: path.stat().st_mtime_ns for path in (folder / "images").rglob("*.*")}
    assert len(kept) == 4
    (found,) = synthesis.unfinished(service, eve)
    assert (found.name, found.choice, found.done, found.state) == ("run_cut", choice, 4, "stopped")
    assert synthesis.unfinished(service, engineer("other")) == ()
    for wrong in ("run_none", "../acme/run_cut", ""):
        with pytest.raises(RequestError):
            synthesis.resume(service, eve, wrong)
    with pytest.raises(RequestError):
        synthesis.resume(service, engineer("other"), "run_cut")
    synthesis.resume(service, eve, "run_cut")
    for thread in threading.enumerate():
        if thread.name == "synthesis":
            thread.join(300)
    done = synthesis.latest(service, eve)
    assert done is not None and (done.name, done.state, done.done) == ("run_cut", "done", 9)
    assert synthesis.unfinished(service, eve) == ()
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())
    whole = make(replace(config, out=folder.with_name("run_whole")))
    assert done.manifest is not None and done.manifest["files"] == whole["files"]


def stop_after(samples: int) -> Callable[[int, int], None]:
    def heard(done: int, _wanted: int) -> None:
        if done >= samples:
            raise KeyboardInterrupt

    return heard


def test_charts_have_every_day_and_a_scale_with_a_whole_middle() -> None:
    days = (("2026-11-18", {"auditor": 41}), ("2026-11-21", {"auditor": 3, "business": 66}))
    drawn = charts.columns(days, {"auditor": "#000", "business": "#111"}, {"auditor": "<a>", "business": "b"})
    assert re.findall(r">(11-\d\d)<", drawn) == ["11-18", "11-19", "11-20", "11-21"]
    assert re.findall(r'y="\d+">(\d+)<', drawn) == ["0", "50", "100"]
    assert [round(float(tall)) for tall in re.findall(r'height="([\d.]+)" fill="#', drawn)] == [51, 4, 82]  # 124 px are 100
    assert "<a>" not in drawn and "&lt;a&gt;: 41" in drawn
    drawn = charts.line([("2026-11-18", 1, 2), ("2026-11-19", 2, 2), ("2026-11-28", 0, 2)])
    assert re.findall(r'cx="(\d+)" cy="([\d.]+)"', drawn) == [("10", "21.0"), ("30", "6.0"), ("210", "36.0")]
    assert "3/6" in drawn


def test_sentences_of_the_loop_are_chinese_on_a_chinese_page(world: World) -> None:
    zh, en = (Desk(None, world.service, language) for language in (Language.ZH, Language.EN))  # type: ignore[arg-type]
    assert in_words(zh, "3 rules") == "3 条规则" and in_words(en, "3 rules") == "3 rules"
    assert in_words(zh, "the target got worse: -0.0120, at most -0.0010") == "目标变差：-0.0120，至多 -0.0010"
    assert in_words(zh, "business: the business pass rate fell: 1/2") == "业务通过率下降：1/2"
    assert in_words(zh, "3 rules, said a person") == "3 rules, said a person"


def test_tabs_are_where_the_page_looks_for_them(world: World) -> None:
    desk = Desk(None, world.service, Language.ZH)  # type: ignore[arg-type]
    assert {"learning", "data_engine"} <= set(shell.TABS)
    assert parts.reason_of(desk, " worse  on dates ") == "worse  on dates"
    for wrong in ("", "  ", "a\nb", "x" * 201, None):
        with pytest.raises(RequestError):
            parts.reason_of(desk, wrong)
    assert "<script>" not in parts.table(["<script>"], [["<script>"]])
