"""Which release answers a document, and how many answers of each are still under way."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from certloop.agentrl.release.canary import position
from certloop.agentrl.release.registry import Pointer
from certloop.agentrl.release.schema import SHARED


class Arm(StrEnum):
    BASELINE = "baseline"
    CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True)
class Route:
    """The release for one document. ``pointer_position`` names the move it followed."""

    release_id: str
    arm: Arm
    pointer_position: int


class Router:
    """Routes by (tenant, document), from a pointer that is at most ``max_age_s`` old. Safe to share between threads.

    A swap of the pointer never touches an answer under way: it finishes on the release it started with, and ``drained`` tells
    when a release has none left and may be unloaded."""

    def __init__(self, pointer_of: Callable[[str], Pointer], *, max_age_s: float = 0.2) -> None:
        self._pointer_of = pointer_of
        self._max_age_s = max_age_s
        self._seen: dict[str, tuple[float, Pointer]] = {}
        self._under_way: Counter[str] = Counter()
        self._changed = threading.Condition()

    def route(self, tenant: str, document: str) -> Route:
        """Raises UnknownReleaseError when no release serves."""
        pointer = self._pointer(tenant)
        if pointer.candidate and position(tenant, document) < pointer.share:
            return Route(pointer.candidate, Arm.CANDIDATE, pointer.position)
        return Route(pointer.active, Arm.BASELINE, pointer.position)

    @contextmanager
    def answering(self, tenant: str, document: str) -> Iterator[Route]:
        """A route whose release counts as in use until the block ends."""
        with self.under(self.route(tenant, document)) as route:
            yield route

    @contextmanager
    def under(self, route: Route) -> Iterator[Route]:
        """A route taken before: its release counts as in use until the block ends."""
        with self._changed:
            self._under_way[route.release_id] += 1
        try:
            yield route
        finally:
            with self._changed:
                self._under_way[route.release_id] -= 1
                self._changed.notify_all()

    def under_way(self, release_id: str) -> int:
        with self._changed:
            return self._under_way[release_id]

    def drained(self, release_id: str, timeout_s: float) -> bool:
        """Wait until nothing is answered by this release; False when it took longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._under_way[release_id] == 0, timeout_s)

    def forget(self) -> None:
        """Look the pointers up anew at the next document: whoever moved one in this process calls it."""
        self._seen = {}

    def _pointer(self, tenant: str) -> Pointer:
        now = time.monotonic()
        seen = self._seen.get(tenant)
        if seen is not None and now - seen[0] < self._max_age_s:
            return seen[1]
        pointer = self._pointer_of(tenant or SHARED)
        self._seen[tenant] = (now, pointer)
        return pointer
