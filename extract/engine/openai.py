"""A model behind an OpenAI-compatible server: the model of the engine ``openai``.

Pages leave this process here, as exact PNGs, for the server that the settings name. Beyond the common protocol a server is
asked for log-probabilities, token ids (vLLM's ``return_token_ids``) and a grammar (vLLM's ``structured_outputs``); one that
refuses these extras is asked again without them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certloop.extract.config import ModelConfig
from certloop.extract.engine.chat_client import ChatClient, Completion, Endpoint
from certloop.extract.engine.constraints import answer_grammar, answer_schema
from certloop.extract.engine.contract import LEAST_LOGPROB, Finish, Image, ModelAnswer, Question
from certloop.extract.engine.errors import ModelResponseError, ModelUnavailableError
from certloop.extract.engine.view import View, png_bytes

REFUSED = frozenset({400, 404, 422})
RAW = (0.0, 1.0)
"""Temperatures at which a server's log-probabilities are those of the distribution it sampled from (at 0: of temperature 1)."""
CONSTRAINTS = ("auto", "grammar", "schema", "none")


class OpenAiModel:
    """Asks a server about one question after the other."""

    def __init__(self, config: ModelConfig) -> None:
        if not config.url or not config.model:
            raise ModelUnavailableError("the engine openai needs CERTLOOP_MODEL_URL and CERTLOOP_MODEL (the server's name of it)")
        self.config = config
        self.name = config.model
        self._view = View(max_pixels=config.max_pixels) if config.max_pixels else View()
        key = read_key(config.key_file)
        self._client = ChatClient(Endpoint(config.url, key, config.timeout_s, config.retries))
        self._extras = True

    @property
    def view(self) -> View:
        return self._view

    def answer(self, questions: Sequence[Question]) -> list[ModelAnswer]:
        return [self._ask(question) for question in questions]

    def close(self) -> None:
        self._client.close()

    def _ask(self, question: Question) -> ModelAnswer:
        body = self._body(question)
        constraint = _constraint(self.config.constraint, question.labels)
        optional = {"logprobs": True, "return_token_ids": True, **(constraint if self.config.constraint == "auto" else {})}
        if self.config.temperature > 0:
            optional["top_k"] = -1
        fixed = body | (constraint if self.config.constraint != "auto" else {})
        if not self._extras:
            return self._answer(question, self._client.complete(fixed), bound=self.config.constraint in ("grammar", "schema"))
        try:
            return self._answer(question, self._client.complete(fixed | optional), bound=bool(constraint))
        except ModelResponseError as error:
            if error.status not in REFUSED:
                raise
        found = self._client.complete(fixed)
        self._extras = False  # it was the extras, and they stay off for this server
        return self._answer(question, found, bound=self.config.constraint in ("grammar", "schema"))

    def _body(self, question: Question) -> dict[str, Any]:
        """Without ``top_p`` a server takes the one that the model's files recommend, and the log-probabilities that it tells are
        not those of what it samples from; ``top_k`` likewise, which not every server knows."""
        whole = {"top_p": 1.0} if self.config.temperature > 0 else {}
        return whole | {
            "model": question.adapter or self.config.adapter or self.config.model,
            "messages": [chat_message(question.prompt, question.images)],
            "max_tokens": self.config.max_tokens,
            "temperature": self.config.temperature,
            "seed": self.config.seed,
        }

    def _answer(self, question: Question, found: Completion, *, bound: bool) -> ModelAnswer:
        finish = {"stop": Finish.STOP, "loop": Finish.LOOP}.get(found.finish, Finish.LENGTH)
        offsets = token_offsets(found)
        sampled = self.config.temperature in RAW and len(found.token_ids) == len(found.tokens)
        constraint = self.config.constraint if self.config.constraint != "auto" else "grammar"
        return ModelAnswer(
            text=found.text,
            finish=finish,
            model=self.name,
            adapter=question.adapter or self.config.adapter or None,
            prompt_ids=found.prompt_ids if sampled else (),
            token_ids=found.token_ids if sampled else (),
            logprobs=tuple(max(LEAST_LOGPROB, min(0.0, p)) for _, p in found.tokens) if offsets else (),
            offsets=offsets,
            temperature=self.config.temperature,
            constraint=constraint if bound else None,
            usage=found.usage,
        )


def chat_message(prompt: str, images: Sequence[Image]) -> dict[str, Any]:
    """The user's turn with its images before the text, as servers take it."""
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return {"role": "user", "content": [*parts, {"type": "text", "text": prompt}]}


def data_url(image: Image) -> str:
    return "data:image/png;base64," + base64.b64encode(png_bytes(image)).decode()


def read_key(key_file: str) -> str:
    """A server's key from its file; nothing where no file is named. Raises ModelUnavailableError when it cannot be read."""
    if not key_file:
        return ""
    try:
        return Path(key_file).expanduser().read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelUnavailableError(f"the key file of the model server cannot be read: {type(error).__name__}") from None


def token_offsets(found: Completion) -> tuple[tuple[int, int], ...]:
    """The characters each token covers; empty where the tokens do not add up to the text (an end mark has no text)."""
    spans, place, data = [], 0, b""
    ends = [0]
    for character in found.text:
        ends.append(ends[-1] + len(character.encode("utf-8", "surrogatepass")))
    wanted = found.text.encode("utf-8", "surrogatepass")
    for written, _ in found.tokens:
        first = len(data)
        data += written
        if data != wanted[: len(data)]:
            if first >= len(wanted):
                spans.append((len(found.text), len(found.text)))
                data = data[:first]
                continue
            return ()
        while ends[place + 1 :] and ends[place + 1] <= first:
            place += 1
        last = place
        while last < len(found.text) and ends[last] < len(data):
            last += 1
        spans.append((place, last))
    return tuple(spans) if data == wanted else ()


def _constraint(kind: str, labels: Sequence[str]) -> dict[str, Any]:
    if kind == "none" or not labels:
        return {}
    if kind == "schema":
        schema = {"name": "certificate", "schema": answer_schema(labels)}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {"structured_outputs": {"grammar": answer_grammar(labels)}}
