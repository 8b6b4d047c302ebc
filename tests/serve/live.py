"""A real service in a process of its own, as ``certloop serve`` runs it, and small pages that the real reader reads quickly.

Run as a script it is that process: ``python live.py api|worker CONFIG.json``. The settings file may name another reader, one that
hangs or dies.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ACME = "acme"
READY_S = 300.0


def small_page(number: int, *, name: str = "青松样本贸易{}有限公司", size: tuple[int, int] = (420, 150)) -> bytes:
    """A small licence as PNG: three fields that can be read, and a name with the number in it."""
    import pylopdf_fonts_zh_cn
    from PIL import Image, ImageDraw, ImageFont

    face = Path(pylopdf_fonts_zh_cn.__file__).parent / "NotoSansSC-Regular.otf"
    page = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(page)
    draw.text((150, 8), "营业执照", font=ImageFont.truetype(str(face), 24), fill="black")
    small = ImageFont.truetype(str(face), 17)
    for line, (label, value) in enumerate(
        [("名称", name.format(number)), ("法定代表人", "张样本"), ("成立日期", "2019年03月05日")]
    ):
        draw.text((20, 52 + 30 * line), label, font=small, fill="black")
        draw.text((130, 52 + 30 * line), value, font=small, fill="black")
    out = io.BytesIO()
    page.save(out, "PNG")
    return out.getvalue()


def tiny_page(number: int) -> bytes:
    """A strip with a few characters: really read, in a third of a second, and found to be no certificate that is known."""
    import pylopdf_fonts_zh_cn
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (160, 40), "white")
    face = ImageFont.truetype(str(Path(pylopdf_fonts_zh_cn.__file__).parent / "NotoSansSC-Regular.otf"), 16)
    ImageDraw.Draw(page).text((8, 8), f"样张 {number}", font=face, fill="black")
    out = io.BytesIO()
    page.save(out, "PNG")
    return out.getvalue()


class Live:
    """The process and what it works on. ``settings`` are those of ``config_from``."""

    def __init__(self, folder: Path, url: str | None = None, *, command: str = "api", name: str = "api", **settings: Any) -> None:
        self.folder, self.name, self.command = folder, name, command
        folder.mkdir(parents=True, exist_ok=True)
        self.url = url or f"sqlite:///{folder}/store.db"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.settings = {
            "database_url": self.url,
            "blob_url": str(folder / "blobs"),
            "data_dir": str(folder),
            "port": self.port,
            **settings,
        }
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[Any] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> Self:
        place = self.folder / f"{self.name}.json"
        place.write_text(json.dumps(self.settings), encoding="utf-8")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "live.py"), self.command, str(place)],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        import httpx

        if self.command != "api":
            return
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            assert self.process is not None
            assert self.process.poll() is None, f"the service ended:\n{self.tail()}"
            try:
                if httpx.get(f"{self.base}/healthz", timeout=5, trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(f"the service did not come up:\n{self.tail()}")

    def tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:] if self.log.exists() else ""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9 of the process alone: its readers must see to their own end."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait(10)

    def stop(self, timeout_s: float = 90) -> int:
        """SIGTERM, and wait; returns the exit code."""
        if self.process is None or self.process.poll() is not None:
            return 0 if self.process is None else int(self.process.returncode)
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def key(self, role: str = "admin", tenant: str = ACME) -> str:
        """A key made directly in the database, as ``certloop admin`` makes it."""
        from certloop.agentrl.store import StoreError
        from certloop.serve.people import keys, tenants
        from certloop.serve.people.actor import Actor
        from certloop.serve.people.roles import Role
        from certloop.serve.people.tenants import TenantSettings

        admin = Actor.of(tenant, "cli:uid-0", Role.ADMIN)
        with self.open() as service:
            try:
                tenants.get(service, tenant)
            except StoreError:
                tenants.create(service, admin, tenant, settings=TenantSettings(rate_per_s=100_000, burst=1_000_000))
            return keys.create(service, admin, role, Role(role))[1]

    def client(self, role: str = "admin", tenant: str = ACME) -> Any:
        import httpx

        headers = {"Authorization": f"Bearer {self.key(role, tenant)}"}
        made = httpx.Client(base_url=self.base, headers=headers, timeout=60, trust_env=False)
        self._clients.append(made)
        return made

    def open(self) -> Any:
        """The same service, opened here: to look into its tables."""
        from certloop.serve.context import Service

        return Service.open(config_from(self.settings))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for client in self._clients:
            client.close()
        try:
            self.stop(30)
        except subprocess.TimeoutExpired:
            self.kill()


def until(ready: Callable[[], Any], timeout_s: float = 300.0, every_s: float = 0.1) -> Any:
    """Wait until ``ready`` gives something true, and return that."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(every_s)
    raise AssertionError("this did not happen in time")


def ended(client: Any, document_id: str, timeout_s: float = 300.0) -> dict[str, Any]:
    """Wait until a document is neither queued nor running, and return its state."""

    def look() -> dict[str, Any] | None:
        answer = client.get(f"/v1/documents/{document_id}")
        answer.raise_for_status()
        state: dict[str, Any] = answer.json()
        return None if state["status"] in ("queued", "running") else state

    found: dict[str, Any] = until(look, timeout_s)
    return found


def post(client: Any, content: bytes, name: str = "page.png", key: str | None = None, **fields: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/v1/documents", files={"file": (name, content)}, data=fields, headers=headers)


def config_from(settings: Mapping[str, Any]) -> Any:
    """A ServeConfig of plain values: database_url, blob_url, demo, jobs, intake, edge, model (of the engine ``openai``)."""
    from certloop.extract.config import ExtractConfig, ModelConfig
    from certloop.serve.config import EdgeConfig, IntakeLimits, JobConfig, ServeConfig

    return ServeConfig(
        settings["database_url"],
        settings["blob_url"],
        demo=settings.get("demo", False),
        extract=ExtractConfig(engine="openai", model=ModelConfig(**settings["model"]))
        if "model" in settings
        else ExtractConfig(),
        jobs=JobConfig(**settings.get("jobs", {})),
        intake=IntakeLimits(**settings.get("intake", {})),
        edge=EdgeConfig(**{"webhook_private": True, **settings.get("edge", {})}),
        data_dir=Path(settings["data_dir"]),
    )


def main() -> None:
    from certloop.serve.process import run_api, run_worker

    command, place = sys.argv[1], Path(sys.argv[2])
    settings = json.loads(place.read_text(encoding="utf-8"))
    open_reader = None
    if named := settings.get("reader"):
        module, _, name = named.partition(":")
        open_reader = getattr(importlib.import_module(module), name)
    if shift := settings.get("clock_shift_s"):
        _shift_clock(timedelta(seconds=shift))
    if settings.get("die_after_accept"):
        _die_after_accept()
    config = config_from(settings)
    if command == "api":
        work, desk = settings.get("work", True), settings.get("desk", False)
        run_api(config, host="127.0.0.1", port=settings["port"], work=work, open_reader=open_reader, desk=desk)
    else:
        run_worker(config, open_reader)


def _shift_clock(by: timedelta) -> None:
    """This process's clock goes wrong by so much."""
    from certloop.serve import context

    right = context.utc_now
    context.Service.open.__func__.__defaults__ = (lambda: right() + by,)  # type: ignore[attr-defined]


def _die_after_accept() -> None:
    """kill -9 when a document is accepted and committed, before its answer goes out."""
    from certloop.serve.api import documents

    documents.accepted = lambda _answer: os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
