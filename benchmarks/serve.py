"""The service under load: how fast it answers with many documents stored, and what it costs beside the bare extractor.

    .venv/bin/python benchmarks/serve.py                          # both parts, the sizes of the targets
    .venv/bin/python benchmarks/serve.py --stored 1000 --documents 60 --seconds 10

Part 1: ``--stored`` documents (recorded from one real reading), then ``--rate`` requests a second for ``--seconds``, sent by the
clock whether or not earlier ones were answered; a request's time counts from when it was due. Target: p95 under 60 ms.
Part 2: ``--documents`` one-page documents are queued and read by one reader. Target: under 100 ms CPU a document more than the
bare extractor, counted over all processes of the service; the API's memory stays flat. A service that waits looks for work a few
times a second: on a busy machine, where a document takes long, that is most of the difference, and stands there by itself.

Answers are as fast as the machine is quiet: beside other work read ``cpu_ms_a_request``, what a request costs the service.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "serve"))

from live import ACME, Live, config_from, small_page

TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP = 5
IDLE_S = 15.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--page", type=Path, help="the page of part 2 (default: a small one)")
    parser.add_argument("--folder", type=Path, help="work here and leave it: another run finds its stored documents again")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    out: dict[str, Any] = {"load_average": os.getloadavg(), "processors": os.cpu_count()}
    with ExitStack() as stack:
        folder = options.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="certloop-bench-"))
        if options.stored:
            out["answers"] = answers(Path(folder) / "answers", options.stored, options.rate, options.seconds)
        if options.documents:
            page = options.page.read_bytes() if options.page else small_page(1)
            out["queue"] = queue(Path(folder) / "queue", options.documents, page)
    print(json.dumps(out, indent=2))
    if options.json:
        options.json.write_text(json.dumps(out, indent=2) + "\n", encoding="utf-8")


def answers(folder: Path, stored: int, rate: float, seconds: float) -> dict[str, Any]:
    live = Live(folder, work=False, jobs={"queue_limit": 1_000_000})
    ids = fill(live, stored)
    key = live.key("admin")
    with live:
        before = cpu_s(live.pid)
        times = asyncio.run(send(live.base, key, ids, rate, seconds))
        cost_s, memory_mib = cpu_s(live.pid) - before, rss_mib(live.pid)
    everything = sorted(t for kind in times.values() for t in kind)
    return {
        "stored": stored,
        "requests": len(everything),
        "rate": rate,
        "ms": spread(everything),
        "cpu_ms_a_request": round(cost_s * 1000 / (rate * (seconds + WARM_UP)), 2),
        "by_kind_ms": {kind: spread(sorted(found)) for kind, found in sorted(times.items())},
        "api_rss_mib": memory_mib,
    }


def fill(live: Live, stored: int) -> list[str]:
    """Documents as if they had been handed in and read: every row that the service writes, from one real reading."""
    from sqlalchemy import event

    from certloop.extract import ExtractConfig
    from certloop.serve.context import Service
    from certloop.serve.intake.accept import NewBatch, Wishes, accept, put_file
    from certloop.serve.jobs.start import start_accepting
    from certloop.serve.people.actor import Actor
    from certloop.serve.people.roles import Role
    from certloop.serve.work.claims import claim
    from certloop.serve.work.readers import open_page_reader
    from certloop.serve.work.record import record

    with open_page_reader(ExtractConfig()) as reader:
        read = reader.read(small_page(1))
    service = Service.open(config_from(live.settings))
    event.listen(service.engine, "connect", lambda raw, _record: raw.execute("PRAGMA synchronous=OFF"))
    service.engine.dispose()
    start_accepting(service)
    operator = Actor.of(ACME, "bench", Role.OPERATOR)
    file = put_file(service, operator, "page.png", small_page(1))
    with service.engine.connect() as connection:
        ids = list(connection.exec_driver_sql("SELECT document_id FROM serve_uploads WHERE status = 'done'").scalars())
    while len(ids) < stored:
        size = min(100, stored - len(ids))
        accept(service, operator, [file] * size, Wishes(), batch=NewBatch("bench"))
        with service.engine.connect() as connection:
            waiting = connection.exec_driver_sql("SELECT document_id FROM serve_uploads WHERE status = 'queued'").scalars().all()
        for document_id in waiting:
            mine = claim(service, ACME, document_id)
            assert mine is not None
            record(service, mine, read, service.loop.steering(ACME, document_id))
            ids.append(document_id)
    with service.engine.connect().execution_options(store_writes=True) as connection, connection.begin():
        connection.exec_driver_sql("DELETE FROM workflow_status")
    service.close()
    return ids


async def send(base: str, key: str, ids: list[str], rate: float, seconds: float) -> dict[str, list[float]]:
    import httpx

    rng, times, page = random.Random(1), defaultdict(list), small_page(2)
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    headers = {"Authorization": f"Bearer {key}"}

    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=60, limits=limits, trust_env=False) as client:
        batch = (await client.get("/v1/batches?limit=1")).json()["items"][0]["id"]

        def request(kind: str) -> Any:
            one = rng.choice(ids)
            if kind == "hand in":
                return client.post("/v1/documents", files={"file": ("page.png", page)})
            path = {
                "state": f"/v1/documents/{one}",
                "result": f"/v1/documents/{one}/result",
                "certificate": f"/v1/certificates/{one}.0",
                "list": "/v1/documents?limit=50",
                "reviews": "/v1/reviews?limit=50",
                "batch": f"/v1/batches/{batch}",
            }[kind]
            return client.get(path)

        kinds = ["state"] * 8 + ["result"] * 4 + ["certificate"] * 2 + ["list"] * 2 + ["hand in"] * 2 + ["reviews", "batch"]

        async def one(kind: str, due: float, counted: bool) -> None:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                answer = await request(kind)
            except httpx.TransportError:  # the server let go of an idle connection just then: a client asks again
                answer = await request(kind)
            assert answer.status_code in (200, 202), (kind, answer.status_code, answer.text)
            if counted:
                times[kind].append((time.perf_counter() - due) * 1000)

        begin = time.perf_counter() + 0.5
        total = int(rate * (seconds + WARM_UP))
        await asyncio.gather(*(one(rng.choice(kinds), begin + n / rate, n >= rate * WARM_UP) for n in range(total)))
    return times


def queue(folder: Path, documents: int, page: bytes) -> dict[str, Any]:
    bare_s = bare(page)
    with Live(folder, jobs={"queue_limit": 1_000_000, "drain_s": 5.0}) as live:
        client = live.client()
        document_id = client.post("/v1/documents", files={"file": ("warm.png", page)}).json()["id"]
        while client.get(f"/v1/documents/{document_id}").json()["status"] in ("queued", "running"):
            time.sleep(0.2)
        idle_before = cpu_s(live.pid)
        time.sleep(IDLE_S)
        idle = (cpu_s(live.pid) - idle_before) / IDLE_S
        began, cpu_before, memory = time.monotonic(), cpu_s(live.pid), [rss_mib(live.pid)]
        for n in range(documents):
            client.post("/v1/documents", files={"file": (f"{n}.png", page)}).raise_for_status()
        handed_s, cpu_handed = time.monotonic() - began, cpu_s(live.pid)
        memory.append(rss_mib(live.pid))
        while left := waiting(client):
            time.sleep(min(5.0, 0.05 * left + 0.2))
            memory.append(rss_mib(live.pid))
        wall_s, used = time.monotonic() - began, cpu_s(live.pid)
        states = [item["status"] for item in client.get("/v1/documents?limit=200").json()["items"]]
    total_s = (used - cpu_before) / documents
    return {
        "documents": documents,
        "all_done": set(states) == {"done"},
        "wall_s": round(wall_s, 1),
        "handing_in_s": round(handed_s, 1),
        "cpu_ms_a_document": {
            "bare": round(bare_s * 1000, 1),
            "service": round(total_s * 1000, 1),
            "overhead": round((total_s - bare_s) * 1000, 1),
            "of_that_looking_for_work": round(idle * wall_s / documents * 1000, 1),
            "of_that_handing_in": round((cpu_handed - cpu_before) / documents * 1000, 1),
        },
        "idle_cpu_ms_a_second": round(idle * 1000, 1),
        "api_rss_mib": {"first": memory[0], "after_handing_in": memory[1], "last": memory[-1], "most": max(memory)},
    }


def waiting(client: Any) -> int:
    """Documents that are neither done nor failed, as far as the first pages of the lists tell."""
    return sum(len(client.get(f"/v1/documents?status={status}&limit=200").json()["items"]) for status in ("queued", "running"))


def bare(page: bytes, times: int = 12) -> float:
    """CPU seconds of the extractor alone, its decoding process included."""
    from certloop.extract import Extractor

    with Extractor() as extractor:
        for _ in range(2):
            extractor.read(page)
        before = cpu_s(os.getpid())
        for _ in range(times):
            extractor.read(page)
        return (cpu_s(os.getpid()) - before) / times


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and all that descend from it, the ended ones that were waited for included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(int(field) for field in fields[11:15])
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return ticks / TICKS + sum(cpu_s(int(child)) for path in children for child in path.read_text().split())


def rss_mib(pid: int) -> float:
    line = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


def spread(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    return {
        "n": len(times),
        "p50": round(cuts[49], 1),
        "p95": round(cuts[94], 1),
        "p99": round(cuts[98], 1),
        "max": round(times[-1], 1),
    }


if __name__ == "__main__":
    main()
