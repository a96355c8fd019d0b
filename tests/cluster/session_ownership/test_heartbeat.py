"""Gateways that keep their connections and say nothing: frozen processes, networks that are cut."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from radixway.cluster.session_ownership import owner_proxy
from radixway.cluster.session_ownership.owner_proxy import GatewayHeartbeat
from radixway.cluster.session_ownership.ownership_keys import GatewayFleet
from support.free_ports import find_port
from support.running_gateway import running_gateway
from support.scripted_worker import answer_ok, scripted_worker

KEY = "sixteen characters or more"
PATIENCE_S = 30


class Asked:
    """What becomes of each question how a gateway is: these, and the last one for ever."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.left = asyncio.Event()

    async def __call__(self):
        end = self.ends[0]
        if len(self.ends) > 1:
            del self.ends[0]
        else:
            self.left.set()
        if end is not None:
            raise end


async def test_whoever_waits_for_a_gateway_that_falls_silent_is_told():
    pulse = GatewayHeartbeat("http://a", Asked(None, None, TimeoutError()), every_s=0)
    with pytest.raises(TimeoutError):
        async with pulse.monitored():
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError, match="silent"):  # and the next one at once
        async with pulse.monitored():
            raise AssertionError
    await pulse.stop_probing()


async def test_one_that_answers_again_is_waited_for_again():
    asked = Asked(ConnectionError(), ConnectionError(), None)
    pulse = GatewayHeartbeat("http://a", asked, every_s=0)
    with pytest.raises(TimeoutError):
        async with pulse.monitored():
            await asyncio.Event().wait()
    await asyncio.wait_for(asked.left.wait(), PATIENCE_S)
    async with pulse.monitored():
        assert not pulse.silent
    await pulse.stop_probing()


async def test_nobody_is_asked_while_nobody_waits():
    asked = Asked(None)
    pulse = GatewayHeartbeat("http://a", asked, every_s=0)
    async with pulse.monitored():
        await asyncio.wait_for(asked.left.wait(), PATIENCE_S)
    await asyncio.wait_for(pulse._asking, PATIENCE_S)
    await pulse.stop_probing()


@asynccontextmanager
async def frozen():
    """Takes connections and reads what comes; answers nothing, or what is said first."""

    async def silent(reader, writer):
        while await reader.read(65536):
            pass
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_a_gateway_that_is_frozen_holds_nobody_up_for_ever(monkeypatch):
    monkeypatch.setattr(owner_proxy, "_PROBE_TIMEOUT_S", 0.01)
    async with asyncio.timeout(PATIENCE_S), scripted_worker(answer_ok) as worker, frozen() as away:
        port = find_port()
        own = f"http://127.0.0.1:{port}"
        way = {"gateways": {"self_url": own, "all": [own, away], "key": KEY}}
        async with running_gateway(worker.url, port=port, scale=way, trajectories={"enabled": True}) as one:
            theirs = GatewayFleet(away, [own, away]).make_owned_name()
            status, told = await one.get(f"/sessions/{theirs}")
            assert (status, told["error"]["code"]) == (503, "gateway_away")
            assert (await one.get("/explain/nobody-asked"))[0] == 404
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            assert (await one.post("/v1/chat/completions", body, headers={"x-session-id": theirs}))[0] == 200
