"""The next message of a conversation, and the same file again, as feedback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from certloop.agentrl.signals import JudgeConfig, Reason, Scope, Source, fuse
from certloop.serve.people.roles import Role
from tests.serve.audit_world import LICENCE, PNG, World, less_sure, licence, open_world


@pytest.fixture
def world(tmp_path: Path, place: Callable[[Path], tuple[str, str]]) -> Iterator[World]:
    with open_world(tmp_path, *place(tmp_path)) as opened:
        yield opened


def say(world: World, certificate: str, message: str, who: str = "operator", **more: Any) -> Any:
    with world.as_(who) as client:
        answer = client.post(f"/v1/conversations/{certificate}/messages", json={"message": message, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("message", "value"),
    [("谢谢，搞定了", 1.0), ("不对，有效期应为2035-05-31", -1.0), ("你应该先查二维码", -1.0), ("下一份是开户许可证", 0.0)],
)
def test_what_people_say_next(world: World, message: str, value: float) -> None:
    """METHODS §5's examples, and one that is about something else."""
    certificate = world.certificate()
    heard = say(world, certificate, message)
    stored = [s for s in world.signals(certificate) if s.source is Source.IMPLICIT]
    assert [s.signal_id for s in stored] == heard["signals"]
    assert heard["value"] == value
    assert {s.value for s in stored} == {value} and all(s.reason == Reason.NEXT_MESSAGE for s in stored)


def test_a_correction_hints_without_the_answer_and_names_its_field(world: World) -> None:
    permit = licence(
        doc_type="device_operation_permit", name="样例甲商贸有限公司", permit_no="京样食药监械经营许20190001号", person="张样",
        premises="北京市朝阳区样例路1号", valid_until="2030年05月31日",
    )  # fmt: skip
    certificate = world.certificate(permit)
    heard = say(world, certificate, "不对，有效期应为2035-05-31")
    assert heard["field"] == "有效期限", "people leave the last character of a label out"
    assert heard["hint"] and "2035" not in heard["hint"]
    on_field = [s for s in world.signals(certificate) if s.scope is Scope.FIELD and s.source is Source.IMPLICIT]
    assert [(s.field, s.value) for s in on_field] == [("有效期限", -1.0)]
    assert "2035" in str(on_field[0].evidence["hint_with_answer"])


def test_an_empty_message_is_no_sample(world: World) -> None:
    certificate = world.certificate()
    heard = say(world, certificate, "  \n")
    assert (heard["value"], heard["signals"]) == (None, []) and world.signals(certificate) == ()


def test_the_same_message_id_again_adds_nothing(world: World) -> None:
    certificate = world.certificate()
    first = say(world, certificate, "不对", message_id="m-1")
    again = say(world, certificate, "不对", message_id="m-1")
    assert again["repeated"] and again["signals"] == first["signals"]
    assert len(world.signals(certificate)) == len(first["signals"])
    other = say(world, certificate, "不对", message_id="m-2")
    assert not other["repeated"] and other["signals"] != first["signals"]


def test_a_request_in_other_words_is_not_content(world: World) -> None:
    certificate = world.certificate()
    heard = say(world, certificate, "请读出这张执照的住所", previous_request="请读出这张执照住所")
    assert (heard["value"], heard["rule"]) == (-1.0, "rephrase")


def test_nobody_speaks_about_another_tenants_answer(world: World) -> None:
    certificate = world.certificate()
    with world.as_("stranger") as stranger, world.as_("eve") as eve:
        assert stranger.post(f"/v1/conversations/{certificate}/messages", json={"message": "不对"}).status_code == 404
        assert eve.post(f"/v1/conversations/{certificate}/messages", json={"message": "不对"}).status_code == 403
    assert world.signals(certificate) == ()


def test_an_auditor_outweighs_what_was_said_in_passing(world: World) -> None:
    certificate = world.certificate(less_sure(licence(), "address", 0.3))
    say(world, certificate, "不对")
    assert fuse(world.signals(certificate)).trajectory.value == -1.0
    with world.as_("ann") as ann:
        ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"2"'})
    assert fuse(world.signals(certificate)).trajectory.value == 1.0


