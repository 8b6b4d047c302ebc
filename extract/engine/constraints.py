"""Answers bound by a grammar, where a server offers it: the labels of the type as keys, texts or null as values, nothing after.

A grammar lets the model reason first; a JSON schema binds the whole answer and leaves no room for reasoning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def answer_schema(labels: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer: no key is required, since what is not printed is left out."""
    value = {"type": ["string", "null"]}
    return {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(labels, value)}


def answer_grammar(labels: Sequence[str]) -> str:
    """A GBNF grammar (xgrammar, llama.cpp): text without braces, then one object whose keys are among the labels."""
    keys = " | ".join(json.dumps(json.dumps(label, ensure_ascii=False), ensure_ascii=False) for label in labels)
    return "\n".join(
        [
            "root ::= [^{}]* object",
            'object ::= "{" (pair (", " pair)*)? "}"',
            'pair ::= key ": " value',
            f"key ::= {keys}",
            'value ::= text | "null"',
            r'text ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" hex hex hex hex))* "\""',
            "hex ::= [0-9a-fA-F]",
        ]
    )
