"""The cost of metrics per request: one pipeline and an instant worker, bare and measured, in one process.

The least of many repetitions, taken in turn: what else the machine does only ever makes one of them slower.
Beside them, what one counter and two histograms of prometheus_client cost, which alone were here once.

    python benchmarks/metrics.py
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, Self

from prometheus_client import CollectorRegistry, Counter, Histogram

from radixway.core.config import RoutingConfig, WorkerSettings, load_config
from radixway.core.pipeline import CHAT_COMPLETIONS, Chunks, Pipeline, Reply, Request, Services
from radixway.core.pipeline.retry import Retry
from radixway.core.telemetry import Journal, MetricsRegistry
from radixway.routing import RoutingRequest, Selector, Worker
from radixway.routing.transports.assignment import WorkerAssignment
from radixway.routing.transports.attempt_metrics import MeasuredAttempt, journal_token_usage

BODY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"'
    + b"word "
    * 200
    + b'"},"finish_reason":"stop"}],"usage":{"prompt_tokens"'
    b':300,"completion_tokens":200,"total_tokens":500,"prompt_tokens_details":{"cached_tokens":256}}}'
)
CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
LAST = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":300,"completion_tokens":49}}\n\n'


class Stream(Chunks):
    """50 pieces that are there at once."""

    def __init__(self) -> None:
        self._left = [LAST] + [CHUNK] * 49

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()

    async def aclose(self) -> None:
        """Nothing is held."""


async def send(chunk: bytes) -> None:
    """To nobody."""


class PipelinePair:
    """A bare pipeline and a measured one to the same instant worker."""

    def __init__(self) -> None:
        self.metrics = MetricsRegistry()
        services = Services(load_config(), self.metrics)
        selector = Selector(RoutingConfig())
        worker = Worker(WorkerSettings(url="http://127.0.0.1:1"))
        selector.add_worker(worker)
        prompt = RoutingRequest(tokens=300, blocks=tuple(range(18)), block_tokens=16)
        choice = selector.select_worker(prompt, [worker])
        self.place = WorkerAssignment(choice, selector.reserve(choice))
        self.measuring = MeasuredAttempt(self.metrics, self.carry)
        self.bare = Pipeline([Retry(services), Retry(services)], self.answer)
        self.measured = Pipeline([Retry(services), Retry(services)], self.answer_measured, self.metrics.steps)
        registry = CollectorRegistry()
        labels = ["surface", "model"]
        self.requests = Counter("a", "a", [*labels, "status"], registry=registry).labels("s", "m", "200")
        self.histograms = [
            Histogram(name, name, labels, registry=registry).labels("s", "m") for name in ("b", "c")
        ]

    async def carry(self, request: Request, place: WorkerAssignment) -> Reply:
        """The worker's answer."""
        if request.stream:
            return Reply(200, [], place.worker.name, chunks=Stream())
        return Reply(200, [], place.worker.name, BODY)

    async def answer(self, request: Request) -> Reply:
        """The end of the bare pipeline."""
        return await self.carry(request, self.place)

    async def answer_measured(self, request: Request) -> Reply:
        """The end of the measured one."""
        began_s = request.journal.elapsed_s()
        reply = await self.measuring(request, self.place)
        self.metrics.steps.selection_buckets("expected_time").observe_value(
            request.journal.elapsed_s() - began_s
        )
        journal_token_usage(request, reply)
        return reply

    async def exchange(self, pipeline: Pipeline, end: Callable[[Request], None], *, stream: bool) -> None:
        """One request and its answer."""
        request = Request(id="r", endpoint=CHAT_COMPLETIONS, path="/", journal=Journal("r"), headers=[])
        request.stream, request.routing.resolved_model = stream, "m"
        reply = await pipeline(request)
        if reply.chunks is not None:
            await reply.chunks.pass_on(send)
            await reply.chunks.aclose()
        end(request)

    def count(self, request: Request) -> None:
        """As an exchange is counted now."""
        self.metrics.exchanges.record_completed("s", "m", 200, 0.1, request.journal.elapsed_s())

    def count_once(self, request: Request) -> None:
        """As it was counted once."""
        self.requests.inc()
        for histogram in self.histograms:
            histogram.observe(0.1)


async def least(each: dict[str, Callable[[], Awaitable[None]]], rounds: int, times: int) -> dict[str, float]:
    """Microseconds that one call of each takes at best."""
    found = dict.fromkeys(each, float("inf"))
    for _ in range(rounds):
        for name, call in each.items():
            began = perf_counter()
            for _ in range(times):
                await call()
            found[name] = min(found[name], (perf_counter() - began) / times * 1e6)
    return found


async def main(rounds: int, times: int) -> None:
    """Measure and print."""
    pair = PipelinePair()

    def nothing(_: Request) -> None:
        """Nobody counts."""

    def exchange_of(
        pipeline: Pipeline, end: Callable[[Request], None], *, stream: bool
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        return lambda: pair.exchange(pipeline, end, stream=stream)

    gc.disable()
    for kind, stream in (("whole answer of 1.3 KB", False), ("stream of 50 pieces", True)):
        found = await least(
            {
                "bare": exchange_of(pair.bare, nothing, stream=stream),
                "once": exchange_of(pair.bare, pair.count_once, stream=stream),
                "now": exchange_of(pair.measured, pair.count, stream=stream),
            },
            rounds,
            times // (10 if stream else 1),
        )
        bare = found["bare"]
        print(
            f"{kind}: {bare:.1f} us without metrics; with a counter and two histograms of prometheus_client"
            f" {found['once'] - bare:+.1f} us, with all of docs/metrics.md {found['now'] - bare:+.1f} us"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=800)
    parser.add_argument("--times", type=int, default=50)
    given = parser.parse_args()
    asyncio.run(main(given.rounds, given.times))
