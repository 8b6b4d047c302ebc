"""A client of any OpenAI-compatible chat server (vLLM, llama.cpp, a cloud): streamed, patient with what passes, strict with
the rest.

Answers are streamed so that a hang shows as silence, a repetition loop can be stopped, and a cut connection is told from an
answer. What passes (connection refused, 429, 5xx, a cut stream) is tried again with growing pauses; a timeout or a refusal is
not. Nothing a server says is quoted in an error: it may repeat the question.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from certloop.extract.engine.errors import (
    ModelError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from certloop.extract.engine.loops import LoopWatch

if TYPE_CHECKING:
    import httpx

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
MAX_CHARS = 400_000
MAX_PAUSE_S = 30.0
TOTAL = 10  # an answer as a whole may take this many times the silence that is allowed


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens (``url`` up to ``/v1``), its key, how long its silence may last and how often it is asked again."""

    url: str
    key: str = field(default="", repr=False)
    timeout_s: float = 120.0
    retries: int = 2
    backoff_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer. ``finish`` is the server's word (stop, length, ...) or ``loop``. ``tokens`` are (text, log-probability)
    of each token, ``token_ids`` and ``prompt_ids`` their ids; all empty where the server does not tell. ``usage`` counts
    tokens."""

    text: str
    finish: str
    model: str = ""
    tokens: tuple[tuple[bytes, float], ...] = ()
    token_ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)


class ChatClient:
    """Asks one server. Safe to use from several threads."""

    def __init__(self, endpoint: Endpoint, *, pause: Callable[[float], None] = time.sleep) -> None:
        import httpx

        self.endpoint, self._pause = endpoint, pause
        if not endpoint.url.startswith(("http://", "https://")):
            raise ModelUnavailableError("a model server needs an address such as http://127.0.0.1:8000/v1")
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        limit = endpoint.timeout_s
        timeout = httpx.Timeout(limit, connect=min(limit, 10.0))
        self._http = httpx.Client(base_url=endpoint.url.rstrip("/") + "/", headers=headers, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def complete(self, body: Mapping[str, Any]) -> Completion:
        """One chat completion. Raises ModelUnavailableError, ModelTimeoutError, ModelResponseError or ModelStreamError."""
        for attempt in range(self.endpoint.retries + 1):
            try:
                return self._once(body)
            except ModelError as error:
                if attempt == self.endpoint.retries or not _passes(error):
                    raise
                wait = getattr(error, "wait_s", None) or self.endpoint.backoff_s * 2**attempt * random.uniform(0.8, 1.2)
                self._pause(min(MAX_PAUSE_S, wait))
        raise AssertionError("unreachable")

    def _once(self, body: Mapping[str, Any]) -> Completion:
        import httpx

        whole = {**body, "stream": True, "stream_options": {"include_usage": True}}
        try:
            with self._http.stream("POST", "chat/completions", json=whole) as response:
                if response.status_code != 200:
                    raise _refusal(response)
                if "text/event-stream" not in response.headers.get("content-type", ""):
                    response.read()
                    return _plain(response.text)
                return _collect(_events(response, self.endpoint.timeout_s * TOTAL))
        except httpx.TimeoutException as error:
            connecting = isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            kind = ModelUnavailableError if connecting else ModelTimeoutError
            raise kind(f"the model server was silent for {self.endpoint.timeout_s:g} seconds") from error
        except httpx.ConnectError as error:
            raise ModelUnavailableError("the model server cannot be reached: is it running at this address?") from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise ModelStreamError("the model server closed the connection in the middle of an answer") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelUnavailableError(f"the model server cannot be asked: {type(error).__name__}") from error


def _passes(error: ModelError) -> bool:
    if isinstance(error, ModelResponseError):
        return error.status in PASSING
    return isinstance(error, ModelUnavailableError | ModelStreamError)


class _Later(ModelResponseError):
    """A refusal that says when to come back."""

    def __init__(self, message: str, status: int = 0, wait_s: float | None = None) -> None:
        super().__init__(message, status)
        self.wait_s = wait_s


def _refusal(response: httpx.Response) -> ModelResponseError:
    status = response.status_code
    told = response.headers.get("retry-after", "")
    wait = float(told) if told.isascii() and told.isdigit() else None
    why = {
        401: ": its key is missing or wrong",
        403: ": its key may not",
        404: ": no such model or address",
        429: ": too many requests",
    }
    return _Later(f"the model server answered {status}{why.get(status, '')}", status, wait)


def _events(response: httpx.Response, limit_s: float) -> Iterator[dict[str, Any]]:
    """The objects of a server-sent stream. Raises ModelTimeoutError when it drips on for too long."""
    ends = time.monotonic() + limit_s
    for line in response.iter_lines():
        if time.monotonic() > ends:
            raise ModelTimeoutError(f"the model server did not finish its answer within {limit_s:g} seconds")
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        yield _object(data)


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ModelResponseError("the model server did not answer with chat completions")
    if isinstance(data.get("error"), dict):
        raise ModelResponseError("the model server failed in the middle of an answer", 500)
    return data


def _collect(events: Iterator[dict[str, Any]]) -> Completion:
    """Join a stream's pieces, and stop it where it repeats itself."""
    text: list[str] = []
    tokens: list[tuple[bytes, float]] = []
    token_ids: list[int] = []
    prompt_ids: list[int] = []
    usage: dict[str, int] = {}
    finish, model, chars = "", "", 0
    watch = LoopWatch()
    try:
        for event in events:
            model = str(event.get("model") or model)
            usage |= _usage(event)
            prompt_ids += _ids(event.get("prompt_token_ids"))
            for choice in event.get("choices") or []:
                piece = str((choice.get("delta") or {}).get("content") or "")
                text.append(piece)
                chars += len(piece)
                tokens += _tokens(choice)
                token_ids += _ids(choice.get("token_ids"))
                finish = str(choice.get("finish_reason") or finish)
                if not finish and any(watch.push(ord(character)) for character in piece):
                    finish = "loop"
                elif not finish and chars > MAX_CHARS:
                    finish = "length"
            if finish in ("loop", "length") and not usage:
                break
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError):
        raise ModelResponseError("the model server did not answer with chat completions") from None
    if not finish:
        raise ModelStreamError("the model server ended an answer without finishing it")
    return Completion("".join(text), finish, model, tuple(tokens), tuple(token_ids), tuple(prompt_ids), usage)


