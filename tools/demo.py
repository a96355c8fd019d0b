"""`make demo`: two engines behind a gateway and a tour of what it does; exit code 0 if all of it held.

    python tools/demo.py [--port 30000]

The tour: a prefix cold and warm, a streamed answer, its explanation, and an engine killed under load.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import aiohttp
from rich.console import Console

from radixway.core.http.gateway_client import call_gateway, stream_chat

out = Console(highlight=False)

HOUSE_RULES = "You are the guide of Radixway. Answer in short sentences and only from the book. " * 60
QUESTIONS = ["What is a radix tree?", "What is a KV cache?", "What is prefix caching?", "什么是 KV cache?"]


@asynccontextmanager
async def process(*args: str):
    """A `radixway` command, terminated at the end."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "radixway", *args, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        await child.communicate()


async def until_it_serves(up: asyncio.subprocess.Process) -> None:
    """Show what `radixway up` says until it has greeted us."""
    async for line in up.stdout:
        out.print(line.decode().rstrip(), markup=False, soft_wrap=True)
        if line.startswith(b"Serving."):
            return
    raise SystemExit(await up.wait() or 1)


async def until_ready_workers(url: str, count: int, needed: asyncio.subprocess.Process) -> None:
    """Wait until so many workers can answer, two minutes at most and only while `needed` lives."""
    async with asyncio.timeout(120), aiohttp.ClientSession() as session:
        while True:
            if needed.returncode is not None:
                raise SystemExit(needed.returncode or 1)
            try:
                async with session.get(f"{url}/health") as response:
                    if (await response.json())["workers"]["ready"] == count:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


def chapter(title: str) -> None:
    out.print(f"\n[bold cyan]— {title}[/]")


def question(text: str, system: str = HOUSE_RULES) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return {"model": "auto", "messages": messages, "temperature": 0, "max_tokens": 64}


async def show_cold_and_warm(url: str) -> None:
    chapter("a prefix, cold and warm: two questions under one long system prompt")
    first = await stream_chat(url, question(QUESTIONS[0]), show=lambda _: None)
    second = await stream_chat(url, question(QUESTIONS[1]), show=lambda _: None)
    for told, state in ((first, "cold"), (second, "warm")):
        out.print(
            f"{state}: first token after {told.first_token_s * 1e3:6.0f} ms,"
            f" {told.cached_tokens:4} of {told.prompt_tokens} prompt tokens reused"
        )
    assert second.cached_tokens > 0, "the second question found nothing of the first one's prefix"


async def show_stream(url: str) -> str:
    chapter("a streamed answer")
    told = await stream_chat(
        url, question(QUESTIONS[2]), show=lambda text: out.print(text, end="", markup=False)
    )
    out.print(f"\n[dim]{told.summary()}[/]", soft_wrap=True)
    return told.request_id


async def show_explanation(url: str, request_id: str) -> None:
    chapter(f"its explanation: GET /explain/{request_id}")
    out.print_json(data=await call_gateway(url, "GET", f"/explain/{request_id}", dict[str, Any]))


async def show_death(url: str, victim: asyncio.subprocess.Process) -> None:
    chapter("an engine killed under load: 24 questions, one of two engines gets SIGKILL")
    answered: list[int] = []
    retried = 0

    async with aiohttp.ClientSession() as session:

        async def one(number: int) -> None:
            nonlocal retried
            body = question(QUESTIONS[number % len(QUESTIONS)], system=f"Question {number}.")
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                await response.read()
                answered.append(response.status)
                journal = await call_gateway(
                    url, "GET", f"/explain/{response.headers['x-request-id']}", dict[str, Any]
                )
                retried += any(step["step"] == "retry" for step in journal["steps"])

        began = perf_counter()
        asking = [asyncio.ensure_future(one(number)) for number in range(24)]
        await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        victim.send_signal(signal.SIGKILL)
        await asyncio.gather(*asking)
    out.print(
        f"{answered.count(200)} of {len(asking)} answered in {perf_counter() - began:.1f} s;"
        f" {retried} of them began on the engine that died and were answered by the other"
    )
    assert answered.count(200) == len(asking), f"requests were lost: {answered}"


async def tour(port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    async with process("up", "--small", "--port", str(port)) as up:
        await until_it_serves(up)
        await show_cold_and_warm(url)
        await show_explanation(url, await show_stream(url))
        async with process("engine", "--port", str(port + 2)) as second:
            chapter("a second engine joins: POST /add_worker")
            await call_gateway(
                url, "POST", "/add_worker", dict[str, Any], {"url": f"http://127.0.0.1:{port + 2}"}
            )
            await until_ready_workers(url, 2, second)
            await show_death(url, second)
            await until_ready_workers(url, 1, up)
    chapter("done")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=30000)
    asyncio.run(tour(parser.parse_args().port))
