"""``certloop confidence`` on the database of a service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from certloop.cli import main
from tests.serve.audit_world import less_sure, licence, open_world


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    with pytest.raises(SystemExit) as ended:
        main(["confidence", *words])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(out) if out else None, err


def test_what_passes_is_shown_and_a_fit_is_made_and_put_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'serve.db'}"
    monkeypatch.setenv("CERTLOOP_DATABASE_URL", url)
    code, _, words = run(capsys, "show", "--tenant", "acme")
    assert code == 2 and "no database" in words
    with open_world(tmp_path) as world:
        for number in range(40):
            certificate = world.certificate(less_sure(licence(0.99), "address", 0.3 + number / 100))
            if number < 30:
                with world.as_("ann") as ann:
                    assert ann.post(f"/v1/reviews/{certificate}/approve", headers={"If-Match": '"2"'}).status_code == 200
    code, shown, _ = run(capsys, "show", "--tenant", "acme")
    assert code == 0 and (shown["certificates"], shown["version"]) == (40, "builtin-1")
    assert [version["version"] for version in shown["versions"]] == ["builtin"]
    code, made, _ = run(capsys, "fit", "--tenant", "acme", "--activate")
    assert code == 0 and made["active"] and made["fields"] == 210
    assert run(capsys, "show", "--tenant", "acme", "--last", "5")[1]["version"] == made["version"]
    assert run(capsys, "activate", "builtin", "--tenant", "acme")[1]["active"]
    code, _, words = run(capsys, "fit", "--tenant", "other")
    assert code == 2 and "error[calibration_invalid]" in words
    code, _, words = run(capsys, "show", "--tenant", "nobody")
    assert code == 2 and "error[not_found]" in words
    code, _, words = run(capsys, "activate", "cal_0", "--tenant", "acme")
    assert code == 2 and "error[not_found]" in words


def test_the_judge_of_messages_comes_from_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from certloop.errors import UsageError
    from certloop.settings import Settings

    assert Settings.load().serve_config().judge is None
    key = tmp_path / "key"
    key.write_text("secret-key\n")
    monkeypatch.setenv("CERTLOOP_JUDGE_URL", "http://127.0.0.1:8000/v1")
    with pytest.raises(UsageError, match="CERTLOOP_JUDGE_MODEL"):
        Settings.load().serve_config()
    monkeypatch.setenv("CERTLOOP_JUDGE_MODEL", "qwen")
    monkeypatch.setenv("CERTLOOP_JUDGE_KEY_FILE", str(key))
    judge = Settings.load().serve_config().judge
    assert judge is not None and (judge.model, judge.api_key) == ("qwen", "secret-key") and "secret-key" not in repr(judge)
    monkeypatch.setenv("CERTLOOP_JUDGE_KEY_FILE", str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="CERTLOOP_JUDGE_KEY_FILE"):
        Settings.load().serve_config()
