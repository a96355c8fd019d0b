"""What Envoy is told whatever the gateway, its configuration or Envoy itself do: never nothing."""

import asyncio
import json
import logging

import pytest

pytest.importorskip("grpc")

import grpc
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpBody,
    ProcessingRequest,
    ProtocolConfiguration,
)

from radixway.routing import WorkerState
from support.envoy_frames import CHAT, HEAD, chat, envoy_of, handed_over, headers_message, immediate, tell
from support.envoy_middlewares import (
    Failing,
    Waiting,
    with_,
)
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

DOOR = {"enabled": True, "port": 0}


async def test_a_defect_of_ours_is_an_answer_and_no_error_of_the_call():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Failing)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat())
        assert (heard.at_once, heard.status) == (True, 500)
        assert worker.requests == []


async def test_a_defect_outside_of_the_road_is_an_answer_too(monkeypatch, caplog):
    from radixway.api.ext_proc import stream

    def broken(*_):
        raise ZeroDivisionError

    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            monkeypatch.setattr(stream.RequestHead, "from_envoy", broken)
            heard = await envoy.ask("POST", CHAT, body=chat())
            assert (heard.at_once, heard.status) == (True, 500)
            assert b"ZeroDivisionError" in heard.body


async def test_a_request_that_nobody_decides_about_ends_before_envoy_gives_up():
    door = DOOR | {"answer_within_s": 0.05}
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, ext_proc=door, **with_(Waiting)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat())
        assert (heard.at_once, heard.status) == (True, 504)
        assert json.loads(heard.body)["error"]["code"] == "deadline_exceeded"


async def test_one_timer_ends_every_request_that_nobody_decides_about():
    door = DOOR | {"answer_within_s": 0.05}
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, ext_proc=door, **with_(Waiting)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await asyncio.gather(*(envoy.ask("POST", CHAT, body=chat()) for _ in range(3)))
        assert [each.status for each in heard] == [504, 504, 504]
        assert (await envoy.ask("POST", CHAT, body=chat())).status == 504  # the timer is set again
        assert gateway.in_flight() == 0


async def test_a_request_with_nothing_around_its_handler_takes_no_asgi(monkeypatch):
    async def asgi(*_):
        raise AssertionError

    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            monkeypatch.setattr(type(gateway.gateway), "__call__", asgi)
            heard = await envoy.ask("POST", CHAT, body=chat())
            assert heard.status == 200 and len(worker.requests) == 1


async def test_the_clients_deadline_counts_here_too():
    async def silent(exchange):
        await exchange.until_peer_leaves()

    limits = {"request_timeout_s": 0.2}
    async with (
        scripted_worker(silent) as worker,
        running_gateway(worker.url, ext_proc=DOOR, gateway=limits) as gateway,
        envoy_of(gateway) as envoy,
    ):
        call = await handed_over(envoy)
        heard = immediate(await call.read())  # Envoy has said nothing: the worker is silent
        assert heard.status == 504
        assert gateway.in_flight() == 0


@pytest.mark.parametrize("leave", ["cancel", "done_writing"])
async def test_when_envoy_leaves_the_place_at_the_worker_is_free(leave):
    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            call = await handed_over(envoy)
            assert gateway.in_flight() == 1
            freed = asyncio.Event()
            ledger = next(iter(gateway.gateway.registry)).load
            book, keep = gateway.gateway.journals, gateway.gateway.journals.save_journal

            def kept(journal):
                keep(journal)
                freed.set()

            book.save_journal = kept
            done = getattr(call, leave)()
            if asyncio.iscoroutine(done):
                await done
            await freed.wait()
            assert ledger.requests == 0


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (ProcessingMode.NONE, ProcessingMode.BUFFERED),
        (ProcessingMode.STREAMED, ProcessingMode.BUFFERED),
        (ProcessingMode.BUFFERED_PARTIAL, ProcessingMode.BUFFERED),
        (ProcessingMode.BUFFERED, ProcessingMode.NONE),
    ],
)
async def test_an_envoy_that_would_not_show_whole_bodies_gets_nothing_through(request_, answer, caplog):
    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            call = envoy.call()
            configured = ProtocolConfiguration(request_body_mode=request_, response_body_mode=answer)
            message = ProcessingRequest(request_headers=headers_message(HEAD), protocol_config=configured)
            heard = immediate(await tell(call, message))
            assert heard.status == 500 and b"_body_mode BUFFERED" in heard.body
            told = [record.levelno for record in caplog.records if "_mode BUFFERED" in record.message]
            assert told == [logging.ERROR]


