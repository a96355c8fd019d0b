"""A gateway that may have few files open, and more clients than that."""

import asyncio
import shutil

import pytest

from support.gateway_process import gateway_process
from support.web_served import Peer, head

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prlimit") is None, reason="there is no prlimit"),
]
FILES = 256
CLIENTS = 400
HALF_A_HEAD = b"GET /v1/models HTTP/1.1\r\nx: "


async def connect(url: str) -> Peer:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return Peer(*await asyncio.open_connection(host, int(port)))


async def connect_slowly(url: str) -> list[Peer]:
    """Clients that never finish a head; some of them are cut off while they come."""
    peers = []
    for _ in range(CLIENTS):
        try:
            peers.append(await connect(url))
            await peers[-1].send(HALF_A_HEAD)
        except ConnectionError:
            pass
    return peers


async def test_a_good_client_is_served_among_slow_ones(tmp_path, capfd):
    tree = {"gateway": {"port": 0}, "chat": {"enabled": False}}
    with gateway_process(tmp_path, tree, home=tmp_path, files=FILES) as (url, _):
        slow = await connect_slowly(url)
        for _ in range(20):
            good = await connect(url)
            await good.send(head("/v1/models"))
            assert (await good.answer())[0] == 200
            good.close()
        for peer in slow:
            peer.close()
    assert "limits.server.max_connections" in capfd.readouterr().err


async def test_where_no_more_files_can_be_opened_clients_stay_served_and_the_log_says_so(tmp_path, capfd):
    tree = {
        "gateway": {"port": 0},
        "chat": {"enabled": False},
        "limits": {"server": {"max_connections": 10_000}},
    }
    with gateway_process(tmp_path, tree, home=tmp_path, files=FILES) as (url, _):
        good = await connect(url)
        await good.send(head("/v1/models"))
        assert (await good.answer())[0] == 200
        slow = await connect_slowly(url)
        async with asyncio.timeout(20):
            while 'limit="files_exhausted"} 0.0' in await metrics_of(good):
                pass
            while "no more files can be opened" not in capfd.readouterr().err:
                await metrics_of(good)
        for peer in slow:
            peer.close()


async def metrics_of(peer: Peer) -> str:
    """Over a connection that is there already."""
    await peer.send(head("/metrics/prometheus"))
    status, _, body = await peer.answer()
    assert status == 200
    return body.decode()
