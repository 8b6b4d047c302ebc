"""The processes of the service: the API with or without readers, and workers that only read."""

from __future__ import annotations

import errno
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.errors import ListenError

if TYPE_CHECKING:
    from certloop.serve.work.readers import OpenPageReader

HEADER_BYTES = 64 << 10
"""Largest request line and headers; more is answered 400 and the connection closed."""
_OTHERS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""An address of a name that this machine does not have, such as ``::1`` of localhost where there is no IPv6."""
GRACE_S = 5
"""Seconds that open requests have after SIGTERM."""
_log = logging.getLogger("certloop.serve")


def run_api(
    config: ServeConfig,
    *,
    host: str,
    port: int,
    work: bool = True,
    open_reader: OpenPageReader | None = None,
    desk: bool = False,
    up: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then drain. ``work``: read documents in this process, too; ``desk``: with pages for people;
    ``up`` is called with the address for people once connections are taken.

    Raises DemoError for demo mode on an address that others reach, ListenError, WorkerRunningError, and the errors of
    ``Service.open``.
    """
    import uvicorn

    from certloop.serve.api.app import create_app
    from certloop.serve.api.security import check_demo_bind
    from certloop.serve.jobs.start import start_accepting
    from certloop.serve.ops.logs import set_up
    from certloop.serve.ops.reload import reloading

    if config.demo:
        check_demo_bind(host)
    set_up()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    _trace(config)
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in bound(host, port)]  # before the database is touched
        service = stack.enter_context(Service.open(config))
        if work:
            _start_working(service, open_reader)
        else:
            start_accepting(service)
        app = create_app(service)
        if desk:
            if service.readers is not None:
                service.readers.warm()  # in its own process, while Gradio is imported in this one
            from certloop.serve.desk import mount

            mount(app)
        stack.enter_context(_background(service, lambda: app.state.door.flush(service)))
        stack.enter_context(reloading(service))

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets=sockets)
                if self.started:
                    here = self.servers[0].sockets[0].getsockname()[1]
                    _log.info("listening", extra={"facts": {"host": host, "port": here}})
                    if up is not None:
                        up(address_of(host, here))

            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                service.ending = True  # streams end by themselves
                super().handle_exit(sig, frame)

        proxies = list(config.edge.proxies)
        options = uvicorn.Config(
            app, host=host, port=port, log_config=None, access_log=False, server_header=False,
            proxy_headers=bool(proxies), forwarded_allow_ips=proxies, timeout_graceful_shutdown=GRACE_S,
            http="h11", h11_max_incomplete_event_size=HEADER_BYTES,  # httptools takes headers of any size
        )  # fmt: skip
        # uvicorn gives the signal on to whoever had it before, once it has ended: that must not end us before the drain.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        Server(options).run(sockets=sockets)
        _log.info("draining")


def bound(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of this machine that the name has, bound and not listening yet. Raises ListenError."""
    made: list[socket.socket] = []
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in found:
            try:
                made.append(_bound(family, address))
            except OSError as error:
                problem = error
                if error.errno not in _OTHERS:
                    break
    except (OSError, UnicodeError) as error:
        problem = error if isinstance(error, OSError) else OSError(0, "no name of a host")
    if problem is not None and (not made or problem.errno not in _OTHERS):
        for one in made:
            one.close()
        words = f"cannot listen on {host} port {port}: {problem.strerror}; choose others with --host and --port"
        raise ListenError(words)
    return made


def _bound(family: int, address: Any) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
    except OSError:
        one.close()
        raise
    return one


def address_of(host: str, port: int) -> str:
    """What people on this machine type: a server that listens everywhere is found at localhost."""
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    name = "localhost" if everywhere else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def run_worker(config: ServeConfig, open_reader: OpenPageReader | None = None) -> None:
    """Read documents until SIGTERM or Ctrl-C, then drain."""
    from certloop.serve.ops.logs import set_up
    from certloop.serve.ops.reload import reloading

    set_up()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    _trace(config)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    with Service.open(config) as service:
        _start_working(service, open_reader)
        with _background(service), reloading(service):
            _log.info("working")
            ended.wait()
            _log.info("draining")


def _trace(config: ServeConfig) -> None:
    if config.edge.telemetry:
        from certloop.serve.ops import telemetry

        telemetry.start()


def _start_working(service: Service, open_reader: OpenPageReader | None) -> None:
    from certloop.serve.jobs.start import start_working
    from certloop.serve.work.readers import open_page_reader

    start_working(service, open_reader or open_page_reader)


def _background(service: Service, *chores: Callable[[], None]) -> AbstractContextManager[object]:
    from certloop.serve.ops.background import Background
    from certloop.serve.work.chores import Chores

    return Background(service, *chores, *Chores(service).all())
