"""What the first call of a chat needs is imported once the server listens, beside its loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_SCRIPT = """
import asyncio, json, sys, threading
import aiohttp
from radixway.gateway.app import Gateway
from radixway.core.config import load_config
from radixway.core.http import AppServer, bind_tcp

BLOCKED = sys.argv[1] == "blocked"
seen = []

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "sqlalchemy":
            is_main = threading.current_thread() is threading.main_thread()
            seen.append({"ready": ready.is_set(), "main": is_main})
            if BLOCKED:
                raise ImportError("it is not installed")

async def main():
    global ready
    ready = asyncio.Event()
    sys.meta_path.insert(0, Finder())
    gateway = Gateway(load_config(overrides={"workers": []}))
    server = AppServer(gateway, bind_tcp("127.0.0.1", 0), drain_s=1)
    def begin():
        ready.set()
        gateway.warm_up()
    async with gateway.running(), aiohttp.ClientSession() as client:
        serving = asyncio.create_task(server.serve(begin))
        await ready.wait()
        await gateway.chats.warming
        imported = len(seen)
        async with client.get(server.url + "/health") as response:
            health = response.status, (await response.json())["chats"]["open"]
        async with client.post(server.url + "/auth/operator") as response:
            called = response.status
        again = len(seen) - imported
        print(json.dumps({"seen": seen[:imported], "again": again, "health": health, "called": called}))
        server.stop()
        await serving

asyncio.run(main())
"""


def _run(how: str, home: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, how],
        env=os.environ | {"RADIXWAY_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told | {"log": done.stderr}


def test_it_is_imported_in_a_thread_once_the_server_listens(tmp_path: Path) -> None:
    told = _run("whole", tmp_path)
    assert told["seen"] == [{"ready": True, "main": False}]
    assert told["health"] == [200, False]  # warm, and not opened: nobody has called
    assert (told["again"], told["called"]) == (0, 200)


def test_what_cannot_be_imported_harms_nobody(tmp_path: Path) -> None:
    told = _run("blocked", tmp_path)
    assert told["health"] == [200, False] and told["seen"] and told["again"]
    assert told["called"] == 503 and list(tmp_path.iterdir()) == []
