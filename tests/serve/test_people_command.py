"""``certloop admin``: JSON on standard output, one line for what is wrong, nothing heavy for its help."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certloop.cli import main
from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.errors import UnauthenticatedError
from certloop.serve.people import keys, sessions
from certloop.serve.people.passwords import Backoff
from certloop.serve.people.roles import Permission

Run = Callable[..., Any]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    monkeypatch.setenv("CERTLOOP_DATABASE_URL", url)
    return url


@pytest.fixture
def run(database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The JSON that a command printed; with ``fails``, the line it wrote instead."""

    def go(*words: str, typed: str = "", fails: bool = False) -> Any:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        try:
            main(["admin", *words])
        except SystemExit as ended:
            assert (ended.code == 2) is fails, capsys.readouterr().err
        out = capsys.readouterr()
        return out.err.strip() if fails else json.loads(out.out)

    return go


def test_from_nothing_to_a_key_that_works_and_back(run: Run, database: str) -> None:
    assert run("tenant", "create", "acme", "--settings", '{"consent": "tenant"}')["settings"]["consent"] == "tenant"
    scopes = ("--scope", "documents:write", "--scope", "documents:read")
    made = run("key", "create", "--tenant", "acme", "--role", "operator", "--name", "uploads", *scopes, "--days", "30")
    turned = run("key", "rotate", made["key_id"], "--tenant", "acme", "--overlap-hours", "0")
    listed = run("key", "list", "--tenant", "acme")
    assert [row["key_id"] for row in listed] == [made["key_id"], turned["key_id"]]
    assert made["key"] not in json.dumps(listed)
    with Service.open(ServeConfig(database)) as service:
        known = keys.authenticate(service, turned["key"])
        assert known.actor.scopes == {Permission.DOCUMENTS_READ, Permission.DOCUMENTS_WRITE}
        assert known.settings.consent == "tenant"
        with pytest.raises(UnauthenticatedError, match="expired"):
            keys.authenticate(service, made["key"])
    assert run("key", "revoke", turned["key_id"], "--tenant", "acme")["revoked_at"] is not None
    assert run("tenant", "disable", "acme")["disabled_at"] is not None
    assert run("tenant", "enable", "acme")["disabled_at"] is None
    assert [tenant["tenant"] for tenant in run("tenant", "list")] == ["acme"]
    assert run("tenant", "set", "acme", "--settings", '{"rate_per_s": 5}')["settings"]["rate_per_s"] == 5


def test_a_password_comes_from_standard_input(run: Run, database: str) -> None:
    run("tenant", "create", "acme")
    user = run("user", "create", "auditor-7", "--tenant", "acme", "--role", "auditor", typed="a long sentence is best\n")
    assert user["has_password"]
    assert not run("user", "create", "robot", "--tenant", "acme", "--role", "operator", "--no-password")["has_password"]
    run("user", "password", user["user_id"], "--tenant", "acme", typed="another long sentence\n")
    assert run("user", "role", user["user_id"], "--tenant", "acme", "--role", "engineer")["role"] == "engineer"
    with Service.open(ServeConfig(database)) as service:
        session = sessions.log_in(service, "acme", "auditor-7", "another long sentence", "", Backoff())
        assert session.actor.role == "engineer"
    assert run("user", "disable", user["user_id"], "--tenant", "acme")["disabled_at"] is not None
    assert run("user", "enable", user["user_id"], "--tenant", "acme")["disabled_at"] is None
    assert [row["login"] for row in run("user", "list", "--tenant", "acme")] == ["auditor-7", "robot"]


def test_asking_makes_no_database_and_no_tenant(run: Run, tmp_path: Path) -> None:
    assert run("tenant", "list", fails=True).startswith("error[usage]: there is no database")
    assert list(tmp_path.iterdir()) == []
    run("tenant", "create", "acme")
    for words in (("key", "list"), ("user", "list"), ("key", "create", "--role", "operator", "--name", "k")):
        assert run(*words, "--tenant", "nobody", fails=True) == "error[not_found]: no tenant by this name"
    assert [tenant["tenant"] for tenant in run("tenant", "list")] == ["acme"]


def test_what_is_wrong_is_told_in_one_line(run: Run) -> None:
    run("tenant", "create", "acme")
    new_key = ("key", "create", "--tenant", "acme", "--name", "k")
    for words, code in (
        (("tenant", "create", "acme"), "conflict"),
        (("tenant", "create", "Acme!"), "tenant_invalid"),
        (("tenant", "set", "acme", "--settings", "{"), "usage"),
        (("tenant", "set", "acme", "--settings", '{"review": {"sampling": 2}}'), "tenant_settings"),
        ((*new_key, "--role", "chief"), "usage"),
        ((*new_key, "--role", "operator", "--scope", "everything"), "usage"),
        ((*new_key, "--role", "operator", "--scope", "admin"), "request_invalid"),
        (("key", "revoke", "key_1", "--tenant", "acme"), "not_found"),
        (("user", "create", "a b", "--tenant", "acme", "--role", "auditor", "--no-password"), "request_invalid"),
        (("user", "create", "ann", "--tenant", "acme", "--role", "auditor"), "request_invalid"),  # an empty password
    ):
        line = run(*words, fails=True)
        assert line.startswith(f"error[{code}]: "), line
        assert "\n" not in line


def test_help_loads_nothing_heavy() -> None:
    asked = "import sys\ntry:\n    from certloop.cli import main; main(['admin', '--help'])\nexcept SystemExit:\n    pass\n"
    code = asked + "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded.isdisjoint({"sqlalchemy", "fastapi", "dbos", "torch", "onnxruntime", "cv2", "numpy", "gradio"})
