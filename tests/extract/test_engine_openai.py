"""The engine behind a server, over real connections: what servers offer is used, what goes wrong has a name."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from certloop.extract.config import ModelConfig
from certloop.extract.engine.chat_client import ChatClient, Completion, Endpoint
from certloop.extract.engine.constraints import answer_grammar, answer_schema
from certloop.extract.engine.contract import Finish, ModelAnswer, Question
from certloop.extract.engine.errors import (
    ModelError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from certloop.extract.engine.openai import OpenAiModel, token_offsets
from certloop.train.teach.local_server import Body, ChatServer, Reply

PAGE = np.full((64, 64, 3), 255, np.uint8)
QUESTION = Question((PAGE,), "问", ("名称", "类型"))
ANSWER = '想。\n{"名称": "甲"}'
TOKENS = [(c, -0.1) for c in ANSWER]


def always(**reply: Any) -> Callable[[Body], Reply]:
    return lambda body: Reply(**reply)


def ask(server: ChatServer, **settings: Any) -> ModelAnswer:
    config = replace(ModelConfig(model="m", url=server.url, timeout_s=5.0, retries=0), **settings)
    model = OpenAiModel(config)
    try:
        (answer,) = model.answer([QUESTION])
    finally:
        model.close()
    return answer


def test_an_answer_with_its_tokens_and_ids() -> None:
    reply = always(text=ANSWER, tokens=TOKENS, token_ids=range(len(TOKENS)), prompt_ids=[5, 6])
    with ChatServer(reply) as server:
        answer = ask(server)
    assert (answer.text, answer.finish, answer.constraint) == (ANSWER, Finish.STOP, "grammar")
    assert answer.prompt_ids == (5, 6)
    assert answer.token_ids == tuple(range(len(ANSWER)))
    assert answer.offsets == tuple((n, n + 1) for n in range(len(ANSWER)))
    assert set(answer.logprobs) == {-0.1}
    body = server.requests[0]
    assert [part["type"] for part in body["messages"][0]["content"]] == ["image_url", "text"]
    assert body["messages"][0]["content"][1]["text"] == "问"
    assert (body["temperature"], body["logprobs"], body["return_token_ids"]) == (0.0, True, True)


def test_a_server_that_refuses_extras_is_asked_without_them_from_then_on() -> None:
    def plain(body: Body) -> Reply:
        known = {"model", "messages", "max_tokens", "temperature", "seed", "stream", "stream_options"}
        return Reply(status=400) if set(body) - known else Reply(ANSWER)

    with ChatServer(plain) as server:
        model = OpenAiModel(ModelConfig(model="m", url=server.url, retries=0))
        first, second = model.answer([QUESTION, QUESTION])
        model.close()
    assert first.text == second.text == ANSWER
    assert first.constraint is None and first.token_ids == () and first.logprobs == ()
    assert len(server.requests) == 3


@pytest.mark.parametrize(("constraint", "key"), [("grammar", "structured_outputs"), ("schema", "response_format")])
def test_a_constraint_that_was_asked_for_is_sent_and_not_given_up(constraint: str, key: str) -> None:
    with ChatServer(always(text=ANSWER)) as server:
        assert ask(server, constraint=constraint).constraint == constraint
    assert "名称" in json.dumps(server.requests[0][key], ensure_ascii=False)
    refuses = ChatServer(lambda body: Reply(status=400) if key in body else Reply(ANSWER))
    with refuses, pytest.raises(ModelResponseError, match="400"):
        ask(refuses, constraint=constraint)
    with ChatServer(always(text=ANSWER)) as server:
        assert ask(server, constraint="none").constraint is None
    assert not {"structured_outputs", "response_format"} & set(server.requests[0])


def test_schema_and_grammar_know_the_labels_and_nothing_else() -> None:
    schema = answer_schema(["名称", "类型"])
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["名称", "类型"]
    grammar = answer_grammar(['名"称'])
    assert r'key ::= "\"名\\\"称\""' in grammar.splitlines()


def test_at_a_temperature_between_raw_logprobs_do_not_count_as_sampled() -> None:
    reply = always(text=ANSWER, tokens=TOKENS, token_ids=range(len(TOKENS)))
    with ChatServer(reply) as server:
        answer = ask(server, temperature=0.7)
    assert answer.token_ids == ()
    assert len(answer.logprobs) == len(answer.offsets) == len(ANSWER), "they still tell how sure the model was"


def test_a_server_that_does_not_stream_is_understood() -> None:
    def reply(body: Body) -> Reply:
        body["stream"] = False  # type: ignore[index]
        return Reply(ANSWER, tokens=TOKENS)

    with ChatServer(reply) as server:
        answer = ask(server)
    assert answer.text == ANSWER and len(answer.logprobs) == len(ANSWER)


def test_a_repetition_loop_is_stopped_while_it_streams() -> None:
    with ChatServer(always(text='{"经营范围": "' + "建材；" * 20_000)) as server:
        answer = ask(server)
    assert answer.finish is Finish.LOOP
    assert len(answer.text) < 200


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        ({"status": 500}, ModelResponseError, "answered 500"),
        ({"status": 401}, ModelResponseError, "key"),
        ({"status": 404}, ModelResponseError, "no such model"),
        ({"text": ANSWER, "cut_after": 4}, ModelStreamError, "without finishing"),
        ({"garbage": "data: {not json\n\n"}, ModelResponseError, "chat completions"),
        ({"garbage": 'data: {"choices": [7]}\n\n'}, ModelResponseError, "chat completions"),
        ({"garbage": 'data: {"error": {"message": "secret"}}\n\n'}, ModelResponseError, "failed in the middle"),
        ({"text": ANSWER, "hang_s": 3.0}, ModelTimeoutError, "silent for 0.2 seconds"),
    ],
)
def test_faults_have_names_and_quote_nothing(reply: dict[str, Any], error: type[ModelError], words: str) -> None:
    with ChatServer(always(**reply)) as server, pytest.raises(error, match=words) as caught:
        ask(server, timeout_s=0.2 if "hang_s" in reply else 5.0)
    assert "secret" not in str(caught.value) and "甲" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 429])
def test_errors_can_leave_a_process(status: int) -> None:
    """Readers live in processes of their own: what they raise is sent through a pipe."""
    import pickle

    with ChatServer(always(status=status, retry_after=1)) as server, pytest.raises(ModelResponseError) as caught:
        ask(server)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.code) == (str(caught.value), "model_response")


def test_what_passes_is_tried_again() -> None:
    pauses: list[float] = []
    replies = [Reply(status=503), Reply(status=429, retry_after=7), Reply(ANSWER, cut_after=2), Reply(ANSWER)]
    with ChatServer(lambda body: replies.pop(0)) as server:
        client = ChatClient(Endpoint(server.url, retries=3, backoff_s=0.1), pause=pauses.append)
        assert client.complete({"model": "m", "messages": []}).text == ANSWER
        client.close()
    assert len(pauses) == 3 and pauses[1] == 7.0
    assert 0.08 <= pauses[0] <= 0.12 and 0.3 <= pauses[2] <= 0.5, "pauses grow"


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = OpenAiModel(ModelConfig(model="m", url=f"http://127.0.0.1:{port}/v1", retries=0))
    with pytest.raises(ModelUnavailableError, match="cannot be reached"):
        model.answer([QUESTION])
    for config in (ModelConfig(model="m"), ModelConfig(url="http://127.0.0.1/v1"), ModelConfig(model="m", url="127.0.0.1:80")):
        with pytest.raises(ModelUnavailableError):
            OpenAiModel(config)


def test_the_key_comes_from_a_file(tmp_path: Any) -> None:
    (tmp_path / "key").write_text("sk-test\n", encoding="ascii")
    with ChatServer(always(text=ANSWER), key="sk-test") as server:
        assert ask(server, key_file=str(tmp_path / "key")).text == ANSWER
        with pytest.raises(ModelResponseError, match="401"):
            ask(server)
    with pytest.raises(ModelUnavailableError, match="key file"):
        OpenAiModel(ModelConfig(model="m", url="http://127.0.0.1/v1", key_file=str(tmp_path / "none")))


def test_offsets_follow_bytes_and_are_given_up_where_tokens_do_not_fit() -> None:
    whole = "名".encode()
    tokens = ((b"a", -1.0), (whole[:1], -1.0), (whole[1:], -1.0), (b"bc", -1.0), (b"<|im_end|>", -1.0))
    assert token_offsets(Completion("a名bc", "stop", tokens=tokens)) == ((0, 1), (1, 2), (1, 2), (2, 4), (4, 4))
    assert token_offsets(Completion("a名x", "stop", tokens=tokens)) == ()
    assert token_offsets(Completion("a", "stop")) == ()


@pytest.mark.parametrize(("temperature", "sent"), [(1.0, (1.0, -1)), (0.0, (None, None))])
def test_what_is_sampled_from_is_what_is_recorded_and_not_what_the_model_s_files_recommend(
    temperature: float, sent: tuple[float | None, int | None]
) -> None:
    with ChatServer(always(text=ANSWER)) as server:
        ask(server, temperature=temperature)
    assert (server.requests[0].get("top_p"), server.requests[0].get("top_k")) == sent