def _plain(text: str) -> Completion:
    """The answer of a server that does not stream."""
    data = _object(text)
    try:
        choice = data["choices"][0]
        return Completion(
            text=str(choice["message"]["content"] or ""),
            finish=str(choice.get("finish_reason") or "stop"),
            model=str(data.get("model") or ""),
            tokens=tuple(_tokens(choice)),
            token_ids=tuple(_ids(choice.get("token_ids"))),
            prompt_ids=tuple(_ids(data.get("prompt_token_ids"))),
            usage=_usage(data),
        )
    except (AttributeError, TypeError, ValueError, KeyError, IndexError, OverflowError):
        raise ModelResponseError("the model server did not answer with a chat completion") from None


def _tokens(choice: Mapping[str, Any]) -> list[tuple[bytes, float]]:
    content = (choice.get("logprobs") or {}).get("content") or []
    return [(bytes(t["bytes"]) if t.get("bytes") is not None else str(t["token"]).encode(), float(t["logprob"])) for t in content]


def _ids(value: Any) -> list[int]:
    return [int(i) for i in value] if isinstance(value, list) else []


def _usage(data: Mapping[str, Any]) -> dict[str, int]:
    told = data.get("usage") or {}
    return {key: int(told[key]) for key in ("prompt_tokens", "completion_tokens") if isinstance(told.get(key), int)}
