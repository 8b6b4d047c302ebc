"""How the service is set up. Frozen; made by the front door (``certloop.settings``) or by a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from certloop.agentrl.signals.judge import JudgeConfig
from certloop.extract.config import ExtractConfig

if TYPE_CHECKING:
    from certloop.agentrl.store import Cipher

DEMO_TENANT = "demo"


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """What one request may hand in. Sizes are bytes; ``batch_*`` bound what a batch unpacks to, whatever its archives claim."""

    file_bytes: int = 64 << 20
    batch_bytes: int = 1 << 30
    batch_files: int = 2000
    archive_entries: int = 5000
    archive_ratio: float = 200.0
    json_bytes: int = 1 << 20
    fetch_allowed: bool = False
    """Whether documents may be given by URL; only public https addresses are ever fetched, unless ``fetch_private`` is set."""
    fetch_private: bool = False
    fetch_timeout_s: float = 20.0


@dataclass(frozen=True, slots=True)
class JobConfig:
    """``readers`` is how many documents are read at a time in this process; each is a child process of its own.

    ``attempts``: how often a document is tried before it is dead; ``timeout_s``: how long one try may take; ``queue_limit``: how
    many documents of one tenant may wait (429 beyond); ``lease_s``: how long an executor that says nothing keeps its work.
    """

    readers: int = 1
    attempts: int = 3
    timeout_s: float = 300.0
    queue_limit: int = 5000
    lease_s: float = 30.0
    drain_s: float = 60.0
    executor_id: str = ""
    """Stable over restarts of the same process on the same host; empty: from the host's name."""


@dataclass(frozen=True, slots=True)
class EdgeConfig:
    """What faces the network. ``hosts``: the Host names that are answered (empty: any; demo mode: loopback names only);
    ``proxies``: addresses whose X-Forwarded-For and -Proto are believed;
    ``metrics_open``: /metrics answers anybody, with the totals of all tenants, instead of a key, with those of its tenant;
    ``webhook_private``: webhooks may go to private and loopback addresses and over http; ``telemetry``: send traces with
    OpenTelemetry, whose own variables say where to."""

    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    metrics_open: bool = False
    webhook_private: bool = False
    telemetry: bool = False


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """``database_url`` and ``blob_url`` are the store's; the service's tables stand in the same database.

    ``demo``: one tenant, no keys, loopback only.
    """

    database_url: str
    blob_url: str = ""
    cipher: Cipher | None = None
    demo: bool = False
    extract: ExtractConfig = field(default_factory=ExtractConfig)
    intake: IntakeLimits = field(default_factory=IntakeLimits)
    jobs: JobConfig = field(default_factory=JobConfig)
    edge: EdgeConfig = field(default_factory=EdgeConfig)
    judge: JudgeConfig | None = None
    """A language model that says what a conversation's next message means; None: rules do."""
    artefact_dir: Path | None = None
    """Files of releases; every host must see the same folder. None: beside an SQLite database, else in the user's data folder."""
    data_dir: Path | None = None
    """Locks and scratch files; None: beside an SQLite database, else the system's folder for temporary files."""

    @property
    def artefacts(self) -> Path:
        """The folder in use for files of releases."""
        if self.artefact_dir is not None:
            return self.artefact_dir
        file = self.database_url.removeprefix("sqlite:///")
        if file != self.database_url:
            return beside(Path(file).expanduser(), "artefacts")
        return Path("~/.local/share/certloop/artefacts").expanduser()


def beside(sqlite_file: Path, name: str) -> Path:
    """A folder of its own for each database file, as the store has for its images."""
    return sqlite_file.parent / (name if sqlite_file.name == "store.db" else f"{sqlite_file.name}.{name}")
