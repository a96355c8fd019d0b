"""Workers by name, asked of a real name server on loopback."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from dnslib import CNAME, QTYPE, RR

from radixway.cluster.discovery import DiscoverySourceError
from radixway.cluster.discovery.dns_source import DnsSource, NameNotFoundError
from radixway.core.config import DnsConfig
from support.name_server import NEGATIVE_TTL_S, address_record, name_server

NAME = "vllm-svc.ai.test"


class Following:
    """A source that is followed, by a clock that only goes on when it sleeps, or as the test says."""

    def __init__(self, server, **config):
        given = {"name": NAME, "port": 8000, "timeout_s": 20, "servers": [server.address], **config}
        self.now = 0.0
        self.slept = []
        self.urls = None
        self.sections = []
        self._awake = asyncio.Semaphore(0)
        self._asleep = asyncio.Semaphore(0)
        self.source = DnsSource(DnsConfig.model_validate(given), lambda: self.now, self._sleep)
        self.task = None

    async def _sleep(self, seconds):
        self.slept.append(seconds)
        self._asleep.release()
        await self._awake.acquire()
        self.now += seconds

    def tell(self, found):
        self.sections = [each.section for each in found]
        self.urls = sorted(section.url for section in self.sections)

    async def ask(self):
        """Follow until it sleeps again; raises what ends the following."""
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self.source.follow_workers(self.tell))
        else:
            self._awake.release()
        asleep = asyncio.create_task(self._asleep.acquire())
        async with asyncio.timeout(10):
            await asyncio.wait({self.task, asleep}, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            asleep.cancel()
            self.task.result()

    async def fails(self, failure=DiscoverySourceError):
        with pytest.raises(failure) as told:
            await self.ask()
        return told.value


@asynccontextmanager
async def following(**config):
    async with name_server() as server:
        one = Following(server, **config)
        try:
            yield server, one
        finally:
            if one.task is not None:
                one.task.cancel()
                await asyncio.gather(one.task, return_exceptions=True)


async def test_every_address_is_a_worker_and_the_next_answer_counts():
    async with following() as (server, one):
        server.set(NAME, "10.0.0.1", "10.0.0.2", "fd00::3")
        await one.ask()
        assert one.urls == ["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::3]:8000"]
        server.set(NAME, "10.0.0.2", "10.0.0.4")
        await one.ask()
        assert one.urls == ["http://10.0.0.2:8000", "http://10.0.0.4:8000"]


async def test_it_asks_again_when_the_shortest_time_to_live_is_over_within_limits():
    async with following(least_s=2, most_s=60) as (server, one):
        for ttl, expected in ((30, 30), (0, 2), (86400, 60)):
            server.set(NAME, "10.0.0.1", ttl=ttl)
            await one.ask()
            assert one.slept[-1] == expected
        server.set(NAME, "10.0.0.1", ttl=30)
        server.records[NAME].append(address_record(NAME, "fd00::1", ttl=10))
        await one.ask()
        assert one.slept[-1] == 10


async def test_one_family_alone_is_asked_for_if_the_other_is_not_wanted():
    async with following(family="ipv6") as (server, one):
        server.set(NAME, "10.0.0.1", "fd00::3")
        await one.ask()
        assert one.urls == ["http://[fd00::3]:8000"]
        assert [kind for _, kind, _ in server.asked] == ["AAAA"]


async def test_more_addresses_than_a_datagram_holds_come_over_tcp():
    addresses = [f"10.0.0.{i}" for i in range(1, 255)]
    async with following(family="ipv4") as (server, one):
        server.set(NAME, *addresses)
        await one.ask()
        assert len(one.urls) == 254
        assert [over for _, _, over in server.asked] == ["udp", "tcp"]


async def test_a_name_that_is_another_is_followed():
    async with following(family="ipv4") as (server, one):
        alias = RR(NAME, QTYPE.CNAME, rdata=CNAME("real.test"), ttl=20)
        server.records[NAME] = [alias, address_record("real.test", "10.0.0.1", ttl=50)]
        await one.ask()
        assert one.urls == ["http://10.0.0.1:8000"]
        assert one.slept == [20]


@pytest.mark.parametrize("what", ["NXDOMAIN", "NODATA", "SERVFAIL", "REFUSED", "silence"])
async def test_what_is_known_is_kept_for_a_while_when_the_name_is_gone_or_nobody_answers(what):
    async with following(keep_s=100, timeout_s=0.3, least_s=1) as (server, one):
        server.set(NAME, "10.0.0.1")
        await one.ask()
        if what == "NXDOMAIN":
            del server.records[NAME]
        elif what == "NODATA":
            server.set(NAME)
        elif what == "silence":
            server.silent = True
        else:
            server.fails_with = what
        await one.fails()
        assert one.urls == ["http://10.0.0.1:8000"]
        one.now = 99
        await one.fails()
        assert one.urls == ["http://10.0.0.1:8000"]
        one.now = 101
        await one.fails()
        assert one.urls == []
        server.silent, server.fails_with = False, None
        server.set(NAME, "10.0.0.2")
        await one.ask()
        assert one.urls == ["http://10.0.0.2:8000"]


async def test_a_negative_answer_says_how_long_it_holds_and_what_is_not_there():
    async with following() as (server, one):
        absent = await one.fails(NameNotFoundError)
        assert (absent.retry_after_s, str(absent)) == (NEGATIVE_TTL_S, f"there is no name {NAME}")
        server.set(NAME)
        absent = await one.fails(NameNotFoundError)
        assert (absent.retry_after_s, str(absent)) == (NEGATIVE_TTL_S, f"{NAME} has no addresses")
        assert one.urls is None


async def test_a_failure_names_the_question_that_failed():
    async with following() as (server, one):
        server.fails_with = "SERVFAIL"
        assert f"of {NAME}: " in str(failure := await one.fails())
        assert "SERVFAIL" in str(failure)
        assert not isinstance(failure, NameNotFoundError)


SRV_NAME = "_http._tcp.vllm-svc.ai.test"


async def test_srv_records_say_the_ports_and_their_targets_the_addresses():
    async with following(name=SRV_NAME, port=None) as (server, one):
        server.set_srv(SRV_NAME, ("a.test", 8001), ("b.test", 8002), ("gone.test", 8003), (".", 0), ttl=40)
        server.set("a.test", "10.0.0.1", "fd00::1", ttl=30)
        server.additional["b.test"] = [address_record("b.test", "10.0.0.2", ttl=20)]
        await one.ask()
        assert one.urls == ["http://10.0.0.1:8001", "http://10.0.0.2:8002", "http://[fd00::1]:8001"]
        assert one.slept == [NEGATIVE_TTL_S]
        assert "b.test" not in {name for name, _, _ in server.asked}


async def test_srv_records_without_any_target_there_are_a_negative_answer():
    async with following(name=SRV_NAME, port=None) as (server, one):
        server.set_srv(SRV_NAME, (".", 0))
        assert "has no SRV records" in str(await one.fails(NameNotFoundError))
        server.set_srv(SRV_NAME, ("gone.test", 8003))
        assert "no target of" in str(await one.fails(NameNotFoundError))


async def test_with_https_the_targets_of_srv_records_are_called_by_their_names():
    async with following(name=SRV_NAME, port=None, scheme="https") as (server, one):
        server.set_srv(SRV_NAME, ("a.test", 8443), ttl=40)
        await one.ask()
        assert one.urls == ["https://a.test:8443"]


async def test_what_is_known_beforehand_of_workers_goes_with_each():
    traits = {"pools": ["east"], "kv_events": {"endpoint": "tcp://{host}:5557"}}
    async with following(worker=traits) as (server, one):
        server.set(NAME, "10.0.0.1", "fd00::3")
        await one.ask()
        assert {section.kv_events.endpoint for section in one.sections} == {
            "tcp://10.0.0.1:5557",
            "tcp://[fd00::3]:5557",
        }
        assert all(section.pools == ("east",) for section in one.sections)
