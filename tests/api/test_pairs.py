"""Prefill and decode workers behind a gateway: who is asked what, and what becomes of it when one dies.

The workers are scripted: they check and answer what vLLM and SGLang would on the wire, and transfer nothing.
"""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from radixway.routing import WorkerState
from support.running_gateway import FAST_HEALTH, running_gateway
from support.scripted_worker import Exchange, answer_ok, scripted_worker

REMOTE = {"health": FAST_HEALTH, "disaggregation": {"min_uncached_tokens": 0, "by_expected_time": False}}
PARAMS = {"do_remote_prefill": True, "do_remote_decode": False, "remote_engine_id": "e", "remote_port": 5600}


async def prefilled(exchange: Exchange) -> None:
    """As vLLM's NixlConnector answers a prefill."""
    body = {"choices": [{"finish_reason": "length"}], "kv_transfer_params": PARAMS}
    await exchange.reply(200, json.dumps(body).encode())


async def stream_ok(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.chunk(b'data: {"choices": [{"delta": {"content": "ok"}}]}\n\n')
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


async def die(exchange: Exchange) -> None:
    exchange.die()


async def hang(exchange: Exchange) -> None:
    await exchange.until_peer_leaves()


@asynccontextmanager
async def pool(prefill, decode, *, both=(), dialect="vllm", **routing):
    """A gateway before workers with those behaviours; yields it and the workers by role."""
    async with AsyncExitStack() as stack:
        roles = {"prefill": prefill, "decode": decode, "any": both}
        workers = {
            role: [await stack.enter_async_context(scripted_worker(behaviour)) for behaviour in behaviours]
            for role, behaviours in roles.items()
        }
        sections = [
            {"url": worker.url} | ({"role": role, "disaggregation": dialect} if role != "any" else {})
            for role, started in workers.items()
            for worker in started
        ]
        urls = [section["url"] for section in sections]
        gateway = await stack.enter_async_context(
            running_gateway(*urls, workers=sections, routing=REMOTE | routing)
        )
        yield gateway, workers["prefill"], workers["decode"], workers["any"]


def name_of(worker) -> str:
    return worker.url.removeprefix("http://")


async def steps_of(gateway, headers) -> dict:
    _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
    return {step["step"]: step for step in journal["steps"]}


async def idle(gateway) -> None:
    """Wait until no worker has anything in hand, then check that nothing is left of what they had."""
    async with asyncio.timeout(10):
        while gateway.in_flight():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)
    for worker in gateway.gateway.registry:
        load = worker.load
        assert (load.prefilling, load.silent, load.prefill_tokens, load.blocks) == (0, 0, 0, 0)


async def reached(worker) -> None:
    async with asyncio.timeout(10):
        while not worker.requests:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("stream", [False, True])
async def test_vllm_prefills_first_and_the_decode_worker_gets_what_it_said(stream):
    async with pool([prefilled], [stream_ok if stream else answer_ok]) as (gateway, (p,), (d,), _):
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
            answer, headers = await response.text(), response.headers
        assert "ok" in answer
        first, second = p.requests[0], d.requests[0]
        assert (first.json()["max_tokens"], first.json()["stream"]) == (1, False)
        assert first.json()["kv_transfer_params"]["do_remote_decode"] is True
        assert second.json() == body | {"kv_transfer_params": PARAMS}
        assert first.path == second.path == "/v1/chat/completions"
        assert first.headers["x-request-id"] == second.headers["x-request-id"]
        assert headers["x-radixway-worker"] == name_of(d)
        assert headers["x-radixway-prefill-worker"] == name_of(p)
        await idle(gateway)


async def test_the_journal_tells_of_both_choices_and_the_prefill():
    async with pool([prefilled] * 2, [answer_ok] * 2) as (gateway, prefill, decode, _):
        _, _, headers = await gateway.chat()
        steps = await steps_of(gateway, headers)
        assert set(steps["select"]["candidates"]) == {name_of(worker) for worker in decode}
        assert set(steps["select"]["prefill"]["candidates"]) == {name_of(worker) for worker in prefill}
        assert steps["select"]["prefill"]["elsewhere"] is True
        assert steps["prefill"] | {"at_ms": 0} == {
            "step": "prefill",
            "at_ms": 0,
            "worker": steps["select"]["prefill"]["worker"],
            "status": 200,
            "handed_on": True,
        }
        assert steps["answer"]["worker"] == steps["select"]["worker"]


async def test_a_prompt_that_the_decode_worker_holds_is_not_prefilled_elsewhere():
    short = {"min_uncached_tokens": 2048, "by_expected_time": False}
    async with pool([prefilled], [answer_ok], disaggregation=short) as (gateway, (p,), (d,), _):
        turn = {"role": "user", "content": "word " * 400}
        await gateway.chat(messages=[turn])
        _, _, headers = await gateway.chat(messages=[turn, {"role": "user", "content": "and?"}])
        assert (len(p.requests), len(d.requests)) == (1, 2)
        assert "kv_transfer_params" not in d.requests[1].json()
        told = (await steps_of(gateway, headers))["select"]["prefill"]
        assert not told["elsewhere"] and told["reason"] == "few uncached tokens"


async def test_a_client_cannot_send_a_decode_worker_elsewhere_for_its_kv():
    async with pool([], [answer_ok]) as (gateway, _, (d,), _):
        await gateway.chat(kv_transfer_params={"do_remote_prefill": True, "remote_host": "10.0.0.1"})
        assert "kv_transfer_params" not in d.requests[0].json()


@pytest.mark.parametrize("refusal", [400, 200])
async def test_a_prefill_that_is_refused_or_hands_nothing_on_is_left_to_the_decode_worker(refusal):
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(refusal, b'{"error": {}}')

    async with pool([refuse], [answer_ok]) as (gateway, _, (d,), _):
        status, _, headers = await gateway.chat()
        assert status == 200 and "kv_transfer_params" not in d.requests[0].json()
        assert "x-radixway-prefill-worker" not in headers
        assert (await steps_of(gateway, headers))["prefill"]["handed_on"] is False
        await idle(gateway)


@pytest.mark.parametrize("failure", ["dies", "is gone", "500", "503"])
async def test_a_prefill_worker_that_fails_is_replaced(failure):
    async def fail(exchange: Exchange) -> None:
        if failure == "dies":
            exchange.die()
        else:
            await exchange.reply(int(failure), b"{}")

    async with pool([fail, prefilled], [answer_ok]) as (gateway, (bad, good), (d,), _):
        if failure == "is gone":
            await bad.kill()
        for _ in range(3):
            status, _, headers = await gateway.chat()
            assert status == 200 and headers["x-radixway-prefill-worker"] == name_of(good)
        assert all(exchange.json()["kv_transfer_params"] == PARAMS for exchange in d.requests)
        await idle(gateway)


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_a_prefill_worker_that_hangs_and_answers_no_probe_is_given_up(dialect):
    answers = {"vllm": (prefilled, answer_ok), "sglang": (meet, answer_ok)}[dialect]
    hung = asyncio.Event()

    async def stick(exchange: Exchange) -> None:
        hung.set()
        await exchange.until_peer_leaves()

    health = FAST_HEALTH | {"timeout_s": 0.1}
    async with pool([stick, answers[0]], [answers[1]], dialect=dialect, health=health) as (
        gateway,
        prefill,
        _,
        _,
    ):
        asking = []
        while not hung.is_set():
            asking.append(asyncio.create_task(gateway.chat()))
            await asyncio.wait(asking[-1:], timeout=0.05)
        prefill[0].deaf = True
        assert {status for status, _, _ in await asyncio.gather(*asking)} == {200}
        await idle(gateway)


async def test_the_metrics_tell_who_prefilled_and_why():
    async with pool([prefilled], [answer_ok]) as (gateway, _, _, _):
        await gateway.chat()
        await gateway.chat(n=2)
        registry = gateway.gateway.metrics.registry
        for where, reason in (
            ("elsewhere", "many uncached tokens"),
            ("alone", "it asks for several answers"),
        ):
            labels = {"where": where, "reason": reason}
            assert registry.get_sample_value("radixway_prefills_total", labels) == 1


async def test_without_a_prefill_worker_left_the_decode_worker_does_it_all():
    async with pool([die], [answer_ok]) as (gateway, _, (d,), _):
        status, _, headers = await gateway.chat()
        assert status == 200 and "kv_transfer_params" not in d.requests[0].json()
        assert (await steps_of(gateway, headers))["select"]["prefill"][
            "reason"
        ] == "no prefill worker has room"
        await idle(gateway)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_decode_worker_that_dies_before_its_first_byte_is_replaced_and_the_prefill_repeated(stream):
    async with pool([prefilled], [die, stream_ok if stream else answer_ok]) as (
        gateway,
        (p,),
        (bad, good),
        _,
    ):
        for number in range(4):
            messages = [{"role": "user", "content": f"{number} " * 200}]
            body = {"model": "m", "messages": messages, "stream": stream}
            async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
                assert response.status == 200 and "ok" in await response.text()
                assert response.headers["x-radixway-worker"] == name_of(good)
        assert len(good.requests) == 4 and len(bad.requests) >= 1
        assert len(p.requests) == len(good.requests) + len(bad.requests)
        await idle(gateway)


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
@pytest.mark.parametrize("where", ["prefill", "decode"])
async def test_a_client_that_leaves_frees_both_places_at_once(where, dialect):
    behaviours = (
        {"prefill": hang, "decode": hang} if where == "prefill" else {"prefill": prefilled, "decode": hang}
    )
    async with pool([behaviours["prefill"]], [behaviours["decode"]], dialect=dialect) as (
        gateway,
        (p,),
        (d,),
        _,
    ):
        asking = asyncio.create_task(gateway.chat())
        await reached(p if where == "prefill" else d)
        asking.cancel()
        await idle(gateway)
        async with asyncio.timeout(10):
            await (p if where == "prefill" else d).hung_up.wait()


