"""How soon the console's pages answer to a click or a key, in a real browser, with many workers and requests.

A gateway has as many workers as asked for (one process that answers for them all) and has answered as many
requests; Chromium opens the pages and does what people do. The time of an interaction is the browser's own:
from the event to the frame in which its effect is drawn. Load on the machine adds to it, and not to the CPU
time that the page's thread takes, which stands beside it.

    python benchmarks/console.py                     200 workers, 1,000 requests, 15 times each
    python benchmarks/console.py --quick             5 times each
    python benchmarks/console.py --json out.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from aiohttp import web
from playwright.async_api import CDPSession, Page, async_playwright

from processes import cpu_seconds, free_ports, resident_bytes, stop
from report import print_table, write_json

CHROMIUM = os.environ.get("RADIXWAY_CHROMIUM", "/usr/bin/chromium")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
MODEL = "benchmarked"
GOAL_MS = 200
PATIENCE_S = 120

TIMED = """
async ([act, done]) => {
  const isDone = new Function(`return (${done})`);
  const began = performance.now();
  new Function(act)();
  while (!isDone()) await new Promise((frame) => requestAnimationFrame(frame));
  await new Promise((frame) => requestAnimationFrame(frame));
  return performance.now() - began;
}
"""
FIRST_NAME = "document.querySelector('.rw-table tbody .rw-name')?.textContent"
TYPE = """
const field = document.querySelector('[data-search] input, input[data-search]');
field.value = {text};
field.dispatchEvent(new Event('input', {{bubbles: true}}));
"""


@dataclass(frozen=True, slots=True)
class Interaction:
    """What is done, as JavaScript, and what tells that it has had its effect."""

    page: str
    name: str
    act: str
    done: str
    after: str = ""
    """Takes it back."""
    taken_back: str = "true"


def workers_page(workers: int) -> list[Interaction]:
    """What is done on *Workers*."""
    rows = "document.querySelectorAll('.rw-table tbody .rw-name').length"
    shown = min(workers, 50)
    header = "document.querySelectorAll('.rw-table th')[{}]"
    panel = "document.querySelector('.rw-side')"
    remember = f"window.was = {FIRST_NAME};"
    return [
        Interaction(
            "workers",
            "search narrows to one",
            TYPE.format(text="'/w007'"),
            f"{rows} === 1",
            TYPE.format(text="''"),
            f"{rows} === {shown}",
        ),
        Interaction(
            "workers",
            "sort by name, the other way round",
            f"{remember} {header.format(0)}.click()",
            f"{FIRST_NAME} !== window.was",
            f"{header.format(0)}.click()",
            f"{FIRST_NAME}.endsWith('/w000')",
        ),
        Interaction(
            "workers",
            "next page",
            f"{remember} document.querySelector('.q-table__bottom [aria-label=\"Next page\"]').click()",
            f"{FIRST_NAME} !== window.was",
            "document.querySelector('.q-table__bottom [aria-label=\"Previous page\"]').click()",
            f"{FIRST_NAME}.endsWith('/w000')",
        ),
        Interaction(
            "workers",
            "open a worker's details",
            "document.querySelector('.rw-table tbody .rw-name').click()",
            f"{panel}?.querySelectorAll('dd').length > 5",
            f"{panel}.querySelector('button').click()",
            f"!{panel}",
        ),
    ]


def requests_page() -> list[Interaction]:
    """What is done on *Requests*."""
    rows = "document.querySelectorAll('.rw-requests tbody tr').length"
    first = "document.querySelector('.rw-requests tbody a')?.title"
    button = "[...document.querySelectorAll('.q-btn')].find(each => each.textContent.includes('{}'))"
    remember = f"window.was = {first};"
    return [
        Interaction(
            "requests",
            "older requests",
            f"{remember} {button.format('Older')}.click()",
            f"{first} !== window.was",
            f"{remember} {button.format('Newer')}.click()",
            f"{first} !== window.was",
        ),
        Interaction(
            "requests",
            "search finds none of them",
            TYPE.format(text="'nothing-is-called-so'"),
            f"{rows} === 0",
            TYPE.format(text="''"),
            f"{rows} === 50",
        ),
    ]


async def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="five times each")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    times = 5 if given.quick else given.times
    async with fake_workers() as port:
        urls = [f"http://127.0.0.1:{port}/w{number:03}" for number in range(given.workers)]
        with gateway_process(urls) as (url, process):
            await until_ready(url, given.workers)
            await send_requests(url, given.requests)
            results = await measure(url, process, given.workers, times)
    print_table(
        f"{given.workers} workers, {given.requests} requests: milliseconds until the effect is drawn",
        ("interaction", "median", "95 %", "worst", "CPU in the page"),
        [
            (
                name,
                statistics.median(values),
                sorted(values)[int(len(values) * 0.95)],
                max(values),
                statistics.median(results["browser_cpu_ms"][name])
                if name in results["browser_cpu_ms"]
                else None,
            )
            for name, values in results["interactions"].items()
        ],
    )
    worst = max(
        statistics.median(values)
        for name, values in results["interactions"].items()
        if not name.endswith("load")
    )
    print(f"\nslowest median of an interaction {worst:.0f} ms; the aim is {GOAL_MS} ms on an idle machine")
    print_table(
        "What it costs while one page is open",
        ("process", "CPU ms each second", "memory MB"),
        [(name, each["cpu_ms_per_s"], each["memory_mb"]) for name, each in results["costs"].items()],
    )
    if given.json:
        write_json(given.json, results)


async def measure(url: str, process: subprocess.Popen[Any], workers: int, times: int) -> dict[str, Any]:
    """Every interaction's times, and what open pages cost."""
    found: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    times_loaded = max(times // 3, 2)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE_S * 1000)
        clock = await page.context.new_cdp_session(page)
        await clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        pages: tuple[tuple[str, str, list[Interaction]], ...] = (
            ("live", "[data-tile]", []),
            ("requests", ".rw-requests tbody a", requests_page()),
            ("workers", ".rw-table .rw-name", workers_page(workers)),
        )
        for of_page, there, interactions in pages:
            loads = [await load(page, f"{url}/console/{of_page}", there) for _ in range(times_loaded + 1)]
            found[f"{of_page}: load"] = loads[1:]  # the first one starts the console
            await page.wait_for_function("() => window.did_handshake")
            for each in interactions:
                name = f"{each.page}: {each.name}"
                taken = [await timed(page, each, clock) for _ in range(times)]
                found[name], spent[name] = [list(part) for part in zip(*taken, strict=True)]
        costs = await costs_of(process)
        await browser.close()
    return {"interactions": found, "browser_cpu_ms": spent, "costs": costs}


async def load(page: Page, address: str, there: str) -> float:
    """Milliseconds from asking for a page to its content."""
    began = time.perf_counter()
    await page.goto(address)
    await page.locator(there).first.wait_for()
    return (time.perf_counter() - began) * 1000


async def timed(page: Page, interaction: Interaction, clock: CDPSession) -> tuple[float, float]:
    """Milliseconds until its effect is drawn, and of CPU in the page's thread; then it is taken back."""
    before = await busy_ms(clock)
    took: float = await page.evaluate(TIMED, [interaction.act, interaction.done])
    spent = await busy_ms(clock) - before
    if interaction.after:
        await page.evaluate(TIMED, [interaction.after, interaction.taken_back])
    return took, spent


async def busy_ms(clock: CDPSession) -> float:
    """CPU that the page's thread has used, in milliseconds."""
    told = await clock.send("Performance.getMetrics")
    return next(float(each["value"]) for each in told["metrics"] if each["name"] == "TaskDuration") * 1000


async def costs_of(gateway: subprocess.Popen[Any], seconds: float = 10.0) -> dict[str, dict[str, float]]:
    """CPU and memory of the gateway and of its console while one page is open."""
    [console] = psutil.Process(gateway.pid).children()
    processes = {"console": console.pid}
    before = {name: cpu_seconds(pid) for name, pid in processes.items()}
    both = cpu_seconds(gateway.pid)
    await asyncio.sleep(seconds)
    spent = {name: cpu_seconds(pid) - before[name] for name, pid in processes.items()}
    spent["gateway"] = cpu_seconds(gateway.pid) - both - spent["console"]
    memory = {"console": resident_bytes(processes["console"])}
    memory["gateway"] = resident_bytes(gateway.pid) - memory["console"]
    return {
        name: {"cpu_ms_per_s": spent[name] / seconds * 1000, "memory_mb": memory[name] / 2**20}
        for name in ("gateway", "console")
    }


@asynccontextmanager
async def fake_workers() -> AsyncIterator[int]:
    """A server that is every worker, each under a path of its own."""

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL}]})

    async def health(_: web.Request) -> web.Response:
        return web.json_response({})

    async def answer(_: web.Request) -> web.Response:
        choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13}
        return web.json_response({"id": "1", "choices": [choice], "usage": usage})

    app = web.Application()
    app.add_routes(
        [
            web.get("/{worker}/health", health),
            web.get("/{worker}/v1/models", models),
            web.post("/{worker}/v1/chat/completions", answer),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextmanager
def gateway_process(workers: list[str]) -> Iterator[tuple[str, subprocess.Popen[Any]]]:
    """`radixway serve` in front of them."""
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as log:
        config = Path(directory, "radixway.yaml")
        tree = {"gateway": {"port": port}, "workers": [{"url": url} for url in workers]}
        config.write_text(json.dumps(tree))
        command = [sys.executable, "-m", "radixway", "serve", "--config", str(config)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory, start_new_session=True
        )
        try:
            yield f"http://127.0.0.1:{port}", process
        finally:
            stop(process)


async def until_ready(url: str, workers: int) -> None:
    """Wait until the gateway has seen them all."""
    async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE_S):
        while True:
            try:
                async with client.get(f"{url}/health") as answer:
                    if (await answer.json())["workers"]["ready"] == workers:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)


async def send_requests(url: str, count: int) -> None:
    """Have it answer as many requests."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Is it so?"}]}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=8)) as client:

        async def one(_: int) -> None:
            async with client.post(f"{url}/v1/chat/completions", json=body) as answer:
                await answer.read()

        await asyncio.gather(*map(one, range(count)))


if __name__ == "__main__":
    asyncio.run(main())
