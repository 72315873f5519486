"""Many clients at once against `wordprob serve`: how long they wait, and how many are asked to come again.

    python benchmarks/serve.py [CLIENTS [REQUESTS [MODEL]]]

Every client sends its requests one after another, each with a text of its own, so that none is answered from memory. A
refused request (503) counts as such and is not sent again. By default 200 clients send 5 requests each to the toy
model, which measures the server and not a model.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

GIVE_UP_SECONDS = 120.0


@dataclass(frozen=True)
class Result:
    """What became of the requests; times are those of the answered ones."""

    n_answered: int
    n_refused: int
    n_failed: int
    p50_seconds: float
    p99_seconds: float
    p99_refused_seconds: float
    total_seconds: float


def load_test(address: str, n_clients: int = 200, n_requests: int = 5) -> Result:
    """Send requests from many clients at the same time, and return what became of them."""
    return asyncio.run(_load_test(address, n_clients, n_requests))


async def _load_test(address: str, n_clients: int, n_requests: int) -> Result:
    started = time.perf_counter()
    clients = [_client(address, number, n_requests) for number in range(n_clients)]
    outcomes = [outcome for of_client in await asyncio.gather(*clients) for outcome in of_client]
    answered = [seconds for status, seconds in outcomes if status == 200]
    refused = [seconds for status, seconds in outcomes if status == 503]
    return Result(
        n_answered=len(answered),
        n_refused=len(refused),
        n_failed=len(outcomes) - len(answered) - len(refused),
        p50_seconds=_quantile(answered, 0.5),
        p99_seconds=_quantile(answered, 0.99),
        p99_refused_seconds=_quantile(refused, 0.99),
        total_seconds=time.perf_counter() - started,
    )


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def _client(address: str, number: int, n_requests: int) -> list[tuple[int, float]]:
    """Send requests one after another; return the status of each, 0 for none, and the seconds it took."""
    outcomes = []
    for turn in range(n_requests):
        started = time.perf_counter()
        try:
            text = f"She saw the mark {number} {turn}."
            status = await asyncio.wait_for(_status_of_a_score(address, text), GIVE_UP_SECONDS)
        except (OSError, TimeoutError, ValueError):
            status = 0
        outcomes.append((status, time.perf_counter() - started))
    return outcomes


async def _status_of_a_score(address: str, text: str) -> int:
    place = urlsplit(address)
    body = json.dumps({"texts": text}).encode()
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        headers = f"Host: {place.netloc}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"POST /api/score HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode() + body)
        answer = await reader.read()
        return int(answer.split(b" ", 2)[1])
    except IndexError:
        return 0
    finally:
        writer.close()


def main() -> None:
    n_clients, n_requests = (int(given) for given in (sys.argv[1:3] + ["200", "5"][len(sys.argv[1:3]) :]))
    model = sys.argv[3] if len(sys.argv) > 3 else "exact:bow"
    command = [sys.executable, "-m", "wordprob", "serve", "--model", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[3]
            result = load_test(address, n_clients, n_requests)
        finally:
            server.terminate()
    print(f"{n_clients} clients, {n_requests} requests each, {model}: {result.total_seconds:.1f} s")
    print(f"answered {result.n_answered}: p50 {result.p50_seconds:.2f} s, p99 {result.p99_seconds:.2f} s")
    print(f"asked to come again {result.n_refused}: p99 {result.p99_refused_seconds:.2f} s; failed {result.n_failed}")


if __name__ == "__main__":
    main()