async def test_a_body_that_comes_in_pieces_does_not_pass_by_its_first(caplog):
    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            call = envoy.call()  # an Envoy that does not say how it is configured
            await tell(call, request_headers=headers_message(HEAD))
            heard = immediate(await tell(call, request_body=HttpBody(body=chat()[:20])))
            assert heard.status == 500 and worker.requests == []


async def test_an_answer_to_a_request_that_was_never_shown_does_not_pass():
    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            call = envoy.call()
            await tell(call, ProcessingRequest(request_headers=headers_message(HEAD)))
            heard = immediate(await tell(call, response_headers=headers_message([(":status", "200")])))
            assert heard.status == 500


async def test_paths_of_others_are_refused_unless_they_may_pass():
    for other_paths in ("refuse", "pass"):
        door = DOOR | {"other_paths": other_paths}
        async with running_gateway(ext_proc=door) as gateway, envoy_of(gateway) as envoy:
            for path in ("/add_worker", "/health", CHAT + "/", "/v1//chat/completions"):
                head = [(":method", "POST"), (":path", path), ("x-gateway-destination-endpoint", "1.2.3.4:5")]
                said = await tell(envoy.call(), request_headers=headers_message(head))
                if other_paths == "refuse":
                    assert immediate(said).status == 404
                    continue
                common = said.request_headers.response
                assert common.header_mutation.remove_headers == ["x-gateway-destination-endpoint"]
                assert common.clear_route_cache
                assert said.mode_override.response_header_mode == ProcessingMode.SKIP


async def test_a_worker_that_envoy_cannot_reach_is_no_destination():
    async with scripted_worker() as worker:
        for more, words in (
            ({"destinations": ["10.0.0.0/8"]}, "outside ext_proc.destinations"),
            ({"destinations": ["127.0.0.0/8"]}, None),
        ):
            async with (
                running_gateway(worker.url, ext_proc=DOOR | more) as gateway,
                envoy_of(gateway) as envoy,
            ):
                heard = await envoy.ask("POST", CHAT, body=chat())
                assert heard.status == (200 if words is None else 503)
                assert words is None or words.encode() in heard.body
                assert gateway.in_flight() == 0


async def test_a_named_worker_is_resolved_and_its_path_and_key_are_kept():
    async with scripted_worker() as worker:
        port = worker.url.rpartition(":")[2]
        given = {"url": f"http://localhost:{port}/base", "models": ["m"], "api_key": "worker-key"}
        async with running_gateway(wait=False, workers=[given], ext_proc=DOOR) as gateway:
            async with envoy_of(gateway) as envoy:
                await gateway.until(given["url"], WorkerState.READY)
                await envoy.ask("POST", CHAT, [("authorization", "Bearer mine")], chat())
                got = worker.requests[-1]
                assert got.path == "/base" + CHAT
                assert got.headers["authorization"] == "Bearer worker-key"


async def test_a_trusted_network_is_that_of_envoys_client_and_not_envoys_own():
    async with scripted_worker(models=["m", "n"]) as worker:
        section = {"trusted_hops": ["127.0.0.0/8"]}
        async with running_gateway(worker.url, ext_proc=DOOR, gateway=section) as gateway:
            async with envoy_of(gateway) as envoy:
                for address, model in (
                    ("", "m"),
                    ("10.1.1.1:99", "m"),
                    ("/a/socket", "m"),
                    ("socket:1", "m"),
                    ("127.0.0.1:99", "n"),
                    ("[::ffff:127.0.0.1]:99", "n"),
                ):
                    told = [("x-vsr-selected-model", "n")]
                    await envoy.ask("POST", CHAT, told, chat(), address)
                    assert worker.requests[-1].json()["model"] == model


async def test_a_workers_refusal_is_not_tried_elsewhere_because_that_is_for_envoy_to_do():
    async def busy(exchange):
        await exchange.reply(503, b"busy", "text/plain")

    async with scripted_worker(busy) as first, scripted_worker(busy) as second:
        async with (
            running_gateway(first.url, second.url, ext_proc=DOOR) as gateway,
            envoy_of(gateway) as envoy,
        ):
            heard = await envoy.ask("POST", CHAT, body=chat())
            assert (heard.status, heard.body, heard.at_once) == (503, b"busy", False)
            assert len(first.requests) + len(second.requests) == 1


async def test_a_redirect_of_a_worker_reaches_no_client():
    async def away(exchange):
        await exchange.reply(307, b"", "text/plain")

    async with scripted_worker(away) as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            heard = await envoy.ask("POST", CHAT, body=chat())
            assert (heard.status, heard.at_once) == (502, True)


async def test_the_call_ends_well_after_every_answer():
    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            call = envoy.call()
            assert (
                immediate(
                    await tell(call, request_headers=headers_message([(":path", "/x")], end_of_stream=True))
                ).status
                == 404
            )
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK
