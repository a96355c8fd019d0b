"""Over real sockets: sequence numbers, replay, endpoints, and an engine that is never kept waiting."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event as Flag

import pytest
import zmq

from radixway.engine.errors import EngineError
from radixway.engine.kv_events import BlockRemoved, ZmqEventPublisher
from radixway.engine.kv_events import publisher as publisher_module
from support.following import events_of

END = (b"\xff" * 8, b"")
WAIT_MS = 20_000


@pytest.fixture
def context() -> Iterator[zmq.Context]:
    with zmq.Context() as made:
        yield made


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def opened(context: zmq.Context, kind: int) -> zmq.Socket:
    """A socket that fails rather than wait for ever."""
    socket = context.socket(kind)
    socket.linger, socket.rcvtimeo = 0, WAIT_MS
    return socket


def replayed(context: zmq.Context, endpoint: str, start: int) -> list[tuple[bytes, bytes]]:
    """Every answer to a question for replay, the end included, by a DEALER socket."""
    with opened(context, zmq.DEALER) as socket:
        socket.connect(endpoint)
        socket.send_multipart((b"", start.to_bytes(8, "big")))
        answers = []
        while END not in answers:
            empty, sequence, payload = socket.recv_multipart()
            assert empty == b""
            answers.append((sequence, payload))
        return answers


def batch(number: int) -> list[BlockRemoved]:
    return [BlockRemoved([number], "GPU")]


def numbers(answers: list[tuple[bytes, bytes]]) -> list[int]:
    assert answers[-1] == END
    found = [int.from_bytes(sequence, "big") for sequence, _ in answers[:-1]]
    assert [events_of(payload)[0]["block_hashes"] for _, payload in answers[:-1]] == [[n] for n in found]
    return found


def test_a_subscriber_gets_topic_sequence_and_payload(context: zmq.Context, closing: ExitStack) -> None:
    sender = ZmqEventPublisher("tcp://127.0.0.1:*", topic="kv@here")
    closing.callback(sender.shutdown)
    with opened(context, zmq.SUB) as socket:
        socket.subscribe("kv@")
        socket.connect(sender.info.endpoint)
        count = 0
        while not socket.poll(50):  # until the subscription has arrived
            sender.publish_events(batch(count))
            count += 1
        topic, first, _ = socket.recv_multipart()
        for number in range(int.from_bytes(first, "big") + 1, 500):
            while count <= number:
                sender.publish_events(batch(count))
                count += 1
            topic, sequence, payload = socket.recv_multipart()
            assert topic == b"kv@here" and sequence == number.to_bytes(8, "big")
            assert events_of(payload) == [{"type": "BlockRemoved", "block_hashes": [number], "medium": "GPU"}]


def test_what_was_missed_is_replayed_from_the_number_asked_for(
    context: zmq.Context, closing: ExitStack
) -> None:
    sender = ZmqEventPublisher("tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*", replay_batches=50)
    for number in range(120):
        sender.publish_events(batch(number))
    endpoint = sender.info.replay_endpoint
    while not sender._history.batches_since(119):
        pass
    assert numbers(replayed(context, endpoint, 0)) == list(range(70, 120)), "older ones are gone"
    assert numbers(replayed(context, endpoint, 115)) == [115, 116, 117, 118, 119]
    assert replayed(context, endpoint, 120) == [END]
    closing.callback(sender.shutdown)


def test_a_req_socket_gets_its_first_answer_in_two_frames(context: zmq.Context, closing: ExitStack) -> None:
    sender = ZmqEventPublisher("tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*")
    closing.callback(sender.shutdown)
    with opened(context, zmq.REQ) as socket:
        socket.connect(sender.info.replay_endpoint)
        socket.send((0).to_bytes(8, "big"))
        assert tuple(socket.recv_multipart()) == END


def test_a_nonsensical_question_harms_nobody(context: zmq.Context, closing: ExitStack) -> None:
    sender = ZmqEventPublisher("tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*")
    closing.callback(sender.shutdown)
    with opened(context, zmq.DEALER) as socket:
        socket.connect(sender.info.replay_endpoint)
        socket.send_multipart((b"", b"what?"))
        socket.send(b"")
        assert replayed(context, sender.info.replay_endpoint, 0) == [END]
    assert replayed(context, sender.info.replay_endpoint, 0) == [END]


def test_publishing_never_waits_and_what_is_lost_is_a_gap(
    context: zmq.Context, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, go_on = Flag(), Flag()
    encode = publisher_module.encode_batch

    def slowly(*args):
        held.set()
        assert go_on.wait(20)
        return encode(*args)

    monkeypatch.setattr(publisher_module, "encode_batch", slowly)
    sender = ZmqEventPublisher("tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*", queued_batches=5)
    closing.callback(sender.shutdown)
    sender.publish_events(batch(0))
    assert held.wait(20)
    for number in range(1, 100):
        sender.publish_events(batch(number))
    info = sender.info
    assert (info.published_batches, info.dropped_batches) == (6, 94)
    go_on.set()
    while not sender._queue.empty():
        pass
    sender.publish_events(batch(100))
    while not sender._history.batches_since(100):
        pass
    assert numbers(replayed(context, info.replay_endpoint, 0)) == [0, 1, 2, 3, 4, 5, 100]


def test_an_endpoint_without_a_wildcard_is_connected_to(context: zmq.Context, closing: ExitStack) -> None:
    with opened(context, zmq.SUB) as socket:
        socket.subscribe("")
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        sender = ZmqEventPublisher(f"tcp://127.0.0.1:{port}")
        closing.callback(sender.shutdown)
        while not socket.poll(50):
            sender.publish_events(batch(1))
        assert events_of(socket.recv_multipart()[2])[0]["block_hashes"] == [1]


def test_ipc_endpoints_are_bound(tmp_path: Path, context: zmq.Context, closing: ExitStack) -> None:
    sender = ZmqEventPublisher(f"ipc://{tmp_path}/events", replay_endpoint=f"ipc://{tmp_path}/replay")
    closing.callback(sender.shutdown)
    assert replayed(context, f"ipc://{tmp_path}/replay", 0) == [END]


def test_an_endpoint_that_is_taken_is_told_in_a_sentence(closing: ExitStack) -> None:
    sender = ZmqEventPublisher("tcp://127.0.0.1:*")
    closing.callback(sender.shutdown)
    port = sender.info.endpoint.rpartition(":")[2]
    with pytest.raises(
        EngineError, match=f"tcp://\\*:{port}: Address already in use; give another kv_events_e"
    ):
        ZmqEventPublisher(f"tcp://*:{port}")
    with pytest.raises(EngineError, match=f"tcp://\\*:{port}: .* give another kv_events_replay_endpoint"):
        ZmqEventPublisher("tcp://127.0.0.1:*", replay_endpoint=f"tcp://*:{port}")
