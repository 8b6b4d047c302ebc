"""``certloop trajectories`` and ``certloop store``, as an operator types them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from certloop import CertloopError
from certloop.agentrl.signals.emit import Origin, review_signals
from certloop.agentrl.store import EventError, LocalBlobs, Store, add_signals, expired_documents, read_key
from certloop.agentrl.trajectory import Consent, Role, Segment, Trajectory
from certloop.cli import app

Make = Callable[..., Trajectory]
PNG = b"\x89PNG page"


@dataclass
class Shell:
    folder: Path
    url: str

    def __call__(self, *arguments: str, stdin: str | None = None) -> Any:
        return CliRunner().invoke(app, list(arguments), input=stdin, env={"CERTLOOP_DATABASE_URL": self.url})

    def out(self, *arguments: str, code: int = 0, stdin: str | None = None) -> str:
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == code, f"{result.output} {result.exception!r}"
        return str(result.stdout)

    def error(self, *arguments: str) -> str:
        """The code of the error; ``main`` prints it and exits with 2 (tests/certloop)."""
        result = self(*arguments)
        assert isinstance(result.exception, CertloopError), result.output
        return result.exception.code


@pytest.fixture
def shell(tmp_path: Path, make_trajectory: Make) -> Shell:
    """A store of two licences: one approved after an edit, one not consented."""
    url = f"sqlite:///{tmp_path}/data/store.db"
    with Store.open(url) as store:
        tenant = store.for_tenant("default")
        image = tenant.put_blob(PNG)
        fields = {"tenant_id": "default", "doc_type": "business_licence", "image_sha256": (image,)}
        with tenant.batch("test") as batch:
            batch.add_trajectory(make_trajectory("t-1", **fields), subjects=["张样本"])
            batch.add_trajectory(make_trajectory("t-2", **fields | {"consent": Consent.NONE, "image_sha256": ()}))
        said = review_signals(
            Origin("t-1", "auditor-7", "2026-03-02T08:00:00+00:00"),
            {"owner": "张样本", "part": "A-17"},
            {"owner": "张样本", "part": "A-18"},
        )
        add_signals(tenant, said, "auditor-7")
    return Shell(tmp_path, url)


def test_list_shows_no_value_of_a_document(shell: Shell) -> None:
    lines = shell.out("trajectories", "list").splitlines()
    assert [line.split()[0] for line in lines] == ["t-1", "t-2"]
    assert "张样本" not in "".join(lines)
    rows = [json.loads(line) for line in shell.out("trajectories", "list", "--json").splitlines()]
    assert 0 < rows[0]["reward"] < 1  # one of two fields was edited
    assert (rows[1]["reward"], rows[1]["consent"]) == (None, "none")
    assert shell.out("trajectories", "list", "--min-reward", "0.9") == ""
    assert len(shell.out("trajectories", "list", "--limit", "1").splitlines()) == 1


def test_show_is_redacted_unless_revealed_and_revealing_is_on_record(shell: Shell) -> None:
    shown = shell.out("trajectories", "show", "t-1")
    assert "look" in shown
    assert "[value]" in shown
    assert "张样本" not in shown
    assert "张样本" not in shell.out("trajectories", "show", "t-1", "--json")
    revealed = json.loads(shell.out("trajectories", "show", "t-1", "--json", "--reveal"))
    assert "张样本" in revealed["trajectory"]["final_json"]
    with Store.open(shell.url) as store:
        last = list(store.for_tenant("default").audit_rows())[-1]
    assert (last.action, last.details) == ("reveal", {"trajectory": "t-1"})
    assert last.actor.startswith("cli:uid-")


@pytest.mark.parametrize("rows", ["trl", "trl-completion", "trl-prompt", "swift", "tinker", "jsonl"])
def test_export_writes_consented_approved_rows(shell: Shell, rows: str) -> None:
    target = shell.folder / "out" / "rows.jsonl"
    target.parent.mkdir()
    shell.out("trajectories", "export", "--format", rows, "--output", str(target))
    (row,) = [json.loads(line) for line in target.read_text().splitlines()]
    if rows == "tinker":
        assert set(row) == {"model_input", "loss_fn_inputs"}
    elif rows == "jsonl":
        assert row["trajectory"]["traj_id"] == "t-1"
    else:
        assert '"A-18"' in json.dumps(row).replace('\\"', '"')
        assert Path(row["images"][0]).read_bytes() == PNG
    assert [p.name for p in target.parent.iterdir() if p.suffix == ".partial"] == []


def test_tinker_rows_of_a_model_that_sees_hold_its_pages(shell: Shell, make_trajectory: Make) -> None:
    """METHODS §1.2's 31 tokens with a picture of 16 before them; such tokens without the picture would teach nonsense."""
    plain = make_trajectory()
    head = Segment(Role.USER, 0, 16)
    moved = tuple(Segment(s.role, s.start + 16, s.end + 16) for s in plain.segments)
    with Store.open(shell.url) as store:
        tenant = store.for_tenant("default")
        seen: dict[str, Any] = {"tenant_id": "default", "image_sha256": (tenant.put_blob(PNG),), "segments": (head, *moved)}
        seen |= {"token_ids": (7,) * 16 + plain.token_ids, "loss_mask": (0,) * 16 + plain.loss_mask, "steps": ()}
        seen |= {"logprobs": (None,) * 16 + plain.logprobs, "doc_type": "seen"}
        with tenant.batch("test") as batch:
            batch.add_trajectory(make_trajectory("t-3", **seen))
        add_signals(tenant, review_signals(Origin("t-3", "auditor-7", "2026-03-02T08:00:00+00:00"), {"a": "b"}, {"a": "b"}), "a")
    command = ("trajectories", "export", "--format", "tinker", "--type", "seen")
    assert shell.error(*command) == "usage"
    (row,) = [json.loads(line) for line in shell.out(*command, "--image-token", "7").splitlines()]
    first, second = row["model_input"]["chunks"]
    assert (base64.b64decode(first["data"]), first["format"], first["expected_tokens"]) == (PNG, "png", 16)
    assert second["tokens"] == list(plain.token_ids[:-1])