async def meet(exchange: Exchange) -> None:
    await exchange.reply(200, b'{"choices": [{"message": {"content": "dropped"}}]}')


@pytest.mark.parametrize("stream", [False, True])
async def test_sglang_asks_both_at_once_and_the_prefills_answer_is_dropped(stream):
    met = asyncio.Event()

    async def prefill(exchange: Exchange) -> None:
        await asyncio.wait_for(met.wait(), 10)  # it waits for the decode worker to come
        await (stream_ok if stream else meet)(exchange)

    async def decode(exchange: Exchange) -> None:
        met.set()
        await (stream_ok if stream else answer_ok)(exchange)

    async with pool([prefill], [decode], dialect="sglang") as (gateway, (p,), (d,), _):
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
            answer = await response.text()
        assert "ok" in answer and "dropped" not in answer
        await idle(gateway)
        first, second = p.requests[0].json(), d.requests[0].json()
        assert first == second
        room = first.pop("bootstrap_room")
        assert isinstance(room, int) and 0 <= room < 2**63
        assert first == body | {"bootstrap_host": "127.0.0.1", "bootstrap_port": 8998}


async def test_sglangs_rooms_are_never_used_twice_not_even_after_a_failure():
    async with pool([meet], [die, answer_ok], dialect="sglang") as (gateway, (p,), _, _):
        for _ in range(4):
            assert (await gateway.chat())[0] == 200
        rooms = [exchange.json()["bootstrap_room"] for exchange in p.requests]
        assert len(rooms) > 4 and len(set(rooms)) == len(rooms)
        await idle(gateway)


@pytest.mark.parametrize("failure", [die, 500])
async def test_a_prefill_worker_of_sglang_that_fails_takes_its_decode_worker_from_waiting(failure):
    async def fail(exchange: Exchange) -> None:
        await (failure(exchange) if callable(failure) else exchange.reply(failure, b"{}"))

    async def decode(exchange: Exchange) -> None:
        if exchange.json()["bootstrap_host"] == "localhost":  # the one that fails
            await exchange.until_peer_leaves()
        else:
            await answer_ok(exchange)

    async with AsyncExitStack() as stack:
        bad, good, d = [
            await stack.enter_async_context(scripted_worker(behaviour)) for behaviour in (fail, meet, decode)
        ]
        bad_url = bad.url.replace("127.0.0.1", "localhost")
        sections = [
            {"url": url, "role": role, "disaggregation": "sglang"}
            for url, role in ((bad_url, "prefill"), (good.url, "prefill"), (d.url, "decode"))
        ]
        urls = [section["url"] for section in sections]
        gateway = await stack.enter_async_context(running_gateway(*urls, workers=sections, routing=REMOTE))
        for _ in range(3):
            assert (await gateway.chat())[0] == 200
        assert bad.requests
        await idle(gateway)


async def test_what_sglangs_prefill_worker_refuses_is_the_answer():
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(400, b'{"error": {"message": "too long"}}')

    async with pool([refuse], [hang], dialect="sglang") as (gateway, _, _, _):
        status, body, _ = await gateway.chat()
        assert (status, body["error"]["message"]) == (400, "too long")
        await idle(gateway)


async def test_sglangs_decode_workers_are_no_use_without_a_prefill_worker():
    async with pool([meet], [answer_ok], dialect="sglang") as (gateway, (p,), (d,), _):
        assert (await gateway.get("/ready"))[0] == 200
        await p.kill()
        await gateway.until(p.url, WorkerState.DOWN)
        status, body, _ = await gateway.chat()
        assert (status, body["error"]["code"]) == (503, "no_workers")
        assert (await gateway.get("/ready"))[0] == 503
        assert not d.requests


