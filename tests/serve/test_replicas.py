"""A release's adapter is on every replica or on none, under its own name and path. Servers speak vLLM's protocol over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from certloop.agentrl.release import ArtefactStore, Release
from certloop.serve.errors import ReplicaError
from certloop.serve.loop.replicas import Replicas


class Vllm(ThreadingHTTPServer):
    """What a vLLM server does with adapters at runtime: the base model and loaded adapters are listed, a name is loaded once, a
    path must be there, and without leave to update at runtime the routes do not exist."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.adapters: dict[str, str] = {}
        self.asked: list[str] = []
        self.runtime, self.broken, self.key = True, False, ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Vllm

    def log_message(self, *said: object) -> None: ...

    def do_GET(self) -> None:
        cards = [{"id": "base", "object": "model", "root": "base", "parent": None}]
        cards += [{"id": n, "object": "model", "root": p, "parent": "base"} for n, p in self.server.adapters.items()]
        self._say(200, json.dumps({"object": "list", "data": cards}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb, name = self.path.rpartition("/")[2], body["lora_name"]
        self.server.asked.append(f"{verb} {name}")
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            self._say(401, "{}")
        elif not self.server.runtime:
            self._say(404, json.dumps({"detail": "Not Found"}))
        elif verb == "load_lora_adapter":
            self._load(name, body["lora_path"])
        elif name not in self.server.adapters:
            self._error(404, f"The lora adapter '{name}' cannot be found.")
        else:
            del self.server.adapters[name]
            self._say(200, f"Success: LoRA adapter '{name}' removed successfully.")

    def _load(self, name: str, path: str) -> None:
        if name in self.server.adapters:
            self._error(400, f"The lora adapter '{name}' has already been loaded.")
        elif self.server.broken or not (Path(path) / "adapter_config.json").is_file():
            self._error(400, "the adapter cannot be loaded")
        else:
            self.server.adapters[name] = path
            self._say(200, f"Success: LoRA adapter '{name}' added successfully.")

    def _error(self, status: int, message: str) -> None:
        self._say(status, json.dumps({"error": {"message": message, "type": "InvalidUserInput", "code": status}}))

    def _say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def servers() -> Iterator[tuple[Vllm, Vllm]]:
    both = Vllm(), Vllm()
    yield both
    for server in both:
        server.shutdown()
        server.server_close()


@pytest.fixture
def artefacts(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path / "artefacts")


def release(artefacts: ArtefactStore, tmp_path: Path, name: str = "acme-v2", text: str = "{}") -> Release:
    folder = tmp_path / f"made-{name}"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(text, "utf-8")
    (folder / "adapter_model.safetensors").write_bytes(b"weights of " + name.encode())
    return Release(name, "openai", "base", artefacts={"adapter": artefacts.add(folder)})


def replicas(servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path, key: str = "") -> Replicas:
    (tmp_path / "shared").mkdir(exist_ok=True)
    return Replicas([server.url for server in servers], tmp_path / "shared", artefacts, key, timeout_s=10.0)


def test_every_replica_gets_a_new_name_and_a_new_path(
    servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path
) -> None:
    both = replicas(servers, artefacts, tmp_path)
    names = [both.load(release(artefacts, tmp_path, name)) for name in ("acme-v2", "acme-v3")]
    assert names == ["certloop-acme-v2", "certloop-acme-v3"]
    for server in servers:
        assert list(server.adapters) == names
        assert len(set(server.adapters.values())) == 2


def test_loading_again_only_looks(servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path) -> None:
    both, made = replicas(servers, artefacts, tmp_path), release(artefacts, tmp_path)
    both.load(made)
    both.load(made)
    assert servers[0].asked == ["load_lora_adapter certloop-acme-v2"]


def test_a_replica_that_was_restarted_gets_it_again(servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path) -> None:
    both, made = replicas(servers, artefacts, tmp_path), release(artefacts, tmp_path)
    both.load(made)
    servers[1].adapters.clear()
    both.load(made)
    assert "certloop-acme-v2" in servers[1].adapters
    assert len(servers[0].asked) == 1


def test_one_replica_that_fails_leaves_it_on_none(servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path) -> None:
    servers[1].broken = True
    with pytest.raises(ReplicaError, match="did not load certloop-acme-v2: HTTP 400"):
        replicas(servers, artefacts, tmp_path).load(release(artefacts, tmp_path))
    assert servers[0].adapters == {}


def test_a_name_that_means_other_weights_is_refused(servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path) -> None:
    servers[0].adapters["certloop-acme-v2"] = "/elsewhere"
    with pytest.raises(ReplicaError, match="loaded from another path"):
        replicas(servers, artefacts, tmp_path).load(release(artefacts, tmp_path))


def test_files_that_were_changed_in_the_shared_folder_are_refused(
    servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path
) -> None:
    both, made = replicas(servers, artefacts, tmp_path), release(artefacts, tmp_path)
    both.load(made)
    (tmp_path / "shared" / "certloop-acme-v2" / "adapter_model.safetensors").write_bytes(b"others")
    with pytest.raises(ReplicaError, match="holds other files than the release"):
        both.load(made)


def test_servers_that_may_not_update_are_named_with_what_to_do(
    servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path
) -> None:
    servers[0].runtime = False
    with pytest.raises(ReplicaError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
        replicas(servers, artefacts, tmp_path).load(release(artefacts, tmp_path))


def test_a_server_that_is_away_is_named(servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path) -> None:
    servers[1].shutdown()
    servers[1].server_close()
    with pytest.raises(ReplicaError, match="cannot be reached: ConnectError"):
        replicas(servers, artefacts, tmp_path).load(release(artefacts, tmp_path))
    assert servers[0].adapters == {}


def test_the_key_goes_along_and_unloading_is_harmless(
    servers: tuple[Vllm, Vllm], artefacts: ArtefactStore, tmp_path: Path
) -> None:
    servers[0].key = servers[1].key = "secret"
    both, made = replicas(servers, artefacts, tmp_path, key="secret"), release(artefacts, tmp_path)
    both.load(made)
    both.unload(made)
    both.unload(made)
    assert servers[0].adapters == servers[1].adapters == {}
    assert "secret" not in repr(both)


def test_documents_are_read_by_the_adapter_of_their_release_until_it_is_taken_back(tmp_path: Path) -> None:
    from tests.serve.audit_world import open_world

    with open_world(tmp_path) as world:
        loop = world.service.loop
        assert loop.steering("acme", "doc").guidance is None
        made = release(loop.registry.artefacts, tmp_path)
        loop.registry.register(made, scope="acme")
        loop.registry.stage("acme-v2", 1.0, actor="test", reason="test", scope="acme")
        loop.registry.promote(actor="test", reason="test", scope="acme")
        loop.router.forget()
        guidance = loop.steering("acme", "doc").guidance
        assert guidance is not None
        assert guidance.adapter is not None
        assert guidance.adapter.name == "certloop-acme-v2"
        assert (Path(guidance.adapter.folder) / "adapter_model.safetensors").is_file()
        assert loop.steering("globex", "doc").guidance is None, "other tenants keep theirs"
        loop.registry.roll_back(actor="test", reason="test", scope="acme")
        loop.router.forget()
        assert loop.steering("acme", "doc").guidance is None
