"""Events pass whole, in order, whatever the pieces they arrive in and whatever `send` does."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import WorkerSettings
from radixway.core.http import server_sent_events
from radixway.core.pipeline import ReplyForm, StreamBrokenError, StreamEndDetector
from radixway.routing import LoadLedger, RoutingRequest, Worker
from radixway.routing.transports.event_stream import WorkerEventStream
from radixway.routing.transports.upstream_response import UpstreamLostError, UpstreamResponse


class NoConnection:
    """What an Answer needs of its connection."""

    class transport:  # noqa: N801 - stands for one
        pause_reading = resume_reading = abort = staticmethod(lambda: None)

    answer: UpstreamResponse

    def abort_connection(self, error):
        self.answer.end_body(error)
        self.answer.wake_reader()


def stream() -> tuple[UpstreamResponse, WorkerEventStream]:
    connection = NoConnection()
    answer = connection.answer = UpstreamResponse(connection)
    lease = LoadLedger().reserve(Worker(WorkerSettings(url="http://w")))
    return answer, WorkerEventStream(answer, "w", lease, StreamEndDetector(ReplyForm.CHAT))


DONE = b"data: [DONE]\n\n"
events = st.lists(st.sampled_from([b"data: a\n\n", b": ping\n\n", b"data: b\r\n\r\n"]), min_size=1)


@given(events, st.data())
def test_whatever_the_pieces_only_whole_events_pass_and_nothing_is_lost(parts, data):
    whole = b"".join(parts) + DONE
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    async def run() -> list[bytes]:
        answer, chunks = stream()
        sent: list[bytes] = []

        async def send(chunk: bytes) -> None:
            sent.append(chunk)

        passing = asyncio.ensure_future(chunks.pass_on(send))
        await asyncio.sleep(0)
        for piece in pieces:
            if piece:
                answer.append_body(piece)
            answer.wake_reader()
        answer.end_body()
        answer.wake_reader()
        await passing
        return sent

    sent = asyncio.run(run())
    assert b"".join(sent) == whole
    assert all(chunk.endswith((b"\n\n", b"\r\n\r\n")) for chunk in sent)


async def test_a_send_that_waits_keeps_the_order():
    answer, chunks = stream()
    sent: list[bytes] = []
    go_on = asyncio.Event()

    async def slow(chunk: bytes) -> None:
        await asyncio.sleep(0)
        await go_on.wait()
        sent.append(chunk)

    passing = asyncio.ensure_future(chunks.pass_on(slow))
    await asyncio.sleep(0)
    for n in range(5):
        answer.append_body(b"data: %d\n\n" % n)
        answer.wake_reader()
    answer.append_body(DONE)
    answer.end_body()
    answer.wake_reader()
    await asyncio.sleep(0)
    assert not sent
    go_on.set()
    await passing
    assert b"".join(sent) == b"".join(b"data: %d\n\n" % n for n in range(5)) + DONE


@pytest.mark.parametrize("waits", [False, True])
async def test_a_send_that_raises_ends_the_stream_with_its_error(waits):
    answer, chunks = stream()

    async def broken(chunk: bytes) -> None:
        if waits:
            await asyncio.sleep(0)
        raise ValueError("no")

    passing = asyncio.ensure_future(chunks.pass_on(broken))
    await asyncio.sleep(0)
    answer.append_body(b"data: 1\n\n")
    answer.end_body()
    answer.wake_reader()
    async with asyncio.timeout(5):
        with pytest.raises(ValueError):
            await passing


async def test_a_lost_answer_gives_what_arrived_and_then_breaks():
    answer, chunks = stream()
    sent: list[bytes] = []

    async def send(chunk: bytes) -> None:
        sent.append(chunk)

    answer.append_body(b"data: 1\n\ndata: 2")
    assert await chunks.wait_first_event()
    answer.end_body(UpstreamLostError("gone"))
    with pytest.raises(StreamBrokenError):
        await chunks.pass_on(send)
    assert sent == [b"data: 1\n\n"]
    with pytest.raises(StreamBrokenError):
        await anext(chunks)


@pytest.mark.parametrize("told", [DONE, b'data: {"error": {"message": "full"}}\n\n'])
@pytest.mark.parametrize("way", ["pass_on", "iterate"])
async def test_how_a_connection_ends_after_the_streams_own_end_does_not_matter(told, way):
    answer, chunks = stream()
    ends: list[bool] = []
    chunks._on_end = ends.append
    answer.append_body(b"data: a\n\n" + told)
    answer.end_body(UpstreamLostError("reset"))
    sent: list[bytes] = []

    async def send(chunk: bytes) -> None:
        sent.append(chunk)

    if way == "pass_on":
        await chunks.pass_on(send)
    else:
        sent = [chunk async for chunk in chunks]
    assert b"".join(sent) == b"data: a\n\n" + told and ends == [True]


async def test_closing_gives_the_lease_back_once():
    worker = Worker(WorkerSettings(url="http://w"))
    lease = LoadLedger().reserve(worker, RoutingRequest(stream=True))
    chunks = WorkerEventStream(
        UpstreamResponse(NoConnection()), "w", lease, StreamEndDetector(ReplyForm.CHAT)
    )
    assert (worker.load.requests, worker.load.streams) == (1, 1)
    await chunks.aclose()
    await chunks.aclose()
    assert (worker.load.requests, worker.load.streams) == (0, 0)


async def test_an_event_without_end_breaks_the_stream(monkeypatch):
    monkeypatch.setattr(server_sent_events, "MAX_EVENT_BYTES", 1000)
    answer, chunks = stream()
    sent: list[bytes] = []

    async def send(chunk: bytes) -> None:
        sent.append(chunk)

    passing = asyncio.ensure_future(chunks.pass_on(send))
    await asyncio.sleep(0)
    answer.append_body(b"data: a\n\ndata: ")
    answer.wake_reader()
    for _ in range(30):
        answer.append_body(b"x" * 100)
        answer.wake_reader()
    with pytest.raises(StreamBrokenError, match="more than 1000 bytes"):
        await passing
    assert sent == [b"data: a\n\n"]


@pytest.mark.parametrize("rest", [b"", b'data: {"n": ', b'data: {"n": 1}'])
async def test_a_stream_that_ends_in_order_and_shows_no_end_breaks(rest):
    answer, chunks = stream()
    sent: list[bytes] = []

    async def send(chunk: bytes) -> None:
        sent.append(chunk)

    passing = asyncio.ensure_future(chunks.pass_on(send))
    await asyncio.sleep(0)
    answer.append_body(b"data: a\n\n")
    answer.wake_reader()
    answer.append_body(rest)
    answer.end_body()
    answer.wake_reader()
    with pytest.raises(StreamBrokenError) as broken:
        await passing
    assert broken.value.truncated
    assert sent == [b"data: a\n\n"], "what is torn is not sent: an error event can follow"


async def test_a_stream_that_is_cut_before_anything_of_it_was_read_is_lost():
    answer, chunks = stream()
    answer.append_body(b"data: a\n\n")
    answer.end_body()
    with pytest.raises(UpstreamLostError, match="finish reason"):
        await chunks.wait_first_event()
