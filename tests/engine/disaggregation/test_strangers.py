"""Who speaks the protocol and means no good, or knows no better; and a system that has nothing left."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from engine.conftest import Reference
from radixway.engine.disaggregation.transfer_channel import (
    PROTOCOL,
    KVTransferError,
    TransferChannel,
    TransferFailure,
    TransferGreeting,
    TransferRequest,
)
from radixway.engine.kv_identity import digest_tokens
from support.driving import random_tokens
from support.pairs import GREEDY, Pair, checked, pair, tokens, transfers, whole

PROMPT = random_tokens(100)
PATIENCE_S = 30


@pytest.fixture(scope="module")
def path(reference: Callable[[str], Reference]) -> Path:
    return reference("qwen3")[0]


@pytest.fixture
def engines(path: Path) -> Iterator[Pair]:
    with pair(path) as engines:
        yield engines


def digest_of(engines: Pair, count: int) -> str:
    """Of the prompt's tokens before `count`, as a slice has them."""
    (sender,) = engines.prefill._core.transfer_manager._senders.values()  # type: ignore[union-attr]
    return digest_tokens(sender.request.tokens[:count].tobytes())


@pytest.mark.parametrize(
    ("first", "stop"), [(-5, 8), (-8, -4), (0, -4), (8, 4), (0, 200), (2**40, 2**41), (-(2**62), 8)]
)
async def test_tokens_that_there_are_not_are_neither_sent_nor_waited_for(
    engines: Pair, first: int, stop: int
) -> None:
    room = engines.room()
    prefilling = await whole(engines.prefill.submit_request(PROMPT, GREEDY, room=room))
    assert prefilling
    identity = engines.prefill._core.transfer_manager.identity.digest  # type: ignore[union-attr]
    with TransferChannel(socket.create_connection(("127.0.0.1", room.port)), PATIENCE_S) as channel:
        assert isinstance(channel.read_message(), TransferGreeting)
        channel.send_message(TransferRequest(room.number, identity, first, stop, digest_of(engines, stop)))
        with pytest.raises(KVTransferError, match="tokens that there are not"):
            channel.read_message()
    await checked(engines.prefill)


def test_who_waits_in_a_room_that_nobody_enters_does_not_hold_up_the_end(path: Path) -> None:
    with pair(path, disaggregation_timeout_s=3600) as engines:
        room = engines.room()
        with TransferChannel(socket.create_connection(("127.0.0.1", room.port)), PATIENCE_S) as channel:
            channel.read_message()
            channel.send_message(TransferRequest(room.number, "i", 0, 8, "t"))
            claimed = engines.prefill._core.transfer_manager._announced  # type: ignore[union-attr]
            while not claimed._waiters:  # it has been heard
                pass
            stopping = threading.Thread(target=engines.prefill.stop, daemon=True)
            stopping.start()
            stopping.join(PATIENCE_S)
            assert not stopping.is_alive()


async def test_a_prefill_engine_does_not_choose_whom_else_on_this_machine_is_talked_to(engines: Pair) -> None:
    name = f"somebody-elses-{uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as other, socket.create_server(("127.0.0.1", 0)) as listening:
        other.bind(f"\0{name}")
        other.listen()
        other.setblocking(False)
        heard: list[Any] = []

        def pretend() -> None:
            with TransferChannel(listening.accept()[0], PATIENCE_S) as channel:
                channel.send_message(TransferGreeting(PROTOCOL, name))
                heard.append(channel.read_message())
                channel.send_message(TransferFailure("no\nERROR everything burns\x1b[31m" + 3000 * "!"))
                channel.wait_until_closed()

        pretending = threading.Thread(target=pretend)
        pretending.start()
        room = replace(engines.room(), port=listening.getsockname()[1])
        alone = tokens(await whole(engines.prefill.submit_request(PROMPT, GREEDY)))
        assert tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY, room=room))) == alone
        pretending.join()
        assert isinstance(heard[0], TransferRequest)
        with pytest.raises(BlockingIOError):
            other.accept()
    (reason,) = engines.received().reasons
    assert reason.startswith("no ERROR everything") and reason.isprintable() and len(reason) == 200


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("radixway-kv-sender", "the other side left"),
        ("radixway-kv-receiver", "no thread could be started for it"),
    ],
)
async def test_where_no_thread_can_be_started_prompts_are_computed_and_later_ones_travel(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    start = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with pair(path, prefill={"disaggregation_timeout_s": 0.5}, disaggregation_transfer="tcp") as engines:
        alone = tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY)))
        engines.decode.flush_cache()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none_left)
            assert tokens(await engines.answer(PROMPT)) == alone
            assert list(engines.received().reasons) == [told]
        await checked(engines.prefill)
        engines.decode.flush_cache()
        assert tokens(await engines.answer(PROMPT)) == alone
        assert transfers(engines.decode).complete == 1