async def test_a_pool_of_workers_that_do_both_works_beside_a_prefill_worker():
    async with pool([prefilled], [], both=[answer_ok]) as (gateway, (p,), _, (both,)):
        status, _, headers = await gateway.chat()
        assert status == 200 and headers["x-radixway-worker"] == name_of(both)
        assert not p.requests and "prefill" not in (await steps_of(gateway, headers))["select"]


async def test_a_full_prefill_worker_leaves_the_prompt_to_the_decode_worker():
    async with pool([hang], [answer_ok] * 2, max_in_flight_per_worker=1) as (gateway, (p,), _, _):
        first = asyncio.create_task(gateway.chat())
        await reached(p)
        status, _, headers = await gateway.chat()
        assert status == 200
        assert (await steps_of(gateway, headers))["select"]["prefill"][
            "reason"
        ] == "no prefill worker has room"
        first.cancel()
        await idle(gateway)


async def test_faults_in_every_order_leave_no_place_taken():
    """Workers that fail by turns, many requests at once, clients that leave: the ledger is empty after it."""
    turns = iter(range(10**6))

    def moody(fine):
        async def behave(exchange: Exchange) -> None:
            match next(turns) % 5:
                case 0:
                    exchange.die()
                case 1:
                    await exchange.reply(503, b"{}")
                case _:
                    await fine(exchange)

        return behave

    for dialect, prefill in (("vllm", prefilled), ("sglang", meet)):
        async with pool([moody(prefill)] * 2, [moody(stream_ok)] * 2, dialect=dialect) as (gateway, _, _, _):

            async def ask(number, gateway=gateway):
                body = {
                    "model": "m",
                    "messages": [{"role": "user", "content": f"{number} " * 99}],
                    "stream": True,
                }
                async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
                    return response.status, await response.read()

            asking = [asyncio.create_task(ask(number)) for number in range(40)]
            for task in asking[::7]:
                task.cancel()
            done = await asyncio.gather(*asking, return_exceptions=True)
            answers = [answer for answer in done if isinstance(answer, tuple)]
            assert any(status == 200 for status, _ in answers)
            assert all(b"[DONE]" in text for status, text in answers if status == 200)
            await idle(gateway)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prefill_worker_of_sglang_that_says_nothing_after_its_kv_was_used_is_let_go(
    monkeypatch, stream
):
    monkeypatch.setattr("radixway.routing.transports.disaggregated_dispatch._PREFILL_GRACE_S", 0.01)
    decode = stream_ok if stream else answer_ok
    async with pool([hang], [decode], dialect="sglang") as (gateway, (p,), _, _):
        assert gateway.gateway.registry.get_worker(p.url) is not None
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=body) as response:
            assert response.status == 200 and "ok" in await response.text()
        await idle(gateway)


async def test_what_a_client_says_of_transfers_reaches_no_engine_of_ours_not_even_one_given_another_role():
    decodes = {"engine": "radixway", "disaggregation_mode": "decode"}
    async with scripted_worker(answer_ok, info=decodes) as worker:
        section = {"url": worker.url, "role": "prefill", "disaggregation": "sglang"}
        async with running_gateway(worker.url, workers=[section]) as gateway:
            (known,) = gateway.gateway.registry
            assert (known.role, known.dialect) == ("any", "radixway")
            said = {"bootstrap_host": "10.0.0.1", "bootstrap_port": 22, "bootstrap_room": 7}
            status, _, _ = await gateway.post(
                "/v1/chat/completions",
                {"model": "m", "messages": [{"role": "user", "content": "hello"}]} | said,
            )
            assert status == 200
        (asked,) = (each for each in worker.requests if each.method == "POST")
        assert not said.keys() & asked.json().keys()


async def test_a_prefill_that_comes_as_events_counts_by_its_kv_and_not_by_its_end():
    async def prefill_as_events(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b'data: {"choices": [{"delta": {"content": "o"}}]}\n\n')
        await exchange.end_stream()
        prefilled_once.set()

    async def decode(exchange: Exchange) -> None:
        await prefilled_once.wait()
        await stream_ok(exchange)

    prefilled_once = asyncio.Event()
    async with pool([prefill_as_events], [decode], dialect="sglang") as (gateway, (p,), (d,), _):
        url = gateway.url + "/v1/chat/completions"
        body = {"model": "m", "messages": [{"role": "user", "content": "hello " * 500}], "stream": True}
        async with gateway.client.post(url, json=body) as response:
            assert response.status == 200 and (await response.read()).endswith(b"[DONE]\n\n")
            assert response.headers["x-radixway-prefill-worker"] == name_of(p)
        await idle(gateway)
        assert len(p.requests) == len(d.requests) == 1
