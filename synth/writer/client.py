"""A language model writes the words of a page through any OpenAI-compatible endpoint; what it writes is checked, never
trusted."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from certloop.synth.config import WriterConfig
from certloop.synth.errors import WriterError
from certloop.synth.fields import Fact, Firm
from certloop.synth.layout import Layout
from certloop.synth.writer.schema import json_schema, problems, request_text, wanted_fields


@dataclass(frozen=True, slots=True)
class Written:
    """``facts`` with the model's words, or the grammar's where it failed; ``fallback`` says why (empty: the model wrote them)."""

    facts: dict[str, Fact]
    firm: Firm
    attempts: int
    fallback: str = ""


def write_values(config: WriterConfig, layout: Layout, facts: Mapping[str, Fact], firm: Firm, seed: int) -> Written:
    """Ask for values until they pass, at most ``config.attempts`` times; then keep the grammar's and say so in ``fallback``."""
    wanted = wanted_fields(facts, layout.fields)
    if not wanted:
        return Written(dict(facts), firm, 0)
    messages = [{"role": "user", "content": request_text(layout.title, firm, wanted, layout.longest_scope)}]
    reasons: list[str] = []
    for attempt in range(config.attempts):
        try:
            answer = ask(config, messages, json_schema(wanted), seed + attempt)
        except WriterError as error:
            reasons = [error.message]
            continue
        reasons = problems(answer, wanted, firm.place, layout.longest_scope)
        if not reasons:
            values = {k: str(v).strip() for k, v in json.loads(answer).items()}
            name = next((values[k] for k in ("name", "operator", "producer", "principal") if k in values), firm.name)
            person = replace(firm.person, name=values.get("person", firm.person.name))
            return Written({**facts, **values}, replace(firm, name=name, person=person), attempt + 1)
        messages = [
            messages[0],
            {"role": "assistant", "content": answer},
            {"role": "user", "content": "不符合要求：" + "；".join(reasons) + "。请重新输出。"},
        ]
    return Written(dict(facts), firm, config.attempts, fallback="; ".join(reasons))


def ask(config: WriterConfig, messages: list[dict[str, str]], schema: dict[str, Any], seed: int) -> str:
    """One chat completion with a JSON schema. Raises WriterError (code value_writer_failed) when the endpoint is down or
    answers nonsense."""
    body = {
        "model": config.model,
        "messages": messages,
        "seed": seed % 2**31,
        "temperature": 1.0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "values", "strict": True, "schema": schema}},
    }
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {config.api_key}"} if config.api_key else {})}
    request = urllib.request.Request(f"{config.url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers)  # noqa: S310 - WriterConfig checks the scheme
    try:
        with urllib.request.urlopen(request, timeout=config.timeout_s) as response:  # noqa: S310
            data = json.loads(response.read(1 << 20))
        return str(data["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as error:
        raise WriterError(f"the value writer's endpoint answered {error.code}") from error
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise WriterError(f"the value writer's endpoint cannot be reached: {getattr(error, 'reason', error)}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise WriterError("the value writer's endpoint did not answer with a chat completion") from error
