"""A real Prometheus in a process of its own, on loopback, and how it is asked."""

from __future__ import annotations

import asyncio
import math
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from support.free_ports import find_port


class Clock:
    """A target of Prometheus: tells whoever waits that another round of scrapes has begun."""

    def __init__(self) -> None:
        self._scraped = asyncio.Event()
        self.address = ""

    async def tick(self) -> None:
        """Wait for the next scrape."""
        self._scraped.clear()
        await self._scraped.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Every connection gets one metric."""
        await reader.readuntil(b"\r\n\r\n")
        body = b"clock 1\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n"
        writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()
        self._scraped.set()


@dataclass
class Prometheus:
    """Asked over its HTTP API."""

    url: str
    clock: Clock
    client: aiohttp.ClientSession

    async def get(self, path: str, **params: str) -> Any:
        """The `data` of an answer. Raises AssertionError with Prometheus' own words."""
        async with self.client.get(f"{self.url}/api/v1/{path}", params=params) as response:
            told = await response.json()
        assert told["status"] == "success", f"{params}: {told.get('error')}"
        return told["data"]

    async def values(self, expr: str) -> list[float]:
        """What an expression is now, without what is no number."""
        data = await self.get("query", query=expr)
        samples = [data] if data["resultType"] == "scalar" else data["result"]
        found = [float(sample["value"][1]) for sample in samples]
        return [value for value in found if not math.isnan(value)]


def promtool(*args: object) -> subprocess.CompletedProcess[str]:
    """What Prometheus' own tool says."""
    if shutil.which("promtool") is None:
        pytest.skip("NOT TESTED with promtool: there is none here (apt-get install prometheus)")
    return subprocess.run(["promtool", *map(str, args)], capture_output=True, text=True)


@asynccontextmanager
async def prometheus_process(
    directory: Path, config: Path, targets: Mapping[str, list[str]], key: str | None = None
) -> AsyncIterator[Prometheus]:
    """Prometheus with a configuration of ours, in which each job has these targets and is quick.

    `key`: what it scrapes with.
    """
    if shutil.which("prometheus") is None:
        pytest.skip("NOT TESTED with a real Prometheus: there is none here (apt-get install prometheus)")
    clock = Clock()
    server = await asyncio.start_server(clock.serve, "127.0.0.1", 0)
    tree = yaml.safe_load(await asyncio.to_thread(config.read_text))
    tree["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    tree["rule_files"] = [str(config.parent / name) for name in tree["rule_files"]]
    tree["scrape_configs"] = [
        job
        | {"static_configs": [{"targets": targets[job["job_name"]]}]}
        | ({} if key is None else {"authorization": {"credentials": key}})
        for job in tree["scrape_configs"]
        if job["job_name"] in targets
    ]
    assert len(tree["scrape_configs"]) == len(targets)
    address = "{}:{}".format(*server.sockets[0].getsockname())
    tree["scrape_configs"].append({"job_name": "clock", "static_configs": [{"targets": [address]}]})
    path = directory / "prometheus.yaml"
    path.write_text(yaml.safe_dump(tree))
    port = find_port()
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={path}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    )
    try:
        async with aiohttp.ClientSession() as client, server:
            async with asyncio.timeout(120):
                await clock.tick()
            yield Prometheus(f"http://127.0.0.1:{port}", clock, client)
    finally:
        process.terminate()
        await process.wait()
