"""What Envoy is told frame by frame, whatever the worker, a middleware, the gateway or Envoy itself do."""

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
from starlette.middleware.base import BaseHTTPMiddleware

from envoy_frames import BUFFERED, envoy_of, headers_message, immediate, tell
from radixway.pipeline import Chunks, GatewayError, Reply
from radixway.routing import WorkerState
from running_gateway import running_gateway
from scripted_worker import scripted_worker

CHAT = "/v1/chat/completions"
HEAD = [(":method", "POST"), (":path", CHAT), (":authority", "envoy"), (":scheme", "http")]
DOOR = {"enabled": True, "port": 0}


def chat(**fields):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}).encode()


def event(text):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def three_events(exchange):
    await exchange.begin_stream()
    await exchange.chunk(event("one") + event("two") + event("three") + DONE)
    await exchange.end_stream()


class Mapped(Chunks):
    """A stream whose chunks are `change`d; None ends it early."""

    def __init__(self, chunks, change):
        self._chunks, self._change, self._ended = chunks, change, False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._ended:
            raise StopAsyncIteration
        try:
            chunk = self._change(await anext(self._chunks))
        except StopAsyncIteration:
            self._ended = True
            if (last := self._change(None)) is None:
                raise
            return last
        if chunk is None:
            self._ended = True
            return b"data: stopped\n\n" + DONE
        return chunk

    async def aclose(self):
        await self._chunks.aclose()


class Holding:
    """Keeps every chunk until the next has come."""

    def __init__(self, services):
        pass

    async def __call__(self, request, call_next):
        reply, held = await call_next(request), [b""]

        def late(chunk):
            held.append(chunk or b"")
            return held.pop(0)

        reply.chunks = Mapped(reply.chunks, late)
        return reply


class Peeking(Holding):
    """Reads the beginning of the stream before it answers, with a header that comes too late then."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        first = await anext(reply.chunks)
        reply.headers.append((b"x-seen", b"yes"))
        begun = iter([first])
        inner = reply.chunks

        class Again(Mapped):
            async def __anext__(self):
                return next(begun, None) or await anext(inner)

        reply.chunks = Again(inner, None)
        return reply


class Outer(BaseHTTPMiddleware):
    """Stands around the whole gateway."""

    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers["x-outer"] = "yes"
        return response


class Stopping(Holding):
    """Ends the stream after the first chunk."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        reply.chunks = Mapped(reply.chunks, lambda chunk: None)
        return reply


class Impatient(Holding):
    """Ends the stream while it waits for the second chunk."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        inner = reply.chunks

        class Two(Mapped):
            pulled = None

            async def __anext__(self):
                if self.pulled is None:
                    self.pulled = asyncio.create_task(anext(inner))
                    return await self.pulled
                if self._ended:
                    raise StopAsyncIteration
                self._ended = True
                self.pulled = asyncio.create_task(anext(inner))
                await asyncio.sleep(0)  # it begins
                return b"data: enough\n\n"

        reply.chunks = Two(inner, None)
        return reply


class Refusing(Holding):
    """Puts an answer of its own in place of what came."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        return Reply(403, [(b"content-type", b"text/plain"), (b"x-why", b"no")], reply.worker, b"refused")


class Renaming(Holding):
    """Changes body and headers of whole answers."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        reply.body = reply.body.replace(b"ok", b"better")
        reply.headers = [(b"content-type", b"application/json"), (b"x-two", b"a"), (b"x-two", b"b")]
        return reply


class Failing(Holding):
    """Has a defect."""

    async def __call__(self, request, call_next):
        raise ZeroDivisionError


class FailingLate(Holding):
    """Has one in the middle of the answer."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)

        def fail(chunk):
            raise GatewayError("broken on purpose", code="late")

        reply.chunks = Mapped(reply.chunks, fail)
        return reply


class Waiting(Holding):
    """Never comes to an end."""

    async def __call__(self, request, call_next):
        await asyncio.Event().wait()


def with_(*middlewares):
    return {"pipeline": {"middlewares": [f"{__name__}.{each.__name__}" for each in middlewares]}}


@pytest.mark.parametrize("piece_bytes", [1, 7, 1 << 20])
async def test_events_divided_anyhow_arrive_whole_and_in_order(piece_bytes):
    async with scripted_worker(three_events) as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            envoy.piece_bytes = piece_bytes
            heard = await envoy.ask("POST", CHAT, body=chat(stream=True))
            assert heard.body == event("one") + event("two") + event("three") + DONE
            assert all(piece.endswith(b"\n\n") for piece in heard.pieces if piece)
            assert heard.header("content-type") == "text/event-stream"
            assert heard.header("x-radixway-worker") == worker.url.removeprefix("http://")


