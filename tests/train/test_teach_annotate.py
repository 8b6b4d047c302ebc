"""Annotation over a real connection: what agrees is kept, what does not is asked again and dropped, a kill loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from certloop.extract.engine.prompt import answer_text
from certloop.extract.engine.view import View
from certloop.train.errors import TeacherError, TrainConfigError, TrainDataError
from certloop.train.teach.annotate import JOURNAL, ScriptedTeacher, TeachConfig, annotate, with_modes
from certloop.train.teach.check import judge
from certloop.train.teach.helpers import MODES, helpers, teacher_messages, traces
from certloop.train.teach.journal import Annotation, Journal, read_annotations
from certloop.train.teach.local_server import Body, ChatServer, Reply
from certloop.train.teach.pages import LabelledPage, nano_labelled
from certloop.train.teach.scripted import NAME, scripted_answer, scripted_reasoning, scripted_server

VIEW = View(min_pixels=1024, max_pixels=589_824)
CONFIG = TeachConfig(NAME, view=VIEW, concurrency=3, retries=0, timeout_s=10.0)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledPage]:
    return nano_labelled(tmp_path_factory.mktemp("pages"), 31, 6)


def asked(server: ChatServer, **changes: Any) -> TeachConfig:
    return replace(CONFIG, url=server.url, **changes)


def by_page(pages: list[LabelledPage]) -> Callable[[Body], LabelledPage]:
    """Which page a request is about, by the ground truth in its system message."""
    known = {json.dumps(dict(page.fields), ensure_ascii=False): page for page in pages}
    return lambda body: next(page for text, page in known.items() if text in body["messages"][0]["content"])


def test_the_scripted_teacher_behind_the_real_protocol(pages: list[LabelledPage], tmp_path: Path) -> None:
    with scripted_server(pages, VIEW, key="k") as server:
        (tmp_path / "key").write_text("k", encoding="ascii")
        config = asked(server, key_file=str(tmp_path / "key"), price_prompt=2.0, price_completion=1e6)
        tally = annotate(config, pages, tmp_path / "out")
        again = annotate(config, pages, tmp_path / "out")
    assert (tally.kept, tally.dropped, tally.failed) == (6, 0, 0)
    assert tally.modes == {"declaration": 3, "discovery": 3}
    assert tally.cost == tally.completion_tokens > 100
    assert (again.resumed, again.kept) == (6, 6)
    assert len(server.requests) == 6, "what is done is not asked again"
    notes = read_annotations(tmp_path / "out" / JOURNAL)
    for page in pages:
        note = notes[page.id]
        assert note.reasoning == scripted_reasoning(page, note.mode)
        assert note.teacher == NAME and note.quoted == 1.0


def test_what_the_teacher_is_told(pages: list[LabelledPage], tmp_path: Path) -> None:
    with scripted_server(pages, VIEW) as server:
        annotate(asked(server), pages, tmp_path)
    page_of = by_page(pages)
    modes = {page.id: mode for page, mode in with_modes(pages)}
    for body in server.requests:
        page = page_of(body)
        system, user = body["messages"]
        assert json.dumps(dict(page.fields), ensure_ascii=False) in system["content"]
        assert user["content"][1]["text"] == page.doc_type.prompt + helpers().triggers[modes[page.id]]
        assert user["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")


def test_modes_alternate_within_each_form(pages: list[LabelledPage]) -> None:
    same = [replace(page, layout="one", id=str(n)) for n, page in enumerate(pages)]
    assert [mode for _, mode in with_modes(same)] == ["declaration", "discovery"] * 3
    other = [replace(page, layout=str(n)) for n, page in enumerate(pages)]
    assert [mode for _, mode in with_modes(other)] == ["declaration", "discovery"] * 3


def test_wrong_answers_are_asked_again_with_another_seed_and_then_dropped(pages: list[LabelledPage], tmp_path: Path) -> None:
    page_of, tries = by_page(pages), dict[str, int]()

    def careless(body: Body) -> Reply:
        page = page_of(body)
        tries[page.id] = tries.get(page.id, 0) + 1
        wrong = page is pages[0] or (page is pages[1] and tries[page.id] < 3)
        fields = dict(page.fields) | ({"名称": "另一家公司"} if wrong else {})
        return Reply(answer_text(fields, scripted_reasoning(page, "discovery")), usage=(10, 5))

    with ChatServer(careless) as server:
        tally = annotate(asked(server, attempts=3), pages, tmp_path)
    assert (tally.kept, tally.dropped, tally.retries) == (5, 1, 4)
    assert tally.reasons == {"wrong:名称": 1}
    assert tally.completion_tokens == 5 * 10, "every try costs"
    assert tries[pages[0].id] == tries[pages[1].id] == 3
    seeds = [body["seed"] for body in server.requests if page_of(body) is pages[0]]
    assert seeds == [0, 1, 2]


def test_a_teacher_that_is_down_for_some_pages_costs_only_those(pages: list[LabelledPage], tmp_path: Path) -> None:
    page_of, down = by_page(pages), True

    def limping(body: Body) -> Reply:
        page = page_of(body)
        if down and page in pages[2:4]:
            return Reply(status=503) if page is pages[2] else Reply("x" * 40, cut_after=8)
        return Reply(scripted_answer(page, "discovery"))

    with ChatServer(limping) as server:
        tally = annotate(asked(server), pages, tmp_path)
        assert (tally.kept, tally.failed) == (4, 2)
        assert tally.reasons == {"model_response": 1, "model_stream_cut": 1}
        down = False
        tally = annotate(asked(server), pages, tmp_path)
    assert (tally.resumed, tally.kept, tally.failed) == (4, 6, 0), "failed pages are asked again"


def test_a_teacher_that_stays_down_ends_the_run_and_keeps_what_is_done(pages: list[LabelledPage], tmp_path: Path) -> None:
    page_of = by_page(pages)
    dead = pages[2:]
    with ChatServer(
        lambda b: Reply(status=500) if page_of(b) in dead else Reply(scripted_answer(page_of(b), "discovery"))
    ) as server:
        config = asked(server, concurrency=1, give_up=2)
        with pytest.raises(TeacherError, match="2 times in a row") as caught:
            annotate(config, pages, tmp_path)
    assert caught.value.code == "teacher_failed"
    kept = [note.id for note in read_annotations(tmp_path / JOURNAL).values() if note.status == "kept"]
    assert kept == [page.id for page in pages[:2]]


def test_a_slow_teacher_is_a_failure_with_a_name(pages: list[LabelledPage], tmp_path: Path) -> None:
    with ChatServer(lambda body: Reply("x", hang_s=5.0)) as server:
        tally = annotate(asked(server, timeout_s=0.2), pages[:2], tmp_path)
    assert tally.reasons == {"model_timeout": 2}


def test_the_budget_ends_a_run(pages: list[LabelledPage], tmp_path: Path) -> None:
    page_of = by_page(pages)
    with ChatServer(lambda b: Reply(scripted_answer(page_of(b), "discovery"), usage=(0, 10))) as server:
        config = asked(server, concurrency=1, price_completion=100_000, budget=2.0)
        with pytest.raises(TeacherError, match="budget of 2"):
            annotate(config, pages, tmp_path)
    assert len(server.requests) <= 3


def test_answers_under_way_when_the_budget_ends_are_paid_for_and_kept(pages: list[LabelledPage], tmp_path: Path) -> None:
    page_of = by_page(pages)
    with ChatServer(lambda b: Reply(scripted_answer(page_of(b), "discovery"), usage=(0, 10), hang_s=0.3)) as server:
        config = asked(server, concurrency=3, price_completion=100_000, budget=1.0)
        with pytest.raises(TeacherError, match=r"budget of 1 is spent \(3 of 6 pages kept, cost 3.00\)"):
            annotate(config, pages, tmp_path)
        assert len(read_annotations(tmp_path / JOURNAL)) == len(server.requests) < len(pages)


def test_a_folder_belongs_to_one_teacher_and_one_way_of_asking(pages: list[LabelledPage], tmp_path: Path) -> None:
    annotate(CONFIG, pages[:1], tmp_path, teacher=ScriptedTeacher())
    for other in (replace(CONFIG, model="another"), replace(CONFIG, min_quoted=0.9), replace(CONFIG, view=View())):
        with pytest.raises(TrainConfigError, match="another"):
            annotate(other, pages[:1], tmp_path, teacher=ScriptedTeacher())
    annotate(replace(CONFIG, concurrency=1, timeout_s=1.0), pages[:2], tmp_path, teacher=ScriptedTeacher())


def test_a_picture_that_cannot_be_decoded_costs_one_page(pages: list[LabelledPage], tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(pages[0].image.read_bytes()[:200])
    tally = annotate(CONFIG, [replace(pages[0], image=broken), *pages[1:3]], tmp_path / "out", teacher=ScriptedTeacher())
    assert (tally.kept, tally.failed) == (2, 1)
    assert tally.reasons == {"image_truncated": 1}


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda p: answer_text({k: v for k, v in p.fields.items() if k != "名称"}, "想" * 9), "missing:名称"),
        (lambda p: answer_text({**p.fields, "职务": "经理"}, "想" * 9), "extra:unknown"),
        (lambda p: scripted_answer(p, "discovery") + "完毕", "marked:trailing_text"),
        (lambda p: scripted_answer(p, "discovery")[:-3], "marked:cut"),
        (lambda p: answer_text(p.fields), "no_reasoning"),
        (lambda p: answer_text(p.fields, "看了。"), "proves_too_little"),
        (lambda p: "根据标准答案，" + scripted_answer(p, "discovery"), "gives_itself_away"),
        (lambda p: helpers().triggers["discovery"] + scripted_answer(p, "discovery"), "gives_itself_away"),
        (lambda p: "长" * 5000 + scripted_answer(p, "discovery"), "too_long"),
        (lambda p: "我看不清。", "marked:no_json"),
    ],
)  # fmt: skip
def test_why_an_answer_is_not_kept(pages: list[LabelledPage], spoil: Callable[[LabelledPage], str], reason: str) -> None:
    judged = judge(spoil(pages[0]), pages[0], min_quoted=0.5, max_chars=4000)
    assert reason in judged.reasons
    assert judge(scripted_answer(pages[0], "discovery"), pages[0], min_quoted=1.0, max_chars=4000).kept


def test_a_blank_field_must_stay_blank_and_a_date_may_be_written_otherwise(pages: list[LabelledPage]) -> None:
    blank = replace(pages[0], fields={**pages[0].fields, "住所": None})
    assert "invented:住所" in judge(scripted_answer(pages[0], "discovery"), blank, min_quoted=0, max_chars=4000).reasons
    iso = {
        **pages[0].fields,
        "成立日期": str(pages[0].fields["成立日期"]).replace("年", "-").replace("月", "-").replace("日", ""),
    }
    assert judge(answer_text(iso, "成立日期在中间。"), pages[0], min_quoted=0, max_chars=4000).kept


def test_the_two_modes_look_in_two_ways(pages: list[LabelledPage]) -> None:
    page = pages[0]
    declared, discovered = (scripted_reasoning(page, mode) for mode in MODES)
    assert declared.startswith("先列出要找的字段：" + "、".join(page.fields))
    tops = [page.boxes[label][1] for label in sorted(page.fields, key=lambda name: discovered.index(f"是{name}。"))]
    assert tops == sorted(tops), "from top to bottom"
    for value in page.fields.values():
        assert str(value) in declared and str(value) in discovered
    with pytest.raises(TrainDataError, match="needs boxes"):
        scripted_reasoning(replace(page, boxes={}), "discovery")


def test_short_sentences_are_written_in_the_nano_models_own_characters(pages: list[LabelledPage]) -> None:
    from certloop.train.nano.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    for page in pages:
        for mode in MODES:
            text = scripted_answer(page, mode, "brief")
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == text


def test_helper_words_are_recognised_in_what_a_teacher_says() -> None:
    messages = teacher_messages("问\n", {"名称": "甲"}, "declaration", "data:,")
    assert traces(messages[0]["content"]) and traces(messages[1]["content"][1]["text"])
    assert traces("从上到下扫描页面，名称在左上部。") == []


def test_a_torn_line_is_cut_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    with Journal(path) as journal:
        journal.add(Annotation("a", "discovery", "kept", NAME, "想"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"id": "b", "mo')
    assert list(read_annotations(path)) == ["a"]
    with Journal(path) as journal:
        journal.add(Annotation("c", "discovery", "kept", NAME, "\ud800"))
    assert list(read_annotations(path)) == ["a", "c"]
    with Journal(path) as journal:
        journal.add(Annotation("d", "discovery", "kept", NAME, "一\u2028二\u0085三"))
    assert read_annotations(path)["d"].reasoning == "一\u2028二\u0085三", "only a line feed ends a line"
    path.write_bytes(whole + b'{"id": "b"}\n')
    with pytest.raises(TrainDataError, match="line 2"):
        read_annotations(path)


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_where_it_stopped(pages: list[LabelledPage], tmp_path: Path) -> None:
    page_of = by_page(pages)

    def slow(body: Body) -> Reply:
        return Reply(scripted_answer(page_of(body), "discovery"), hang_s=0.4)

    folder = pages[0].image.parent
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from certloop.extract.engine.view import View\n"
        "from certloop.train.teach.annotate import TeachConfig, annotate\n"
        "from certloop.train.teach.pages import nano_labelled\n"
        f"pages = nano_labelled(Path({str(folder)!r}), 31, 6)\n"
        f"config = TeachConfig({NAME!r}, sys.argv[1], view=View(1024, 589824), concurrency=1)\n"
        "print(annotate(config, pages, Path(sys.argv[2])).kept)\n"
    )
    with ChatServer(slow) as server:
        run = [sys.executable, "-c", script, server.url, str(tmp_path)]
        first = subprocess.Popen(run, stdout=subprocess.DEVNULL)
        while len(read_annotations(tmp_path / JOURNAL)) < 2:
            time.sleep(0.05)
            assert first.poll() is None, "it ended before it could be killed"
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        done = len(read_annotations(tmp_path / JOURNAL))
        asked_before = len(server.requests)
        second = subprocess.run(run, capture_output=True, text=True, check=True)
    assert second.stdout.strip() == "6"
    assert len(server.requests) - asked_before == 6 - done
