"""A service over an empty SQLite database, its application, and somebody of every kind who may call it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from certloop.agentrl.store import AesGcm
from certloop.serve.config import EdgeConfig, ServeConfig
from certloop.serve.context import Service
from certloop.serve.people import tenants

sys.path.insert(0, str(Path(__file__).parent))  # test modules import `callers` by name

from callers import ACME, Callers, Hands, admin_of
from live import Live
from postgres_place import Postgres, postgres_server
from webhook_receiver import Receiver

POSTGRES_TOO = (
    "test_batches_api", "test_confidence_api", "test_documents_api", "test_dossier_checks", "test_feedback_messages",
    "test_jobs_claims", "test_matrix", "test_outcomes", "test_people", "test_reliability_second_look", "test_review_decisions",
    "test_review_edits", "test_review_queue", "test_security", "test_webhook_targets", "test_webhooks",
)  # fmt: skip
"""Modules whose tests run on Postgres as well, among the slow ones: those of what the database decides."""
Place = Callable[..., tuple[str, str]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2] in POSTGRES_TOO:
        metafunc.parametrize(
            "place", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True, scope="session"
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests; each has a database of its own."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Place:
    """Where a test's service keeps its rows and images: ``place(folder)`` is a new (database URL, blob URL). ``new``: on Postgres
    without any table yet, as a sealed store has to begin."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return lambda folder, *, new=False: (f"sqlite:///{folder}/store.db", "")
    server: Postgres = request.getfixturevalue("postgres")
    return lambda folder, *, new=False: (server.url() if new else server.copy(), str(folder / "blobs"))


@pytest.fixture
def hands() -> Hands:
    """The clock of the service, which tests move."""
    return Hands()


@pytest.fixture
def open_service(tmp_path: Path, hands: Hands, place: Place) -> Iterator[Callable[..., Service]]:
    """Opens a service with jobs that are kept and not worked on; keyword arguments are those of ServeConfig."""
    from certloop.serve.jobs.start import start_accepting

    opened: list[Service] = []

    def make(**settings: object) -> Service:
        folder = tmp_path / f"service-{len(opened)}"
        service = Service.open(ServeConfig(*place(folder, new="cipher" in settings), **settings), clock=hands)  # type: ignore[arg-type]
        opened.append(service)
        start_accepting(service)
        return service

    yield make
    for service in opened:
        service.close()


@pytest.fixture
def service(open_service: Callable[..., Service]) -> Service:
    return open_service()


@pytest.fixture
def callers(service: Service) -> Iterator[Callers]:
    with Callers(service) as made:
        yield made


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A real service in a process of its own, with one real reader; every test module shares it. See ``live.py``."""
    with Live(tmp_path_factory.mktemp("live"), jobs={"drain_s": 5.0}) as running:
        yield running


@pytest.fixture(scope="module")
def everybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    """Callers for tests that change nothing."""
    service = Service.open(ServeConfig(f"sqlite:///{tmp_path_factory.mktemp('everybody')}/store.db"), clock=Hands())
    with service, Callers(service) as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.hang.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def private(open_service: Callable[..., Service]) -> Service:
    """A service whose webhooks may go to this machine, sealed."""
    service = open_service(edge=EdgeConfig(webhook_private=True), cipher=AesGcm(bytes(range(32))))
    tenants.create(service, admin_of(ACME), ACME)
    return service
