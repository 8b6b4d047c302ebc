"""Adapters of releases on vLLM servers: a new name and a new path for each release, loaded on every replica before it serves.

vLLM keys its prefix cache by adapter name and never looks at a path again, so a name that came to mean other weights would answer
from the old ones' cache: a release's name and folder are never used twice. Replicas behind one balancer each need the adapter;
one that lacks it would answer with an error, so a release is loaded everywhere or nowhere. The servers must run with
``VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`` and see ``folder`` under the same path (docs.vllm.ai, LoRA adapters)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.agentrl.release import ArtefactStore, Release
from certloop.serve.errors import ReplicaError

if TYPE_CHECKING:
    import httpx

PREFIX = "certloop-"


def adapter_name(release_id: str) -> str:
    """The name that a release's adapter goes by, in every process and on every server."""
    return PREFIX + release_id


@dataclass(frozen=True, slots=True)
class Replicas:
    """``urls`` of every replica up to ``/v1``; ``folder`` is shared with them and holds one folder a release."""

    urls: Sequence[str]
    folder: Path
    artefacts: ArtefactStore
    key: str = field(default="", repr=False)
    timeout_s: float = 120.0

    def load(self, release: Release) -> str:
        """Load the release's adapter on every replica and return its name there; repeated, it only looks.

        Raises ReplicaError, after the adapter was taken off the replicas that had just loaded it, and ArtefactError for weights
        that were changed.
        """
        digest = release.artefacts.get("adapter")
        if digest is None:
            raise ReplicaError(f"{release.release_id} has no adapter; a server of whole weights is started anew")
        name, path = adapter_name(release.release_id), self._place(release.release_id, digest)
        fresh: list[str] = []
        try:
            for url in self.urls:
                fresh += [url] if self._load(url, name, str(path)) else []
        except ReplicaError:
            for url in fresh:
                self._unload(url, name)
            raise
        return name

    def unload(self, release: Release) -> None:
        """Take the adapter off every replica; fine where it is not loaded. Call it when nothing is answered by it any more."""
        for url in self.urls:
            self._unload(url, adapter_name(release.release_id))

    def _place(self, release_id: str, digest: str) -> Path:
        """A folder of the release's own with files verified by hash; what stands there already must be the same files."""
        source, place = self.artefacts.path(digest), self.folder / adapter_name(release_id)
        if not place.exists():
            new = self.folder / f".new-{release_id}"
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(source, new)
            new.replace(place)
        known = {p.relative_to(source): p.read_bytes() for p in source.rglob("*") if p.is_file()}
        found = {p.relative_to(place): p.read_bytes() for p in place.rglob("*") if p.is_file()}
        if known != found:
            raise ReplicaError(f"{place.name} holds other files than the release; remove it, and load the release again")
        return place

    def _load(self, url: str, name: str, path: str) -> bool:
        """Whether it had to be loaded."""
        with self._client(url) as client:
            loaded = self._loaded(client, url)
            if name in loaded:
                if loaded[name] not in ("", path):
                    raise ReplicaError(f"{url}: {name} is loaded from another path; restart this replica")
                return False
            answer = self._ask(client, url, "load_lora_adapter", {"lora_name": name, "lora_path": path})
            if answer.status_code != 200:
                raise ReplicaError(f"{url} did not load {name}: HTTP {answer.status_code}{_hint(answer.status_code)}")
            if name not in self._loaded(client, url):
                raise ReplicaError(f"{url} said that it loaded {name}, but does not list it")
            return True

    def _unload(self, url: str, name: str) -> None:
        with self._client(url) as client:
            answer = self._ask(client, url, "unload_lora_adapter", {"lora_name": name})
            if answer.status_code not in (200, 404):
                raise ReplicaError(f"{url} did not unload {name}: HTTP {answer.status_code}")

    def _loaded(self, client: httpx.Client, url: str) -> dict[str, str]:
        """Names that the server answers under, each with the path of its weights ('' where it does not say)."""
        answer = self._get(client, url)
        try:
            return {str(model["id"]): str(model.get("root") or "") for model in answer.json()["data"]}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ReplicaError(f"{url}/models is no list of models: is it a vLLM server?") from None

    def _client(self, url: str) -> httpx.Client:
        import httpx

        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return httpx.Client(base_url=url.rstrip("/") + "/", headers=headers, timeout=self.timeout_s, trust_env=False)

    def _ask(self, client: httpx.Client, url: str, verb: str, body: dict[str, Any]) -> httpx.Response:
        import httpx

        try:
            return client.post(verb, json=body)
        except httpx.HTTPError as error:
            raise ReplicaError(f"{url} cannot be reached: {type(error).__name__}") from None

    def _get(self, client: httpx.Client, url: str) -> httpx.Response:
        import httpx

        try:
            answer = client.get("models")
        except httpx.HTTPError as error:
            raise ReplicaError(f"{url} cannot be reached: {type(error).__name__}") from None
        if answer.status_code != 200:
            raise ReplicaError(f"{url}/models: HTTP {answer.status_code}")
        return answer


def _hint(status: int) -> str:
    return "; start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1" if status in (404, 405) else ""
