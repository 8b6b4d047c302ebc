"""Taking a release back under load: how long the swap takes, and whether anybody notices.

    .venv/bin/python benchmarks/rollback.py                       # 20 requests a second for 30 seconds, three rollbacks

A real server over HTTP; requests are sent by the clock whether or not earlier ones were answered. One in ``--every`` hands a page
in, which is read under whatever release serves then (cached pages: only the first one costs the OCR's seconds); the others look
at states and results. A release is promoted and taken back while they run. Targets: the swap under a second, no request failed,
no document lost, and no document that was claimed after the swap read under the release that was taken back.

Beside other work read the swap's own time; an answer's time is that of the whole machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "serve"))

from live import ACME, Live, small_page

SETTLE_S = 240.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--every", type=int, default=10, help="one request in so many hands a page in")
    parser.add_argument("--rollbacks", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="certloop-rollback-") as folder:
        found = rollback(Path(folder), options.rate, options.seconds, options.every, options.rollbacks)
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def rollback(folder: Path, rate: float, seconds: float, every: int, rollbacks: int) -> dict[str, Any]:
    """Start a server, load it, promote and take back ``rollbacks`` releases meanwhile, and count."""
    with Live(folder, reader="cached_reader:open_cached", jobs={"queue_limit": 100_000}) as live:
        client, page = live.client(), small_page(1)
        warm = client.post("/v1/documents", files={"file": ("warm.png", page)}).json()["id"]
        while client.get(f"/v1/documents/{warm}").json()["status"] in ("queued", "running"):
            time.sleep(0.2)
        with live.open() as service:
            load = asyncio.run(_load(live, client, service, page, warm, rate, seconds, every, rollbacks))
            handed = load.pop("handed")
            until = time.monotonic() + SETTLE_S
            while time.monotonic() < until and (left := _open(client, handed)):
                time.sleep(min(2.0, 0.1 * len(left)))
            states = [client.get(f"/v1/documents/{one}").json() for one in handed]
            damage = service.loop.registry.verify()
    done = [state for state in states if state["status"] == "done"]
    return {
        "rate": rate, "seconds": seconds, "load_average": os.getloadavg(),
        **load,
        "documents": len(handed), "documents_done": len(done), "documents_lost": len(handed) - len(done),
        "registry_damage": list(damage),
    }  # fmt: skip


async def _load(
    live: Live, admin: Any, service: Any, page: bytes, warm: str, rate: float, seconds: float, every: int, rollbacks: int
) -> dict[str, Any]:
    import httpx

    failed: list[str] = []
    times: list[float] = []
    handed: list[str] = []
    swaps: list[dict[str, Any]] = []
    late: list[str] = []
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=live.base, headers=admin.headers, timeout=60, limits=limits, trust_env=False) as client:

        async def one(number: int, due: float) -> None:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                answer = await _request(client, number, every, page, warm)
            except httpx.TransportError as error:
                failed.append(type(error).__name__)
                return
            if answer.status_code not in (200, 202):
                failed.append(str(answer.status_code))
            elif answer.status_code == 202:
                handed.append(answer.json()["id"])
            times.append((time.perf_counter() - due) * 1000)

        async def swap(number: int) -> None:
            name = f"v{number + 2}"
            await asyncio.to_thread(_promote, service, name)
            begin, cpu = time.perf_counter(), time.thread_time()
            if number % 2:  # as the desk and the API do it
                answer = await client.post("/v1/releases/rollback", json={"reason": "benchmark"})
                back = answer.status_code == 200 and answer.json()["active"] != name
                swaps.append({"by": "api", "ms": round((time.perf_counter() - begin) * 1000, 1)})
            else:  # as `certloop loop rollback` does it, from another process
                pointer = service.loop.registry.roll_back(actor="benchmark", reason="benchmark", scope=ACME)
                back, wall, cpu = pointer.active != name, time.perf_counter() - begin, time.thread_time() - cpu
                swaps.append({"by": "command", "ms": round(wall * 1000, 1), "cpu_ms": round(cpu * 1000, 1)})
            if not back:
                failed.append(f"rollback of {name}")
            await asyncio.sleep(0.3)  # every process looks the pointer up again after 0.2 s
            after = (await client.post("/v1/documents", files={"file": ("after.png", page)})).json()["id"]
            handed.append(after)
            late.append(f"{after} {name}")

        async def swaps_in_turn() -> None:
            for number in range(rollbacks):
                due = begin + seconds * (number + 1) / (rollbacks + 1)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await swap(number)

        begin = time.perf_counter() + 0.5
        total = int(rate * seconds)
        await asyncio.gather(
            *(one(n, begin + n / rate) for n in range(total)),
            swaps_in_turn(),
        )
        wrong = [pair for pair in late if (await _release(client, pair.split()[0])) == pair.split()[1]]
    ordered = sorted(times)
    return {
        "requests": total, "failed": failed, "handed": handed, "swaps": swaps, "read_under_what_was_taken_back": len(wrong),
        "answer_ms": {"p50": round(ordered[len(ordered) // 2], 1), "p99": round(ordered[int(len(ordered) * 0.99)], 1)},
    }  # fmt: skip


async def _request(client: Any, number: int, every: int, page: bytes, warm: str) -> Any:
    if number % every == 0:
        return await client.post("/v1/documents", files={"file": (f"{number}.png", page)})
    return await client.get(f"/v1/documents/{warm}" + ("/result" if number % 2 else ""))


async def _release(client: Any, document_id: str) -> str:
    """The release that a document was read under, once it is."""
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        answer = await client.get(f"/v1/documents/{document_id}/result")
        if answer.status_code == 200:
            documents = answer.json()["documents"]
            return str(documents[0]["release"]) if documents else ""
        await asyncio.sleep(0.5)
    return ""


def _promote(service: Any, name: str) -> None:
    """Another process promotes a release, as ``certloop loop run`` does."""
    from certloop.agentrl.release import Release

    registry = service.loop.registry
    registry.register(Release(name, "ocr", parent=registry.pointer(ACME).active, notes="benchmark"), scope=ACME)
    registry.stage(name, 1.0, actor="benchmark", reason="benchmark", scope=ACME)
    registry.promote(actor="benchmark", reason="benchmark", scope=ACME)


def _open(client: Any, handed: list[str]) -> list[str]:
    return [one for one in handed if client.get(f"/v1/documents/{one}").json()["status"] in ("queued", "running")]


if __name__ == "__main__":
    main()
