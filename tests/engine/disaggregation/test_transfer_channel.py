"""Frames between engines: what was changed on the way is not taken, whatever it is."""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conftest import Reference
from radixway.engine.disaggregation.kv_chunks import receive_segment, send_segment
from radixway.engine.disaggregation.transfer_channel import (
    HEADER_BYTES,
    IN_STREAM,
    KV,
    FrameHeader,
    KVTransferError,
    TransferChannel,
    TransferDone,
    TransferFailure,
    TransferGreeting,
    TransferRequest,
    decode_message,
    encode,
)
from support.driving import random_tokens
from support.pairs import GREEDY, pair, tokens, transfers, whole


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


@given(payload=st.binary(min_size=1, max_size=200), data=st.data())
def test_a_bit_that_was_turned_in_header_or_payload_is_seen(payload: bytes, data: st.DataObject) -> None:
    frame = FrameHeader(KV, len(payload), IN_STREAM, 2, 64, 16).pack_header(payload) + payload
    at = data.draw(st.integers(0, 8 * len(frame) - 1))
    spoilt = bytearray(frame)
    spoilt[at // 8] ^= 1 << at % 8
    with pytest.raises(KVTransferError):
        FrameHeader.unpack_header(bytes(spoilt[:HEADER_BYTES])).verify_checksum(bytes(spoilt[HEADER_BYTES:]))


@pytest.mark.parametrize(
    "message",
    [
        TransferGreeting(1, "name"),
        TransferRequest(2**63 - 1, "i", 0, 2**31, "t"),
        TransferDone(),
        TransferFailure("why"),
    ],
)
def test_messages_are_what_they_were(
    message: TransferGreeting | TransferRequest | TransferDone | TransferFailure,
) -> None:
    assert decode_message(encode(message)) == message


@given(garbage=st.binary(max_size=100))
def test_what_is_no_message_is_refused_in_words(garbage: bytes) -> None:
    try:
        decode_message(garbage)
    except KVTransferError as refusal:
        assert "cannot be read" in str(refusal)


def test_what_an_engine_says_of_its_failure_is_the_reason(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    TransferChannel(here, 1).send_message(TransferFailure("it rains"))
    with pytest.raises(KVTransferError, match="it rains"):
        TransferChannel(there, 1).read_message()


def test_a_frame_that_does_not_end_is_not_waited_for(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    here.send(FrameHeader(KV, 10).pack_header(b"0123456789") + b"0123")
    channel = TransferChannel(there, 0.05)
    header = channel.read_header()
    with pytest.raises(KVTransferError, match="too slow"):
        channel.read_into(memoryview(bytearray(header.size)))


def test_what_one_process_writes_the_other_reads(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    ours, theirs = send_segment(here, 4096), receive_segment(there, 4096)
    ours.slot_view(3)[:5] = b"hello"
    assert bytes(theirs.slot_view(3)[:5]) == b"hello"
    with pytest.raises(KVTransferError):
        theirs.slot_view(4)


def test_shared_memory_of_another_size_is_not_touched(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = ends
    send_segment(here, 4096)
    with pytest.raises(KVTransferError):
        receive_segment(there, 8192)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 3,
        b"\0" * 64,
        FrameHeader(KV, 10).pack_header(b"0123456789") + b"0123456789",
        FrameHeader(KV, 2**32 - 1).pack_header(b""),
        b"",
    ],
)
async def test_strangers_at_its_port_are_sent_away_and_harm_nobody(
    reference: Callable[[str], Reference], said: bytes
) -> None:
    with pair(reference("qwen3")[0], disaggregation_transfer="tcp") as engines:
        with socket.create_connection(("127.0.0.1", engines.prefill.bootstrap_port or 0)) as stranger:
            with suppress(OSError):  # it may be sent away before it has said all
                stranger.sendall(said)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(1024):
                    pass
        prompt = random_tokens(64)
        alone = tokens(await whole(engines.decode.submit_request(prompt, GREEDY)))
        engines.decode.flush_cache()
        assert tokens(await engines.answer(prompt)) == alone
        assert transfers(engines.decode).complete == 1
