"""Whatever is done to an embedded gateway, it says so: no call waits for ever, no cut answer looks whole."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from radixway import Radixway, RadixwayError
from radixway.gateway.embedded.asgi_exchange import InProcessExchange
from support.echoing_worker import PATIENCE_S, answering, worker_in_a_thread
from support.scripted_worker import scripted_worker


def at(worker, **sections):
    return Radixway(workers=[{"url": worker.url}], **sections)


@pytest.mark.parametrize("texts", [False, True])
async def test_an_event_that_is_not_waited_for_any_more_is_not_the_end(texts):
    async with scripted_worker(answering) as worker, at(worker) as radixway, asyncio.timeout(PATIENCE_S):
        async with radixway.stream_chat("hold") as stream:
            events = stream.texts() if texts else stream
            for _ in "hold":
                await anext(events)
            for _ in range(2):
                waiting = asyncio.create_task(anext(events))
                await asyncio.wait([waiting], timeout=0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            still = asyncio.create_task(anext(events))
            await asyncio.wait([still], timeout=0)
            assert not still.done()
            still.cancel()


async def test_an_application_that_ends_in_the_middle_is_not_taken_for_a_whole_answer():
    async def half(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with InProcessExchange(half, "GET", "/", [], b"") as exchange:
        with pytest.raises(RuntimeError, match="in the middle"):
            await exchange.read_body()


async def test_closing_ends_what_is_under_way_and_nothing_is_asked_afterwards():
    asked = asyncio.Event()

    async def noted(exchange) -> None:
        asked.set()
        await answering(exchange)

    async with scripted_worker(noted) as worker, asyncio.timeout(PATIENCE_S):
        async with at(worker) as radixway:
            calling = asyncio.create_task(radixway.chat("hold"))
            await asked.wait()
            stream = await radixway.stream_chat("hold").__aenter__()
            await anext(stream)
        await worker.hung_up.wait()

        async def read_on() -> None:
            async for _ in stream:
                pass

        for late in (calling, read_on(), radixway.chat("more"), radixway.call("GET", "/health")):
            with pytest.raises(RadixwayError, match="closed") as refused:
                await late
            assert (refused.value.status, refused.value.code) == (503, "closed")


async def test_a_stream_is_read_within_its_block_and_asked_for_once():
    async with scripted_worker(answering) as worker, at(worker) as radixway:
        stream = radixway.stream_chat("hello")
        for early in (stream, stream.texts()):
            with pytest.raises(RuntimeError, match="within"):
                await anext(early)
        async with stream:
            with pytest.raises(RuntimeError, match="once"):
                await stream.__aenter__()
            await anext(stream)
        with pytest.raises(RuntimeError, match="left"):
            [event async for event in stream]


async def test_a_call_from_another_event_loop_is_refused():
    async with scripted_worker(answering) as worker, at(worker) as radixway:
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, radixway.chat("hello"))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messages": None}, "messages"),
        ({"messages": 5}, "messages"),
        ({"messages": {"role": "user"}}, "messages"),
        ({"messages": "\ud800"}, "messages"),
        ({"temperature": object()}, "temperature"),
        ({"stream": True}, "stream"),
        ({"headers": 5}, "headers"),
        ({"headers": {"x": 5}}, "headers.x"),
        ({"headers": {"x": "a\r\nauthorization: b"}}, "headers.x"),
        ({"headers": {"x-é": "a"}}, "headers.x-é"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_field(fields, field):
    async with Radixway(with_engine=False) as radixway:
        with pytest.raises(RadixwayError) as refused:
            await radixway.chat(**({"messages": "hello"} | fields))
        assert (refused.value.status, refused.value.field) == (400, field)


def test_a_key_that_cannot_be_sent_is_refused_and_not_shown():
    with pytest.raises(ValueError, match="key") as refused:
        Radixway(key="secret\n")
    assert "secret" not in str(refused.value)


async def test_one_that_never_opened_closes_in_silence_and_stays_closed():
    radixway = Radixway(with_engine=False)
    opening = asyncio.create_task(radixway.open())
    await asyncio.wait([opening], timeout=0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await radixway.close()
    never = Radixway(with_engine=False)
    await never.close()
    with pytest.raises(RuntimeError, match="closed"):
        await never.open()


def test_one_whose_event_loop_has_ended_may_be_closed_in_another():
    radixway = Radixway(with_engine=False)
    asyncio.run(radixway.open())
    asyncio.run(radixway.close())


def test_threads_that_wait_while_it_is_closed_are_told():
    with worker_in_a_thread() as worker:
        radixway = at(worker).open_sync()
        stream = radixway.stream_chat("hold").__enter__()
        told = []

        def follow() -> None:
            with pytest.raises(RadixwayError) as refused:
                for event in stream:
                    told.append(event)
            told.append(refused.value.code)

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        radixway.close()
        following.join(PATIENCE_S)
        assert told[-1] == "closed"
        for late in (lambda: radixway.chat("more"), lambda: radixway.stream_chat("more").__enter__()):
            with pytest.raises(RadixwayError, match="closed"):
                late()


def test_a_forked_process_is_told_to_open_its_own():
    with Radixway(with_engine=False) as radixway:
        read, write = os.pipe()
        if not (child := os.fork()):
            with suppress(BaseException):
                try:
                    radixway.call("GET", "/health")
                except RuntimeError as error:
                    os.write(write, str(error).encode())
                radixway.close()
                os.write(write, b"; closed")
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as told:
            assert b"fork" in (said := told.read()) and said.endswith(b"; closed")
        os.waitpid(child, 0)
        assert radixway.call("GET", "/health").status == 200


def test_one_that_is_open_is_not_opened_again_and_goes_on():
    radixway = Radixway(with_engine=False)
    with radixway as opened:
        with pytest.raises(RuntimeError, match="opened once"):
            radixway.open_sync()
        assert opened.call("GET", "/health").status == 200


def test_one_that_is_open_when_the_interpreter_ends_is_closed_then(tmp_path):
    program = """
from radixway import Radixway
radixway = Radixway(with_engine=False)
radixway.close = lambda close=radixway.close: print("closing") or close()
radixway.open_sync()
"""
    environment = os.environ | {"RADIXWAY_HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 4,
    )
    assert (told.returncode, told.stdout) == (0, "closing\n")
    assert "destroyed" not in told.stderr and "ignored" not in told.stderr
