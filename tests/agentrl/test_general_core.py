"""The core knows no domain: nothing in it speaks of certificates, and none of its modules reaches for another room."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(p for p in (ROOT / "agentrl").rglob("*") if p.suffix in (".py", ".toml", ".json", ".md", ".sql", ".mako"))
WORDS = re.compile(
    r"(?i)\b(certificates?|licen[cs]es?|permits?|ocr|uscc|id[ _]cards?)\b|credit_code|"
    "证照|证件|执照|许可|身份证|营业|信用代码|注册号|注册资本|法人|法定代表|住所|经营|开户|授权书|印章|红章|发证|成立日期|登记日期"
)


@pytest.mark.parametrize("file", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_word_of_a_certificate(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [match.group() for match in WORDS.finditer(text)] == []


@pytest.mark.parametrize("file", [f for f in FILES if f.suffix == ".py"], ids=lambda p: str(p.relative_to(ROOT)))
def test_no_other_room_is_imported_or_named(file: Path) -> None:
    """Also inside of functions, and by name (``importlib``, ``resources.files``), which an import linter cannot see."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    named = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    named |= {f"{node.module}.{a.name}" for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names}
    named |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    ours = {name for name in named if name.startswith("certloop.")}
    assert [name for name in ours if not name.startswith("certloop.agentrl") and not NO_MODULE.fullmatch(name)] == []
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), "imports are written in full"


NO_MODULE = re.compile(r"certloop\.[a-z]+/[0-9]+|certloop\.tenant")
"""Versions of schemas, and a setting of a database session."""