def test_a_purpose_narrows_and_a_cut_list_says_so(shell: Shell) -> None:
    assert len(shell.out("trajectories", "list", "--purpose", "training").splitlines()) == 2
    assert shell.out("trajectories", "list", "--purpose", "advertising") == ""
    sets = str(shell.folder / "sets")
    rows = {
        w: json.loads(shell.out("trajectories", "snapshot", sets, "--json", "--purpose", w))["rows"] for w in ("training", "x")
    }
    assert rows == {"training": 1, "x": 0}
    assert shell.out("trajectories", "export", "--format", "jsonl", "--purpose", "x") == ""
    assert "first 1; --limit" in shell("trajectories", "list", "--limit", "1").stderr
    assert shell("trajectories", "list", "--limit", "2").stderr == ""


def test_snapshot(shell: Shell) -> None:
    made = json.loads(shell.out("trajectories", "snapshot", str(shell.folder / "sets"), "--json"))
    assert made["rows"] == 1
    assert (Path(made["folder"]) / "part-00000.parquet").exists()


def test_verify_says_what_is_wrong_and_exits_1(shell: Shell) -> None:
    report = json.loads(shell.out("store", "verify", "--json"))
    assert report["clean"]
    pinned = shell.folder / "heads.json"
    pinned.write_text(json.dumps(report))
    assert "as written" in shell.out("store", "verify", "--heads", str(pinned))
    next((shell.folder / "data" / "blobs" / "default").rglob("*/*")).unlink()
    assert "blob_missing" in shell.out("store", "verify", code=1)
    assert shell.error("store", "verify", "--heads", str(shell.folder / "none.json")) == "usage"


def test_verify_of_a_damaged_file_is_a_finding(shell: Shell) -> None:
    file = shell.folder / "data" / "store.db"
    file.write_bytes(file.read_bytes()[:100] + b"\0" * 8000)
    assert "page_damaged" in shell.out("store", "verify", code=1)


def test_a_password_in_an_address_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    from certloop.settings import Settings

    monkeypatch.setenv("CERTLOOP_DATABASE_URL", "postgresql://app:secret@db/certloop")
    assert Settings.load().database_url == "postgresql://app:secret@db/certloop"
    assert Settings.load().model_dump(mode="json")["database_url"] == "postgresql://app:***@db/certloop"


def test_backup_erase_restore(shell: Shell) -> None:
    backup = str(shell.folder / "backup")
    assert "1 tenants and 1 blobs" in shell.out("store", "backup", backup)
    assert "add --yes" in shell.out("store", "erase", "--subject", "张样本")
    done = json.loads(shell.out("store", "erase", "--subject", "-", "--yes", "--json", stdin="张样本\n"))
    assert (done["erased"], done["blobs"], len(done["documents"])) == (True, 1, 1)
    assert shell.error("trajectories", "show", "t-1") == "erased"
    assert "0 erasures finished" in shell.out("store", "erase", "--resume")
    fresh = f"sqlite:///{shell.folder}/new/store.db"
    said = shell.out("store", "restore", backup, "--store", fresh, "--journal", str(shell.folder / "data" / "blobs"))
    assert "1 documents erased again" in said
    assert [line.split()[0] for line in shell.out("trajectories", "list", "--store", fresh).splitlines()] == ["t-2"]
    assert shell.error("store", "restore", backup, "--store", fresh) == "backup_invalid"