class Judge(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint that always answers ``reply``, or fails with ``status``; it keeps what it was asked."""

    reply: ClassVar[str] = ""
    status: ClassVar[int] = 200
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked.append(json.loads(body)["messages"][1]["content"])
        answer = json.dumps({"choices": [{"message": {"content": type(self).reply}}]}).encode()
        self.send_response(type(self).status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def judge() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    Judge.asked, Judge.status = [], 200
    Judge.reply = "<score>-1</score><useful>+1</useful>[HINT_START]Look at the QR code before reading the number.[HINT_END]"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_a_judge_decides_where_there_is_one_and_sees_no_values(tmp_path: Path, judge: str) -> None:
    with open_world(tmp_path, judge=JudgeConfig(judge, "judge-model", votes=3, timeout_s=10)) as world:
        certificate = world.certificate()
        heard = say(world, certificate, "嗯，样例甲商贸有限公司这个……")
        assert (heard["value"], heard["judged_by"], heard["judge_error"]) == (-1.0, "judge-model", None)
        assert heard["hint"] == "Look at the QR code before reading the number."
        assert len(Judge.asked) == 3
        assert not any(LICENCE["name"] in text or LICENCE["credit_code"] in text for text in Judge.asked)


def test_a_judge_that_fails_is_named_and_the_rules_decide(tmp_path: Path, judge: str) -> None:
    Judge.status = 503
    with open_world(tmp_path, judge=JudgeConfig(judge, "judge-model", votes=1, timeout_s=10)) as world:
        heard = say(world, world.certificate(), "谢谢，搞定了")
    assert (heard["value"], heard["judged_by"], heard["judge_error"]) == (1.0, "rules", "judge_unavailable")


def test_the_same_file_again_counts_against_the_answer(world: World) -> None:
    content = PNG + b"the same"
    first = world.hand_in(content=content)
    world.read(first, licence())
    world.clock.pass_s(60)
    second = world.hand_in(content=content)
    (said,) = world.signals(f"{first}.0")
    assert (said.reason, said.value, said.source, said.scope) == (Reason.REUPLOAD, -1.0, Source.IMPLICIT, Scope.TRAJECTORY)
    world.read(second, licence())
    assert world.signals(f"{second}.0") == ()
    world.clock.pass_s(60)
    world.hand_in(content=content)
    assert len(world.signals(f"{first}.0")) == 1 and len(world.signals(f"{second}.0")) == 1, "the last answer is meant"


def test_another_file_an_unread_one_and_another_tenants_say_nothing(world: World) -> None:
    content = PNG + b"the same"
    first = world.hand_in(content=content)
    twice = world.hand_in(content=content)
    world.read(first, licence())
    world.read(twice, licence())
    world.clock.pass_s(60)
    world.hand_in(content=PNG + b"another")
    world.person("their operator", Role.OPERATOR, "other")
    world.hand_in("their operator", content=content)
    assert world.signals(f"{first}.0") == () and world.signals(f"{twice}.0") == ()


def test_a_repeated_request_is_one_upload_and_no_feedback(world: World) -> None:
    content = PNG + b"the same"
    with world.as_("operator") as operator:
        headers = {"Idempotency-Key": "k-1"}
        files = {"file": ("scan.png", content, "image/png")}
        first = operator.post("/v1/documents", files=files, headers=headers).json()["id"]
        world.read(first, licence())
        world.clock.pass_s(60)
        assert operator.post("/v1/documents", files=files, headers=headers).json()["id"] == first
    assert world.signals(f"{first}.0") == ()


@pytest.mark.parametrize("odd", ["\x00", "\x07", "\u202e", "\U0001f600", "\u2028"])
def test_a_message_may_hold_any_character(world: World, odd: str) -> None:
    """Whatever a chat client lets through: the database takes it, and the signal can be read again."""
    certificate = world.certificate()
    heard = say(world, certificate, f"不对，{odd}有效期应为2035-05-31{odd}")
    assert heard["value"] == -1.0
    assert {signal.signal_id for signal in world.signals(certificate)} >= set(heard["signals"])