async def test_what_a_middleware_holds_back_comes_with_a_later_frame():
    async with (
        scripted_worker(three_events) as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Holding)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        envoy.piece_bytes = len(event("one"))
        heard = await envoy.ask("POST", CHAT, body=chat(stream=True))
        assert heard.pieces[:2] == [b"", event("one")]
        assert heard.body == event("one") + event("two") + event("three") + DONE


async def test_a_middleware_that_reads_before_it_answers_does_not_stop_the_stream():
    async with (
        scripted_worker(three_events) as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Peeking)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat(stream=True))
        assert heard.body == event("one") + event("two") + event("three") + DONE
        assert heard.header("x-seen") is None  # the head had to go first


async def test_a_middleware_of_starlettes_kind_adds_its_headers_to_streams_too():
    async with (
        scripted_worker(three_events) as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Outer)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        for stream in (True, False):
            heard = await envoy.ask("POST", CHAT, body=chat(stream=stream))
            assert heard.header("x-outer") == "yes" and heard.header("x-radixway-worker")


async def test_a_stream_that_is_ended_early_stays_ended():
    async with (
        scripted_worker(three_events) as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Stopping)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        envoy.piece_bytes = 8
        heard = await envoy.ask("POST", CHAT, body=chat(stream=True))
        assert heard.body == b"data: stopped\n\n" + DONE
        assert gateway.in_flight() == 0


async def test_a_stream_that_ends_between_two_frames_ends_with_the_second():
    async with (
        scripted_worker(three_events) as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Impatient)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        call = await handed_over(envoy, stream=True)
        await tell(call, response_headers=headers_message([(":status", "200")]))
        first = await tell(call, response_body=HttpBody(body=event("one")))
        assert not first.response_body.response.HasField("body_mutation")  # it stays as it is
        second = await tell(call, response_body=HttpBody(body=event("two"), end_of_stream=True))
        assert second.response_body.response.body_mutation.body == b"data: enough\n\n"


async def test_a_defect_in_the_middle_of_a_stream_is_its_last_event():
    async with (
        scripted_worker(three_events) as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(FailingLate)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat(stream=True))
        assert json.loads(heard.body.removeprefix(b"data: "))["error"]["code"] == "late"
        assert gateway.in_flight() == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_in_place_of_the_workers_is_the_only_one(stream):
    async def answer(exchange):
        await (three_events(exchange) if stream else exchange.reply(200, b'{"secret": 1}'))

    async with (
        scripted_worker(answer) as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Refusing)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat(stream=stream))
        assert (heard.at_once, heard.status, heard.body) == (True, 403, b"refused")
        assert heard.header("x-why") == "no"
        assert gateway.in_flight() == 0


async def test_whole_answers_may_be_changed_with_their_headers():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, ext_proc=DOOR, **with_(Renaming)) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat())
        assert json.loads(heard.body)["choices"][0]["message"]["content"] == "better"
        assert [value for name, value in heard.headers if name == "x-two"] == ["a", "b"]
        assert heard.header("content-length") is None  # Envoy counts


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
    from radixway.surfaces.extproc import conversation

    def broken(*_):
        raise ZeroDivisionError

    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            monkeypatch.setattr(conversation.Head, "of", broken)
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


async def handed_over(envoy, **fields):
    """A call whose request is with its worker."""
    call = envoy.call()
    message = ProcessingRequest(request_headers=headers_message(HEAD), protocol_config=BUFFERED)
    await tell(call, message)
    said = await tell(call, request_body=HttpBody(body=chat(**fields), end_of_stream=True))
    assert said.HasField("request_body")
    return call


@pytest.mark.parametrize("leave", ["cancel", "done_writing"])
async def test_when_envoy_leaves_the_place_at_the_worker_is_free(leave):
    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        async with envoy_of(gateway) as envoy:
            call = await handed_over(envoy)
            assert gateway.in_flight() == 1
            freed = asyncio.Event()
            ledger = next(iter(gateway.gateway.registry)).load
            book, keep = gateway.gateway.journals, gateway.gateway.journals.keep

            def kept(journal):
                keep(journal)
                freed.set()

            book.keep = kept
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