def test_consent_is_given_and_withdrawn_later(shell: Shell) -> None:
    def rows() -> int:
        return int(json.loads(shell.out("trajectories", "snapshot", str(shell.folder / "sets"), "--json"))["rows"])

    assert rows() == 1
    assert shell.out("store", "consent", "tenant", "--trajectory", "t-2", "--purpose", "试用") == "1 documents: tenant\n"
    assert rows() == 2
    assert "consent tenant" in shell.out("trajectories", "show", "t-2"), "what is in force, not what it was recorded with"
    shell.out("store", "consent", "tenant", "--trajectory", "t-2")
    assert len(shell.out("trajectories", "list", "--purpose", "试用").splitlines()) == 1, "what it was given for stays"
    said = json.loads(
        shell.out("store", "consent", "none", "--subject", "-", "--purpose", "asked by mail", "--json", stdin="张样本\n")
    )
    assert (len(said["documents"]), said["consent"]) == (1, "none")
    assert rows() == 1
    assert shell.error("store", "consent", "none", "--subject", "nobody") == "not_found", "a mistyped name withdraws nothing"
    assert shell.error("store", "consent", "none") == "usage"
    assert shell.error("store", "consent", "none", "--document", "x") == "not_found"
    shell.out("store", "erase", "--trajectory", "t-1", "--yes")
    assert shell.error("store", "consent", "tenant", "--trajectory", "t-1") == "erased"
    assert shell("store", "consent", "all", "--trajectory", "t-2").exit_code == 2


def test_an_erasure_cut_short_is_said_until_it_is_finished(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again, the subject is found no more: its events are empty, its image may still be there."""

    def die(*_: object) -> None:
        raise OSError("the process died")

    with monkeypatch.context() as patch:
        patch.setattr(LocalBlobs, "delete", die)
        assert shell("store", "erase", "--subject", "张样本", "--yes").exit_code != 0
    again = shell("store", "erase", "--subject", "张样本", "--yes")
    assert "0 documents found" in again.stdout
    assert "1 erasures were cut short" in again.stderr
    assert "1 erasures finished" in shell.out("store", "erase", "--resume")
    assert shell("store", "erase", "--subject", "张样本").stderr == ""
    assert "as written" in shell.out("store", "verify")


def test_a_sealed_store_needs_its_key_file(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    key = shell.folder / "key"
    key.write_bytes(base64.b64encode(b"k" * 32))
    shell.url = f"sqlite:///{shell.folder}/sealed/store.db"
    Store.open(shell.url, cipher=read_key(key)).close()
    assert shell.error("store", "verify") == "store_key"
    monkeypatch.setenv("CERTLOOP_STORE_KEY_FILE", str(shell.folder / "nokey"))
    assert shell.error("store", "verify") == "store_key"
    monkeypatch.setenv("CERTLOOP_STORE_KEY_FILE", str(key))
    shell.out("store", "verify")


def test_a_type_that_is_not_known_is_refused_and_what_is_left_out_is_explained(shell: Shell) -> None:
    for command in (["list"], ["export"], ["snapshot", str(shell.folder / "sets")]):
        assert shell.error("trajectories", *command, "--type", "busines_licence") == "unknown_type"
    assert not (shell.folder / "sets").exists()
    assert shell.out("trajectories", "list", "--type", "drug_operation_permit") == "", "known, and nothing of it is here"
    shell.out("trajectories", "list", "--type", "unknown")
    output = ("--output", str(shell.folder / "rows.jsonl"))
    said = shell("trajectories", "export", *output).stderr
    assert "(--unapproved takes them" in said
    assert f"pages in {shell.folder / 'images'}" in said
    assert "(--unapproved" not in shell("trajectories", "export", "--unapproved", *output).stderr


def test_sweep(shell: Shell) -> None:
    assert "0 images" in shell.out("store", "sweep")
    with Store.open(shell.url) as store:
        store.for_tenant("default").put_blob(b"nobody names this")
    assert "1 images" in shell.out("store", "sweep", "--older-than-hours", "0")


def test_sweep_and_verify_look_at_all_tenants_or_at_one(shell: Shell) -> None:
    with Store.open(shell.url) as store:
        for tenant in ("acme", "other"):
            store.for_tenant(tenant).put_blob(b"nobody names this")
    assert [json.loads(shell.out("store", "verify", "--json", *tenant))["orphans"] for tenant in ((), ("--tenant", "acme"))] == [
        2,
        1,
    ]
    assert "1 images" in shell.out("store", "sweep", "--older-than-hours", "0", "--tenant", "acme")
    assert "1 images" in shell.out("store", "sweep", "--older-than-hours", "0")


def test_retention(shell: Shell) -> None:
    assert "0 documents" in shell.out("store", "erase", "--older-than-days", "30")
    assert "2 documents" in shell.out("store", "erase", "--older-than-days", "0", "--yes")


def test_commands_that_make_no_sense(shell: Shell) -> None:
    assert shell.error("store", "erase") == "usage"
    assert shell.error("store", "erase", "--subject", "x", "--document", "y") == "usage"
    assert shell.error("trajectories", "list", "--tenant", "nobody") == "usage"
    assert shell.error("trajectories", "show", "unknown") == "not_found"
    assert shell.error("trajectories", "list", "--since", "yesterday") == "event_invalid"
    assert shell.error("store", "verify", "--store", f"sqlite:///{shell.folder}/none.db") == "store_unavailable"
    assert shell.error("store", "verify", "--store", "oracle://x") == "store_url_invalid"
    assert shell.error("trajectories", "export", "--output", str(shell.folder / "no" / "rows.jsonl")) == "usage"
    with Store.open(shell.url) as store:
        assert store.tenants() == ("default",)


def test_an_empty_name_is_not_the_default(shell: Shell, root: Path) -> None:
    """As in ``--tenant "$TENANT"`` where nobody set it: a document must not end up with somebody else."""
    example = str(root / "examples" / "identity_card_front.jpg")
    assert shell.error("extract", example, "--store", shell.url, "--tenant", "") == "tenant_invalid"
    for command in (("trajectories", "list"), ("store", "verify"), ("store", "restore", str(shell.folder))):
        assert shell.error(*command, "--store", "") in {"store_url_invalid", "backup_invalid"}
    with Store.open(shell.url) as store:
        assert len(list(store.for_tenant("default").trajectories())) == 2


def test_a_foreign_name_is_not_told_who_is_there(shell: Shell) -> None:
    for command in (("trajectories", "list"), ("store", "erase", "--document", "x"), ("store", "sweep"), ("store", "verify")):
        said = shell(*command, "--tenant", "nobody").exception
        assert isinstance(said, CertloopError)
        assert said.message == "the store has no tenant 'nobody'"


@pytest.mark.parametrize(
    "command",
    [
        ("trajectories", "show", "\udcff"),
        ("store", "erase", "--document", "\udcff"),
        ("store", "erase", "--trajectory", "\udcff"),
    ],
)
def test_a_name_that_is_no_text_is_not_found(shell: Shell, command: tuple[str, ...]) -> None:
    assert shell.error(*command) == "not_found"


def test_a_retention_of_ages_is_refused(shell: Shell) -> None:
    for days in ("99999999999999", "inf", "nan", "-1"):
        done = shell("store", "erase", "--older-than-days", days)
        assert (done.exit_code, done.exception.__class__) == (2, SystemExit), days
    with Store.open(shell.url) as store:
        for keep_days in (1e14, float("nan"), -1.0):
            with pytest.raises(EventError, match="0 to 36500 days"):
                expired_documents(store.for_tenant("default"), keep_days=keep_days)


@pytest.mark.parametrize("kind", ["sqlite", "portable"])
def test_a_backup_without_a_place_says_so(shell: Shell, kind: str) -> None:
    (shell.folder / "file").write_bytes(b"")
    for place in ("file", "file/x"):
        assert shell.error("store", "backup", str(shell.folder / place), "--kind", kind) == "backup_invalid"
    shell.out("store", "backup", str(shell.folder / "good"), "--kind", "sqlite")
    url = f"sqlite:///{shell.folder}/file/x.db"
    assert shell.error("store", "restore", str(shell.folder / "good"), "--store", url) == "backup_invalid"


def test_images_without_a_place_say_so(shell: Shell) -> None:
    assert shell.error("trajectories", "export", "--images", "/dev/null/x") == "export_invalid"


def test_an_sqlite_address_has_no_options(shell: Shell, recwarn: pytest.WarningsRecorder) -> None:
    for options in ("mode=memory", "uri=true&mode=ro", "x=1"):
        assert shell.error("store", "verify", "--store", f"{shell.url}?{options}") == "store_url_invalid"
    assert not recwarn.list
