"""What a client gets of a worker's answer, frame by frame, whatever middlewares do to it."""

import json

import pytest

pytest.importorskip("grpc")

from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpBody,
)

from support.envoy_frames import CHAT, chat, envoy_of, handed_over, headers_message, tell
from support.envoy_middlewares import (
    FailingLate,
    Holding,
    Impatient,
    Outer,
    Peeking,
    Refusing,
    Renaming,
    Stopping,
    with_,
)
from support.running_gateway import running_gateway
from support.scripted_worker import answer_ok, scripted_worker

DOOR = {"enabled": True, "port": 0}


def event(text):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def three_events(exchange):
    await exchange.begin_stream()
    await exchange.chunk(event("one") + event("two") + event("three") + DONE)
    await exchange.end_stream()


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
        for stream, behaviour in ((True, three_events), (False, answer_ok)):
            worker.behaviour = behaviour
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


async def test_an_answer_that_is_too_large_is_a_502():
    async def large(exchange):
        await exchange.reply(200, b'{"choices": [], "padding": "%s"}' % (b"x" * 3000))

    limits = {"workers": {"max_answer_bytes": 2000}}
    async with (
        scripted_worker(large) as worker,
        running_gateway(worker.url, ext_proc=DOOR, limits=limits) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat())
        assert heard.status == 502
        assert "limits.workers.max_answer_bytes" in json.loads(heard.body)["error"]["message"]
        assert gateway.in_flight() == 0


@pytest.mark.parametrize("torn", [b"", event("two")[:20]])
async def test_a_stream_that_is_not_whole_ends_with_an_error_event(torn):
    async def cut(exchange):
        await exchange.begin_stream()
        await exchange.chunk(event("one") + torn)
        await exchange.end_stream()

    async with (
        scripted_worker(cut) as worker,
        running_gateway(worker.url, ext_proc=DOOR) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat(stream=True))
        assert heard.body.startswith(event("one") + b"data: {")
        said = json.loads(heard.body.removeprefix(event("one") + b"data: "))
        assert said["error"]["code"] == "stream_broken"
        assert gateway.in_flight() == 0


async def test_a_reply_that_is_not_whole_becomes_an_error():
    async def cut(exchange):
        await exchange.reply(200, b'{"choices": [{"message": {"con')

    async with (
        scripted_worker(cut) as worker,
        running_gateway(worker.url, ext_proc=DOOR) as gateway,
        envoy_of(gateway) as envoy,
    ):
        heard = await envoy.ask("POST", CHAT, body=chat())
        assert (heard.status, json.loads(heard.body)["error"]["code"]) == (502, "worker_failed")
        assert gateway.in_flight() == 0
